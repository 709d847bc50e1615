package partialwitness

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/primitives"
)

// anchoredWorld returns a world with ten validators. The first four produce chunks in turn: the one
// with index (height of the anchor + 2) mod 4 produces the chunk. Blocks 0 to 20 are known.
// anchored sets whether EarlyKickout is in force.
func anchoredWorld(t testing.TB, anchored bool) *world {
	t.Helper()
	w := &world{n: 10, makers: 4, head: 20, anchored: anchored, replaced: map[primitives.Hash]primitives.AccountID{}}
	w.grow(20)
	return w
}

// me is the index of the validator whose tracker is tested. It produces no chunks.
const me = 7

func (w *world) tracker(i int) *Tracker {
	return NewTracker(Validator{account(i), secret(account(i))}, w, verify)
}

// message is a kind of message about a chunk, which can be made with and without an anchor.
type message struct {
	name string
	// make returns a signed message; without an anchor (message version 1) if at is nil
	make func(by primitives.AccountID, key primitives.ChunkKey, at *primitives.ChunkAnchor, ord int) Event
}

var messages = []message{
	{"part", func(by primitives.AccountID, key primitives.ChunkKey, at *primitives.ChunkAnchor, ord int) Event {
		return Part{witnessPart(by, key, at, ord), false}
	}},
	{"forwarded part", func(by primitives.AccountID, key primitives.ChunkKey, at *primitives.ChunkAnchor, ord int) Event {
		return Part{witnessPart(by, key, at, ord), true}
	}},
	{"accesses", func(by primitives.AccountID, key primitives.ChunkKey, at *primitives.ChunkAnchor, _ int) Event {
		a := &primitives.ContractAccesses{Key: key, Contracts: []primitives.Hash{{5}}, Anchor: at}
		a.Signature = secret(by).Sign(a.SignedBytes())
		return Accesses{a, false}
	}},
	{"deploys", func(by primitives.AccountID, key primitives.ChunkKey, at *primitives.ChunkAnchor, ord int) Event {
		p := &primitives.PartialContractDeploys{Key: key, Ord: uint64(ord % 6), Part: make([]byte, 100), EncodedLength: 400, Anchor: at}
		p.Signature = secret(by).Sign(p.SignedBytes())
		return Deploys{p}
	}},
}

func witnessPart(by primitives.AccountID, key primitives.ChunkKey, at *primitives.ChunkAnchor, ord int) *primitives.PartialWitness {
	p := &primitives.PartialWitness{EpochID: key.EpochID, ShardID: key.ShardID, HeightCreated: key.HeightCreated, Anchor: at,
		Ord: uint64(ord), Part: []byte(fmt.Sprint("part", ord)), EncodedLength: 40}
	p.Signature = secret(by).Sign(p.SignedBytes())
	return p
}

// kept returns how many chunks a tracker has stored messages of.
func kept(t *Tracker) (n int) {
	for _, s := range t.shards {
		n += len(s.pending.order)
	}
	return n + len(t.deploys.order) + len(t.accessLists.order)
}

func keyAt(h primitives.Height) primitives.ChunkKey {
	return primitives.ChunkKey{EpochID: primitives.Hash{1}, HeightCreated: h}
}

// anchorAt returns the anchor of the chunk at a height on the chain without forks.
func anchorAt(h primitives.Height) *primitives.ChunkAnchor {
	return &primitives.ChunkAnchor{PrevBlock: hashAt(h - 1), PrevPrevBlock: hashAt(h - 2)}
}

// TestAnchorIsRequiredByEpochOfMessage: a message of any kind must have an anchor if and only if
// EarlyKickout is in force in the chunk's epoch. In an unknown epoch both forms pass this check,
// and the message is dropped as irrelevant.
func TestAnchorIsRequiredByEpochOfMessage(t *testing.T) {
	t.Parallel()
	for _, m := range messages {
		for _, anchored := range []bool{false, true} {
			w := anchoredWorld(t, anchored)
			key := keyAt(21)
			p, err := w.Producer(key)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []*primitives.ChunkAnchor{nil, anchorAt(21)} {
				node := w.tracker(me)
				out, err := node.Step(m.make(p.AccountID, key, at, me))
				if right := anchored == (at != nil); right && (err != nil || kept(node) == 0) {
					t.Errorf("%s with anchor %t, EarlyKickout %t: %v, %d kept", m.name, at != nil, anchored, err, kept(node))
				} else if !right && (!errors.Is(err, anchor.ErrForm) || kept(node)+len(out.Send) > 0 || node.counters.WrongForm.Load() != 1) {
					t.Errorf("%s with anchor %t, EarlyKickout %t: %v, %d kept", m.name, at != nil, anchored, err, kept(node))
				}
				unknown := key
				unknown.EpochID = primitives.Hash{9}
				_, err = node.Step(m.make(p.AccountID, unknown, at, me))
				if !errors.Is(err, ErrIrrelevant) || errors.Is(err, anchor.ErrForm) {
					t.Errorf("%s with anchor %t of an unknown epoch: %v", m.name, at != nil, err)
				}
			}
		}
	}
}

// TestSentAnchorFollowsEpochOfChunk: a producer sends messages in the form of its chunk's epoch.
// The anchor consists of the parent and the parent's parent, which is zero for a chunk on the
// genesis block.
func TestSentAnchorFollowsEpochOfChunk(t *testing.T) {
	t.Parallel()
	for _, anchored := range []bool{false, true} {
		for _, h := range []primitives.Height{1, 2, 21} {
			x := newNetwork(t, 1, 10, 4, 0)
			x.anchored = anchored
			x.head = 20
			x.grow(20)
			wit := sample()
			wit.Header.HeightCreated, wit.Header.PrevBlockHash = h, hashAt(h-1)
			want := &primitives.ChunkAnchor{PrevBlock: hashAt(h - 1)}
			if h > 1 {
				want.PrevPrevBlock = hashAt(h - 2)
			}
			if !anchored {
				want = nil
			}
			p, _ := x.Producer(wit.Key())
			out, err := x.nodes[p.AccountID].Step(Made{Witness: wit, Transition: x.transition,
				Accesses: []primitives.Hash{{1}}, Deploys: [][]byte{[]byte("code")}})
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]int{}
			for _, s := range out.Send {
				var got *primitives.ChunkAnchor
				var good bool
				switch m := s.Body.(type) {
				case *primitives.PartialWitness:
					got, good = m.Anchor, m.Signature.Verify(m.SignedBytes(), p.PublicKey)
				case *primitives.ContractAccesses:
					got, good = m.Anchor, m.Signature.Verify(m.SignedBytes(), p.PublicKey)
				case *primitives.PartialContractDeploys:
					got, good = m.Anchor, m.Signature.Verify(m.SignedBytes(), p.PublicKey)
				default:
					continue
				}
				seen[fmt.Sprintf("%T", s.Body)]++
				if !good || (got == nil) != (want == nil) || want != nil && *got != *want {
					t.Errorf("EarlyKickout %t, height %d: %T with %+v, signed %t", anchored, h, s.Body, got, good)
				}
			}
			if len(seen) != 3 {
				t.Errorf("EarlyKickout %t: sends %v", anchored, seen)
			}
		}
	}
}

// TestMessageWithWrongAnchorIsNotStored: the tracker stores nothing of a message whose key or
// anchor contradicts the known blocks, or that is not signed by the producer that the anchor
// determines.
func TestMessageWithWrongAnchorIsNotStored(t *testing.T) {
	t.Parallel()
	unknown := primitives.Hash{99}
	for _, m := range messages {
		for name, c := range map[string]struct {
			at   *primitives.ChunkAnchor
			h    primitives.Height
			by   int // signer; -1: the producer of the height
			want error
		}{
			"another anchor":                         {&primitives.ChunkAnchor{PrevBlock: hashAt(20), PrevPrevBlock: hashAt(18)}, 21, -1, anchor.ErrWrong},
			"an unknown anchor of a known parent":    {&primitives.ChunkAnchor{PrevBlock: hashAt(20), PrevPrevBlock: unknown}, 21, -1, anchor.ErrWrong},
			"another height":                         {anchorAt(21), 22, -1, anchor.ErrWrong},
			"a height below the anchor's grandchild": {&primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: hashAt(20)}, 21, -1, anchor.ErrWrong},
			"no anchor above the genesis":            {&primitives.ChunkAnchor{PrevBlock: unknown}, 21, -1, anchor.ErrWrong},
			"the producer of another anchor":         {anchorAt(21), 21, 2, ErrSigner},
			"a validator that produces nothing":      {anchorAt(21), 21, 8, ErrSigner},
			"the same, with the parent unknown":      {&primitives.ChunkAnchor{PrevBlock: unknown, PrevPrevBlock: hashAt(19)}, 21, 8, ErrSigner},
		} {
			w := anchoredWorld(t, true)
			node := w.tracker(me)
			by := account(c.by)
			if c.by < 0 {
				p, _ := w.Producer(keyAt(c.h))
				by = p.AccountID
			}
			out, err := node.Step(m.make(by, keyAt(c.h), c.at, me))
			n, _ := node.early.Len()
			if !errors.Is(err, c.want) || kept(node)+len(out.Send)+n > 0 {
				t.Errorf("%s, %s: %v, %d kept, %d queued", m.name, name, err, kept(node), n)
			}
		}
	}
}

// TestOnlyReplacementProducerIsAccepted: if a blacklisted producer is replaced for an anchor, only
// messages of the replacement are accepted. The canonical producer is the blacklisted one.
func TestOnlyReplacementProducerIsAccepted(t *testing.T) {
	t.Parallel()
	for _, m := range messages {
		w := anchoredWorld(t, true)
		key, at := keyAt(21), anchorAt(21)
		canonical, _ := w.Producer(key)
		other := account((21 + 1) % 4)
		w.replaced[at.PrevPrevBlock] = other
		node := w.tracker(me)
		if _, err := node.Step(m.make(canonical.AccountID, key, at, me)); !errors.Is(err, ErrSigner) || kept(node) > 0 {
			t.Errorf("%s of the blacklisted producer: %v, %d kept", m.name, err, kept(node))
		}
		if _, err := node.Step(m.make(canonical.AccountID, key, nil, me)); !errors.Is(err, anchor.ErrForm) || kept(node) > 0 {
			t.Errorf("%s of the blacklisted producer without an anchor: %v, %d kept", m.name, err, kept(node))
		}
		if _, err := node.Step(m.make(other, key, at, me)); err != nil || kept(node) == 0 {
			t.Errorf("%s of its replacement: %v", m.name, err)
		}
	}
}

// TestEarlyMessageWaitsForTheParent: a message whose producer cannot be determined without the
// parent is queued, and handled once when the parent is recorded, with the same result as if it
// arrived then.
func TestEarlyMessageWaitsForTheParent(t *testing.T) {
	t.Parallel()
	parent := primitives.Hash{50}
	for _, m := range messages {
		for name, c := range map[string]struct {
			h       primitives.Height
			prev    block // the parent block
			unknown bool  // the anchor becomes known only with the parent
		}{
			"a height was skipped":           {23, block{22, hashAt(20)}, false},
			"the anchor is unknown":          {22, block{21, primitives.Hash{40}}, true},
			"both, and a height was skipped": {23, block{22, primitives.Hash{40}}, true},
		} {
			w := anchoredWorld(t, true)
			node, key := w.tracker(me), keyAt(c.h)
			at := &primitives.ChunkAnchor{PrevBlock: parent, PrevPrevBlock: c.prev.prev}
			by, _ := w.Producer(keyAt(c.h)) // the signer if the anchor is unknown
			if !c.unknown {
				by, _ = w.Producer(keyAt(20 + 2))
			}
			ev := m.make(by.AccountID, key, at, me)
			if out, err := node.Step(ev); err != nil || kept(node)+len(out.Send)+len(out.Work) > 0 {
				t.Fatalf("%s, %s: %v, %d kept", m.name, name, err, kept(node))
			}
			if n, _ := node.early.Len(); n != 1 || node.counters.Queued.Load() != 1 {
				t.Fatalf("%s, %s: %d wait", m.name, name, n)
			}
			if _, err := node.Step(ev); !errors.Is(err, anchor.ErrEarly) {
				t.Errorf("%s, %s, again: %v", m.name, name, err)
			}
			if _, err := node.Step(BlockRecorded{primitives.Hash{51}}); err != nil || kept(node) > 0 {
				t.Errorf("%s, %s: %v with another block", m.name, name, err)
			}
			if c.unknown { // the anchor comes with a height at which the same validator produces
				w.blocks[c.prev.prev] = block{c.h - 2, hashAt(19)}
			}
			w.blocks[parent] = c.prev
			out, err := node.Step(BlockRecorded{parent})
			if err != nil || kept(node) == 0 {
				t.Errorf("%s, %s: %v, %d kept when the parent comes", m.name, name, err, kept(node))
			}
			forwards := slices.ContainsFunc(out.Send, func(s Send) bool { return s.Forward })
			if forwards != (m.name == "part") {
				t.Errorf("%s, %s: forwards %t", m.name, name, forwards)
			}
			if out, err := node.Step(BlockArrived{Hash: parent, Final: 18}); err != nil || len(out.Send) > 0 {
				t.Errorf("%s, %s: handled twice: %v", m.name, name, err)
			}
			if n, bytes := node.early.Len(); n+bytes != 0 || node.counters.Taken.Load() != 1 {
				t.Errorf("%s, %s: %d wait", m.name, name, n)
			}
		}
	}
}

// TestEarlyMessageIsCheckedWithTheParent: a queued message is rejected if the parent shows that the
// signer is not the producer, or that the anchor or height is wrong. If the parent does not arrive,
// the message is dropped once the final height reaches its height.
func TestEarlyMessageIsCheckedWithTheParent(t *testing.T) {
	t.Parallel()
	parent, a := primitives.Hash{50}, primitives.Hash{40}
	for _, m := range messages {
		for name, c := range map[string]struct {
			anchor, parent block
			by             int // replaces the producer for the anchor; -1: none
			want           error
		}{
			"another anchor":       {block{20, hashAt(19)}, block{21, hashAt(20)}, -1, anchor.ErrWrong},
			"another height":       {block{20, hashAt(19)}, block{22, a}, -1, anchor.ErrWrong},
			"another producer":     {block{20, hashAt(19)}, block{21, a}, 1, ErrSigner},
			"anchor still unknown": {block{}, block{21, a}, -1, anchor.ErrEarly},
		} {
			w := anchoredWorld(t, true)
			node, key := w.tracker(me), keyAt(22)
			by, _ := w.Producer(key)
			if _, err := node.Step(m.make(by.AccountID, key, &primitives.ChunkAnchor{PrevBlock: parent, PrevPrevBlock: a}, me)); err != nil {
				t.Fatal(err)
			}
			if c.anchor.height > 0 {
				w.blocks[a] = c.anchor
			}
			w.blocks[parent] = c.parent
			if c.by >= 0 {
				w.replaced[a] = account(c.by)
			}
			if _, err := node.Step(BlockRecorded{parent}); !errors.Is(err, c.want) || kept(node) > 0 {
				t.Errorf("%s, %s: %v, %d kept", m.name, name, err, kept(node))
			}
			if n, _ := node.early.Len(); n > 0 {
				t.Errorf("%s, %s: waits again", m.name, name)
			}
		}
		w := anchoredWorld(t, true)
		node := w.tracker(me)
		by, _ := w.Producer(keyAt(22))
		if _, err := node.Step(m.make(by.AccountID, keyAt(22), &primitives.ChunkAnchor{PrevBlock: parent, PrevPrevBlock: a}, me)); err != nil {
			t.Fatal(err)
		}
		if _, err := node.Step(BlockArrived{Hash: primitives.Hash{60}, Final: 22}); err != nil {
			t.Fatal(err)
		}
		if n, _ := node.early.Len(); n > 0 || node.counters.Expired.Load() != 1 {
			t.Errorf("%s: waits for a parent below the final block", m.name)
		}
	}
}

// TestFloodOfEarlyMessagesIsBounded: for messages with unknown anchors the queue is bounded,
// contains only messages signed by likely producers, and one producer cannot evict the messages of
// another.
func TestFloodOfEarlyMessagesIsBounded(t *testing.T) {
	t.Parallel()
	w := anchoredWorld(t, true)
	node := w.tracker(me)
	parent := primitives.Hash{50}
	quiet, _ := w.Producer(keyAt(23))
	if _, err := node.Step(messages[0].make(quiet.AccountID, keyAt(23), &primitives.ChunkAnchor{PrevBlock: parent, PrevPrevBlock: primitives.Hash{40}}, me)); err != nil {
		t.Fatal(err)
	}
	flooding, _ := w.Producer(keyAt(22))
	const flood = 400
	big := make([]byte, 200<<10)
	for i := range flood {
		at := &primitives.ChunkAnchor{PrevBlock: primitives.HashBytes(fmt.Append(nil, i)), PrevPrevBlock: primitives.HashBytes(fmt.Append(nil, "a", i))}
		p := witnessPart(flooding.AccountID, keyAt(22), at, i%10)
		p.Part = big[:1+i*400]
		p.Signature = secret(flooding.AccountID).Sign(p.SignedBytes())
		if _, err := node.Step(Part{p, true}); err != nil && !errors.Is(err, anchor.ErrEarly) {
			t.Fatal(err)
		}
		for _, m := range messages { // account 9 produces no chunks
			if _, err := node.Step(m.make(account(9), keyAt(22), at, i%6)); !errors.Is(err, ErrSigner) {
				t.Fatalf("%s of an unassigned account: %v", m.name, err)
			}
		}
	}
	n, bytes := node.early.Len()
	if n > anchor.MaxQueued/4+1 || bytes > anchor.MaxQueuedBytes/4+4096 || n < 10 {
		t.Errorf("%d messages of %d bytes wait", n, bytes)
	}
	if c := node.counters; c.Unsigned.Load() != flood*uint64(len(messages)) || c.Refused.Load() == 0 || c.Waiting.Load() != int64(n) ||
		c.WaitingBytes.Load() != int64(bytes) {
		t.Errorf("%d unsigned, %d refused, %d wait", c.Unsigned.Load(), c.Refused.Load(), c.Waiting.Load())
	}
	if kept(node) > 0 {
		t.Errorf("%d chunks are kept", kept(node))
	}
	w.blocks[primitives.Hash{40}], w.blocks[parent] = block{21, hashAt(20)}, block{22, primitives.Hash{40}}
	if _, err := node.Step(BlockRecorded{parent}); err != nil || kept(node) != 1 {
		t.Errorf("%v: the message of the quiet producer was evicted", err)
	}
}

// TestWitnessesOfTwoForksDoNotMix: on two forks a chunk key may have two producers. Their messages
// are collected separately, and both witnesses are validated.
func TestWitnessesOfTwoForksDoNotMix(t *testing.T) {
	t.Parallel()
	w := anchoredWorld(t, true)
	fork := primitives.Hash{70} // another block of height 19, with another producer of the chunk at height 21
	w.blocks[fork] = block{19, hashAt(18)}
	w.replaced[fork] = account(3)
	node, key := w.tracker(me), keyAt(21)
	var pending []PendingWitness
	trees := map[primitives.AccountID][]*primitives.PartialWitness{}
	for _, at := range []*primitives.ChunkAnchor{anchorAt(21), {PrevBlock: primitives.Hash{71}, PrevPrevBlock: fork}} {
		p, err := w.ProducerAt(key, *at)
		if err != nil {
			t.Fatal(err)
		}
		wit := sample()
		wit.Header.HeightCreated, wit.Header.PrevBlockHash = 21, at.PrevBlock
		payload, err := Encode(wit)
		if err != nil {
			t.Fatal(err)
		}
		if trees[p.AccountID], err = Parts(key, at, payload, w.n, secret(p.AccountID)); err != nil {
			t.Fatal(err)
		}
	}
	if len(trees) != 2 {
		t.Fatalf("%d producers", len(trees))
	}
	acks := map[primitives.AccountID]int{}
	for i := range w.n {
		for by, parts := range trees {
			out, err := node.Step(Part{parts[i], true})
			if err != nil && !errors.Is(err, ErrKnown) {
				t.Fatalf("part %d of %s: %v", i, by, err)
			}
			for _, work := range out.Work {
				work.Run()
				out, err := node.Step(Worked{work})
				if err != nil {
					t.Fatal(err)
				}
				pending = append(pending, out.Validate...)
				for _, s := range out.Send {
					acks[s.To[0]]++
				}
			}
		}
	}
	if len(pending) != 2 || pending[0].Witness.Header.PrevBlockHash == pending[1].Witness.Header.PrevBlockHash {
		t.Fatalf("%d witnesses are to be validated", len(pending))
	}
	for by := range trees {
		if acks[by] != 1 {
			t.Errorf("%s gets %d acknowledgements", by, acks[by])
		}
	}
}

// TestChunkOfWrongParentIsNotEndorsed: the producer on an abandoned anchor may sign a witness with
// the previous block of another producer's chunk, before that block is known. Once the block is
// known, the chunk is not endorsed.
func TestChunkOfWrongParentIsNotEndorsed(t *testing.T) {
	t.Parallel()
	w := anchoredWorld(t, true)
	parent := primitives.Hash{71} // a block at height 20, whose real parent is block 18
	node, key, at := w.tracker(me), keyAt(21), &primitives.ChunkAnchor{PrevBlock: parent, PrevPrevBlock: hashAt(19)}
	p, err := w.ProducerAt(key, *at)
	if err != nil {
		t.Fatal(err)
	}
	collect := func(prev primitives.Hash) (pending []PendingWitness, err error) {
		wit := sample()
		wit.Header.HeightCreated, wit.Header.PrevBlockHash = 21, prev
		payload, err := Encode(wit)
		if err != nil {
			t.Fatal(err)
		}
		parts, err := Parts(key, at, payload, w.n, secret(p.AccountID))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts[:6] {
			out, err := node.Step(Part{part, true})
			if err != nil {
				return pending, err
			}
			for _, work := range out.Work {
				work.Run()
				if out, err = node.Step(Worked{work}); err != nil {
					return pending, err
				}
				pending = append(pending, out.Validate...)
			}
		}
		return pending, nil
	}
	if pending, err := collect(hashAt(20)); !errors.Is(err, ErrPart) || len(pending) > 0 {
		t.Errorf("a witness on another block than its parts name: %v", err)
	}
	node = w.tracker(me)
	pending, err := collect(parent)
	if err != nil || len(pending) != 1 {
		t.Fatalf("%v, %d witnesses", err, len(pending))
	}
	for _, c := range []struct {
		prev primitives.Hash
		good bool
	}{{hashAt(18), false}, {hashAt(19), true}} {
		w.blocks[parent] = block{20, c.prev}
		out, err := node.Step(WitnessValidated{PendingWitness: pending[0], Good: true})
		if endorsed := len(out.Send) > 0; endorsed != c.good || c.good != (err == nil) || !c.good && !errors.Is(err, anchor.ErrWrong) {
			t.Errorf("the parent is on %v: endorses %t, %v", c.prev, endorsed, err)
		}
	}
}

// TestPartsOfOneParentAreKept: one producer can sign parts for several previous blocks with one
// anchor. The tracker accepts those of the first and stores nothing of the others.
func TestPartsOfOneParentAreKept(t *testing.T) {
	t.Parallel()
	w := anchoredWorld(t, true)
	node, key := w.tracker(me), keyAt(21)
	p, _ := w.Producer(key)
	for i := range 100 {
		at := &primitives.ChunkAnchor{PrevBlock: primitives.Hash{byte(100 + i)}, PrevPrevBlock: hashAt(19)}
		_, err := node.Step(Part{witnessPart(p.AccountID, key, at, 1+i%6), true})
		if i == 0 && err != nil || i > 0 && !errors.Is(err, ErrPart) && !errors.Is(err, ErrKnown) {
			t.Fatalf("part %d: %v", i, err)
		}
	}
	if kept(node) != 1 {
		t.Errorf("%d witnesses are collected", kept(node))
	}
}

// TestHeldChunkOfWrongHeightIsRefused: from EarlyKickout on the height of a chunk must be that of
// its previous block plus one, also if the chunk is endorsed without its witness.
func TestHeldChunkOfWrongHeightIsRefused(t *testing.T) {
	t.Parallel()
	for _, anchored := range []bool{false, true} {
		w := anchoredWorld(t, anchored)
		for _, h := range []primitives.Height{20, 21, 22} {
			node := w.tracker(me)
			out, err := node.Step(Held{keyAt(h), primitives.Hash{1}, hashAt(20)})
			if want := !anchored || h == 21; want != (err == nil && len(out.Send) == 1) || !want && !errors.Is(err, anchor.ErrWrong) {
				t.Errorf("EarlyKickout %t, height %d: %d messages, %v", anchored, h, len(out.Send), err)
			}
		}
	}
}

// TestCodeIsUsedForForkThatRequestedIt: a code response has no anchor. It is used for the witness
// for which the code was requested from that producer.
func TestCodeIsUsedForForkThatRequestedIt(t *testing.T) {
	t.Parallel()
	w := anchoredWorld(t, true)
	fork := primitives.Hash{70}
	w.blocks[fork] = block{19, hashAt(18)}
	w.replaced[fork] = account(3)
	node, key := w.tracker(me), keyAt(21)
	codes := map[primitives.AccountID][]byte{}
	for i, at := range []*primitives.ChunkAnchor{anchorAt(21), {PrevBlock: primitives.Hash{71}, PrevPrevBlock: fork}} {
		p, err := w.ProducerAt(key, *at)
		if err != nil {
			t.Fatal(err)
		}
		codes[p.AccountID] = []byte{byte(i)}
		a := &primitives.ContractAccesses{Key: key, Contracts: []primitives.Hash{primitives.HashBytes([]byte{byte(i)})}, Anchor: at}
		a.Signature = secret(p.AccountID).Sign(a.SignedBytes())
		out, err := node.Step(Accesses{a, false})
		if err != nil || len(out.Send) != 1 || out.Send[0].To[0] != p.AccountID {
			t.Fatalf("%v, requests %+v", err, out.Send)
		}
	}
	for _, by := range []primitives.AccountID{account(3), account(1)} {
		r := &primitives.ContractCodeResponse{Key: key, Responder: by, Compressed: EncodeContracts([][]byte{codes[by]})}
		r.Signature = secret(by).Sign(r.SignedBytes())
		out, err := node.Step(Code{r})
		if err != nil || len(out.Work) != 1 {
			t.Fatalf("code of %s: %v", by, err)
		}
		out.Work[0].Run()
		if _, err := node.Step(Worked{out.Work[0]}); err != nil {
			t.Errorf("code of %s: %v", by, err)
		}
		if _, err := node.Step(Code{r}); !errors.Is(err, ErrUnasked) {
			t.Errorf("code of %s again: %v", by, err)
		}
	}
}

// TestEachWrongEarlyMessageIsCounted: one block may show that several queued messages are wrong.
// The counters count each of them once, and each lookup of a producer under its kind of message.
func TestEachWrongEarlyMessageIsCounted(t *testing.T) {
	t.Parallel()
	w := anchoredWorld(t, true)
	node, parent := w.tracker(me), primitives.Hash{50}
	at := &primitives.ChunkAnchor{PrevBlock: parent, PrevPrevBlock: hashAt(20)}
	by, _ := w.Producer(keyAt(22))
	for i, m := range messages {
		if _, err := node.Step(m.make(by.AccountID, keyAt(23), at, i)); err != nil {
			t.Fatalf("%s: %v", m.name, err)
		}
	}
	n := uint64(len(messages))
	w.blocks[parent] = block{22, hashAt(19)} // a parent other than the anchor that the messages contain
	if _, err := node.Step(BlockRecorded{parent}); !errors.Is(err, anchor.ErrWrong) {
		t.Fatal(err)
	}
	if _, err := node.Step(BlockArrived{Hash: parent, Final: 18}); err != nil {
		t.Fatal(err)
	}
	if c := node.counters; c.Queued.Load() != n || c.Taken.Load() != n || c.WrongPlace.Load() != n {
		t.Errorf("of %d messages %d waited, %d were taken, %d are counted as wrong", n, c.Queued.Load(), c.Taken.Load(), c.WrongPlace.Load())
	}
	want := map[string]uint64{anchor.MessageWitness: 4, anchor.MessageAccesses: 2, anchor.MessageDeploys: 2}
	got := map[string]uint64{}
	for of, count := range node.counters.Lookups() {
		got[of.Message] += count
		if of.Result != anchor.LookupHit || of.Shard != "0" {
			t.Errorf("%d lookups %+v", count, of)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("lookups %v, want %v", got, want)
	}
}
