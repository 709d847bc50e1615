package chunkparts

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/primitives"
)

// anchoredNetwork returns a network with ten parts for each chunk. All nodes know the blocks of
// heights 0 to 20. kickout sets whether EarlyKickout is in force, in epochs {1} and {2}.
func anchoredNetwork(t testing.TB, kickout bool) *network {
	n := newNetwork(t, 1, 10, 0)
	n.anchored = map[primitives.EpochID]bool{{1}: kickout, {2}: kickout}
	for h := range primitives.Height(21) {
		n.block(hashAt(h), h, hashAt(h-min(h, 1)), true)
	}
	n.parents[hashAt(0)] = primitives.Hash{}
	for _, p := range n.nodes {
		if _, err := p.Step(0, Head{Hash: hashAt(20), Prev: hashAt(19), Height: 20}); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func hashAt(h primitives.Height) primitives.Hash { return primitives.Hash{0xb0, byte(h)} }

// block adds a block to the network. known sets whether all nodes know it.
func (n *network) block(hash primitives.Hash, h primitives.Height, prev primitives.Hash, known bool) {
	n.heights[hash], n.parents[hash] = h+1, prev
	for _, e := range n.views {
		e.known[hash] = known
	}
}

// on returns a partial chunk of shard 0 with all parts and receipts, on the block prev, signed by
// the given producer. at is the PrevPrevBlock of its anchor.
func (n *network) on(by primitives.AccountID, prev primitives.Hash, h primitives.Height, at primitives.Hash) *primitives.PartialChunk {
	n.t.Helper()
	c, coded, err := chain.BuildChunk(&chain.ChunkInput{PrevBlock: prev, Height: h, Extra: new(chain.ChunkExtra), Layout: n.layout, Coding: n.rs,
		Outgoing: []*primitives.Receipt{{PredecessorID: "system", ReceiverID: "zz", Body: &primitives.DataReceipt{Data: make([]byte, 900)}}}}, secret(by))
	if err != nil {
		n.t.Fatal(err)
	}
	x := &primitives.PartialChunk{Header: c.Header, Receipts: chain.ProveReceipts(0, c.PrevOutgoingReceipts, n.layout),
		Anchor: &primitives.PartialChunkAnchor{PrevPrevBlock: at, EpochID: primitives.Hash{1}}}
	for i, path := range coded.Tree.Paths() {
		x.Parts = append(x.Parts, primitives.ChunkPart{Ord: uint64(i), Part: coded.Parts[i], Proof: path})
	}
	return x
}

// with returns a copy of a partial chunk with only the parts ords and with another anchor.
func with(c *primitives.PartialChunk, at *primitives.PartialChunkAnchor, ords ...int) Partial {
	x := *c
	x.Anchor, x.Parts = at, nil
	for _, ord := range ords {
		x.Parts = append(x.Parts, c.Parts[ord])
	}
	return Partial{&x}
}

// empty returns whether a pool stores nothing.
func empty(p *Pool) bool {
	n, bytes := p.early.Len()
	return len(p.entries)+len(p.bySlot)+len(p.forwards)+n+bytes == 0
}

// maker returns the producer of the chunk of shard 0 on a block of the network.
func (n *network) maker(prev primitives.Hash) primitives.AccountID {
	v, err := n.views[producers[0]].Maker(prev, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	return v.AccountID
}

// TestAnchorIsRequiredByEpochOfChunk: a partial chunk must have an anchor if and only if
// EarlyKickout is in force in the chunk's epoch, whether its previous block is known or not. If the
// epoch is unknown both forms are accepted. Messages of the pool have the form of their epoch.
func TestAnchorIsRequiredByEpochOfChunk(t *testing.T) {
	t.Parallel()
	for _, kickout := range []bool{false, true} {
		for _, parent := range []primitives.Hash{hashAt(20), {99}} {
			n := anchoredNetwork(t, kickout)
			at, h := hashAt(19), primitives.Height(21)
			if parent != hashAt(20) {
				at, h = hashAt(20), 22
				n.block(parent, 21, at, false)
			}
			c := n.on(n.maker(parent), parent, h, at)
			for _, anchored := range []bool{false, true} {
				p, form := map[bool]*Pool{false: n.nodes[producers[1]], true: n.nodes[producers[2]]}[anchored], c.Anchor
				if !anchored {
					form = nil
				}
				_, err := p.Step(0, with(c, form, 2))
				if right := anchored == kickout; right && (err != nil || empty(p)) {
					t.Errorf("EarlyKickout %t, anchor %t, on %v: %v", kickout, anchored, parent, err)
				} else if !right && (!errors.Is(err, anchor.ErrForm) || !empty(p) || p.counters.WrongForm.Load() != 1) {
					t.Errorf("EarlyKickout %t, anchor %t, on %v: %v", kickout, anchored, parent, err)
				}
				unknown := &primitives.PartialChunkAnchor{PrevPrevBlock: at, EpochID: primitives.Hash{9}}
				p = n.nodes[producers[3]]
				if _, err := p.Step(0, with(c, unknown, 3)); err == nil || errors.Is(err, anchor.ErrForm) || !empty(p) {
					t.Errorf("EarlyKickout %t, of an unknown epoch: %v", kickout, err)
				}
			}
		}
		for _, h := range []primitives.Height{1, 2, 21} {
			n := anchoredNetwork(t, kickout)
			by := n.maker(hashAt(h - 1))
			c, coded, err := chain.BuildChunk(&chain.ChunkInput{PrevBlock: hashAt(h - 1), Height: h, Extra: new(chain.ChunkExtra), Layout: n.layout,
				Coding: n.rs}, secret(by))
			if err != nil {
				t.Fatal(err)
			}
			out, err := n.nodes[by].Step(0, Made{c, coded})
			if err != nil || len(out.Send) == 0 {
				t.Fatalf("%v, %d messages", err, len(out.Send))
			}
			want := primitives.PartialChunkAnchor{EpochID: primitives.Hash{1}}
			if h > 1 {
				want.PrevPrevBlock = hashAt(h - 2)
			}
			for _, s := range out.Send {
				if got := s.Body.(*primitives.PartialChunk).Anchor; (got != nil) != kickout || kickout && *got != want {
					t.Errorf("EarlyKickout %t, height %d: sends anchor %+v", kickout, h, got)
				}
			}
		}
	}
}

// TestChunkWithWrongAnchorIsNotStored: the pool stores nothing of a partial chunk whose key or
// anchor contradicts the known blocks, or whose header is not signed by the producer that the
// anchor determines. The anchor is not signed, so the same header with the right anchor is accepted
// afterwards.
func TestChunkWithWrongAnchorIsNotStored(t *testing.T) {
	t.Parallel()
	n := anchoredNetwork(t, true)
	other := primitives.Hash{99}
	n.block(other, 21, hashAt(20), false)
	n.replaced[hashAt(19)] = map[primitives.ShardID]primitives.AccountID{0: producers[1]}
	for name, x := range map[string]struct {
		prev primitives.Hash
		h    primitives.Height
		by   primitives.AccountID
		at   primitives.PartialChunkAnchor
		want error
	}{
		"another anchor":                     {hashAt(20), 21, producers[1], primitives.PartialChunkAnchor{PrevPrevBlock: hashAt(16), EpochID: primitives.Hash{1}}, anchor.ErrWrong},
		"an unknown anchor":                  {hashAt(20), 21, producers[1], primitives.PartialChunkAnchor{PrevPrevBlock: other, EpochID: primitives.Hash{1}}, anchor.ErrWrong},
		"another epoch":                      {hashAt(20), 21, producers[1], primitives.PartialChunkAnchor{PrevPrevBlock: hashAt(19), EpochID: primitives.Hash{2}}, anchor.ErrWrong},
		"another height":                     {hashAt(20), 22, producers[1], primitives.PartialChunkAnchor{PrevPrevBlock: hashAt(19), EpochID: primitives.Hash{1}}, anchor.ErrWrong},
		"no anchor":                          {other, 22, producers[1], primitives.PartialChunkAnchor{EpochID: primitives.Hash{1}}, anchor.ErrWrong},
		"too low":                            {other, 21, producers[1], primitives.PartialChunkAnchor{PrevPrevBlock: hashAt(20), EpochID: primitives.Hash{1}}, anchor.ErrWrong},
		"of a blacklisted producer":          {hashAt(20), 21, producers[0], primitives.PartialChunkAnchor{PrevPrevBlock: hashAt(19), EpochID: primitives.Hash{1}}, ErrSignature},
		"unknown producer, parent not known": {other, 22, producers[3], primitives.PartialChunkAnchor{PrevPrevBlock: hashAt(20), EpochID: primitives.Hash{1}}, ErrSignature},
		"unknown producer, nothing known":    {other, 22, producers[3], primitives.PartialChunkAnchor{PrevPrevBlock: primitives.Hash{98}, EpochID: primitives.Hash{1}}, ErrSignature},
		"unknown producer, heights skipped":  {other, 24, producers[3], primitives.PartialChunkAnchor{PrevPrevBlock: hashAt(20), EpochID: primitives.Hash{1}}, ErrSignature},
		"too far, nothing known":             {other, 26, producers[0], primitives.PartialChunkAnchor{PrevPrevBlock: primitives.Hash{98}, EpochID: primitives.Hash{1}}, ErrHorizon},
	} {
		t.Run(name, func(t *testing.T) {
			p := n.nodes[producers[2]]
			c := n.on(x.by, x.prev, x.h, primitives.Hash{})
			if out, err := p.Step(0, with(c, &x.at, 2)); !errors.Is(err, x.want) || !empty(p) || len(out.Send)+len(out.Ready) > 0 {
				t.Errorf("got %v, want %v", err, x.want)
			}
		})
	}
	p := n.nodes[producers[2]]
	c := n.on(producers[1], hashAt(20), 21, hashAt(19))
	if out, err := p.Step(0, with(c, c.Anchor, 2)); err != nil || len(out.Ready)+len(out.Complete) == 0 && len(p.entries) == 0 {
		t.Errorf("the right one: %v", err)
	}
}

// TestEarlyChunkWaitsForItsPrevBlock: parts and receipts whose producer the anchor does not
// determine are queued and occupy no slot. They are handled when the previous block arrives, and
// own parts are forwarded then.
func TestEarlyChunkWaitsForItsPrevBlock(t *testing.T) {
	t.Parallel()
	parent := primitives.Hash{99}
	for name, x := range map[string]struct {
		h    primitives.Height
		at   primitives.Hash
		tail bool
	}{
		"heights were skipped":    {23, hashAt(20), false},
		"at the end of an epoch":  {22, hashAt(20), true},
		"the anchor is not known": {23, primitives.Hash{98}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := anchoredNetwork(t, true)
			n.tails[hashAt(20)] = x.tail
			n.block(primitives.Hash{98}, 21, hashAt(20), false)
			n.block(parent, x.h-1, x.at, false)
			c := n.on(n.maker(parent), parent, x.h, x.at)
			p := n.nodes[producers[2]]
			for _, ev := range []Event{with(c, c.Anchor, 2), with(c, c.Anchor, 5, 6), with(c, c.Anchor, 2)} {
				if out, err := p.Step(0, ev); err != nil && !errors.Is(err, anchor.ErrEarly) || len(out.Send)+len(out.Ready)+len(p.entries)+len(p.bySlot) > 0 {
					t.Fatalf("got %v, %d entries", err, len(p.entries))
				}
			}
			if waits, _ := p.early.Len(); waits != 3+len(c.Receipts) || p.counters.Queued.Load() != uint64(waits) {
				t.Errorf("%d messages wait", waits)
			}
			if _, err := p.Step(0, BlockArrived{primitives.Hash{97}}); err != nil || len(p.entries) > 0 {
				t.Errorf("%v with another block", err)
			}
			n.block(primitives.Hash{98}, 21, hashAt(20), true)
			n.block(parent, x.h-1, x.at, true)
			out, err := p.Step(0, BlockArrived{parent})
			if err != nil || len(out.Ready) != 1 || len(out.Complete) != 1 || out.Complete[0].Chunk.Hash != c.Header.ChunkHash() {
				t.Errorf("got %v, %d ready, %d complete", err, len(out.Ready), len(out.Complete))
			}
			if !slices.ContainsFunc(out.Send, func(s Send) bool { _, ok := s.Body.(*primitives.ChunkForward); return ok }) {
				t.Error("own parts are not forwarded")
			}
			if waits, bytes := p.early.Len(); waits+bytes > 0 || p.counters.Taken.Load() == 0 {
				t.Errorf("%d messages wait", waits)
			}
		})
	}
}

// TestWrongAnchorDoesNotLoseEarlyPart: the anchor of a partial chunk is not signed, and each part
// is queued once. So any node can make a part wait with a wrong anchor. When the previous block is
// known the part is accepted by the right anchor, since the producer's own message was not queued.
func TestWrongAnchorDoesNotLoseEarlyPart(t *testing.T) {
	t.Parallel()
	parent := primitives.Hash{99}
	for name, at := range map[string]*primitives.PartialChunkAnchor{
		"an unknown anchor": {PrevPrevBlock: primitives.Hash{77}, EpochID: primitives.Hash{1}},
		"an older anchor":   {PrevPrevBlock: hashAt(16), EpochID: primitives.Hash{1}},
	} {
		t.Run(name, func(t *testing.T) {
			n := anchoredNetwork(t, true)
			n.block(parent, 22, hashAt(20), false)
			c := n.on(n.maker(parent), parent, 23, hashAt(20))
			p := n.nodes[producers[2]]
			if _, err := p.Step(0, with(c, at, 2)); err != nil && !errors.Is(err, anchor.ErrEarly) || p.counters.Queued.Load() == 0 {
				t.Fatalf("got %v", err)
			}
			if _, err := p.Step(0, with(c, c.Anchor, 2, 5, 6)); !errors.Is(err, anchor.ErrEarly) {
				t.Fatalf("the producer's message: %v", err)
			}
			n.block(parent, 22, hashAt(20), true)
			if out, err := p.Step(0, BlockArrived{parent}); err != nil || len(out.Ready) != 1 || len(out.Complete) != 1 {
				t.Errorf("got %v, %d ready, %d complete", err, len(out.Ready), len(out.Complete))
			}
		})
	}
}

// TestChunkOfOldEpochIsNotQueued: a partial chunk of an epoch that is over is not queued, even if a
// producer of that epoch has signed it: former validators must not fill the queue.
func TestChunkOfOldEpochIsNotQueued(t *testing.T) {
	t.Parallel()
	for id, queued := range map[primitives.EpochID]bool{{1}: true, {2}: true, {0, 7}: false} {
		n := anchoredNetwork(t, true)
		n.anchored[id] = true
		parent, at := primitives.Hash{99}, &primitives.PartialChunkAnchor{PrevPrevBlock: primitives.Hash{77}, EpochID: id}
		n.block(parent, 22, hashAt(20), false)
		c := n.on(n.maker(parent), parent, 23, hashAt(20))
		p := n.nodes[producers[2]]
		if _, err := p.Step(0, with(c, at, 2)); err != nil && !errors.Is(err, anchor.ErrEarly) || empty(p) == queued {
			t.Errorf("epoch %v: %v, the pool is empty: %t", id, err, empty(p))
		}
	}
}

// TestEarlyChunkOfWrongProducerIsDropped: a queued partial chunk is rejected if the previous block
// shows that the producer or the height is another. It is dropped once the head is far above its
// height.
func TestEarlyChunkOfWrongProducerIsDropped(t *testing.T) {
	t.Parallel()
	parent := primitives.Hash{99}
	for name, x := range map[string]struct {
		prev     primitives.Hash // the true parent of the previous block
		h        primitives.Height
		replaced bool
		want     error
	}{
		"another height":   {hashAt(20), 21, false, anchor.ErrWrong},
		"another producer": {hashAt(20), 22, true, ErrSignature},
	} {
		t.Run(name, func(t *testing.T) {
			n := anchoredNetwork(t, true)
			n.block(parent, 22, hashAt(20), false)
			c := n.on(n.maker(parent), parent, 23, hashAt(20))
			p := n.nodes[producers[2]]
			if _, err := p.Step(0, with(c, c.Anchor, 2)); err != nil {
				t.Fatal(err)
			}
			if x.replaced {
				n.replaced[hashAt(20)] = map[primitives.ShardID]primitives.AccountID{0: producers[3]}
			}
			n.block(parent, x.h, x.prev, true)
			if out, err := p.Step(0, BlockArrived{parent}); !errors.Is(err, x.want) || !empty(p) || len(out.Ready) > 0 {
				t.Errorf("got %v, want %v", err, x.want)
			}
		})
	}
	n := anchoredNetwork(t, true)
	n.block(parent, 22, hashAt(20), false)
	c := n.on(n.maker(parent), parent, 23, hashAt(20))
	p := n.nodes[producers[2]]
	if _, err := p.Step(0, with(c, c.Anchor, 2)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Step(0, Head{Hash: primitives.Hash{96}, Height: 23 + earlyHorizon}); err != nil || !empty(p) {
		t.Errorf("%v: it waits below the head", err)
	}
}

// TestProducerOfAnotherAnchorTakesNoSlot: the producer on an abandoned anchor can sign chunks for a
// height of another producer, with previous blocks that do not exist. They do not keep the pool
// from accepting the chunk of the other producer.
func TestProducerOfAnotherAnchorTakesNoSlot(t *testing.T) {
	t.Parallel()
	n := anchoredNetwork(t, true)
	fork, parent := primitives.Hash{70}, primitives.Hash{99}
	n.block(fork, 20, hashAt(18), true) // a fork: block 20 has the same height
	n.replaced[fork] = map[primitives.ShardID]primitives.AccountID{0: producers[3]}
	n.block(parent, 21, hashAt(20), false)
	p := n.nodes[producers[2]]
	for i := range 20 { // all its chunks share one slot
		x := n.on(producers[3], primitives.Hash{1, byte(i)}, 22, fork)
		if _, err := p.Step(0, with(x, x.Anchor, 2)); i == 0 && err != nil || i > 0 && !errors.Is(err, ErrOther) {
			t.Fatalf("chunk %d: %v", i, err)
		}
	}
	c := n.on(n.maker(parent), parent, 22, hashAt(20))
	if _, err := p.Step(0, with(c, c.Anchor, 2, 3, 4)); err != nil || len(p.entries) != 2 || len(p.bySlot) != 2 {
		t.Errorf("the chunk on the chain: %v, %d chunks", err, len(p.entries))
	}
	n.block(parent, 21, hashAt(20), true)
	if out, err := p.Step(0, BlockArrived{parent}); err != nil || len(out.Ready) != 1 {
		t.Errorf("%v, %d ready", err, len(out.Ready))
	}
	// a chunk with an anchor other than its block's is rejected when the block arrives
	n = anchoredNetwork(t, true)
	n.block(fork, 20, hashAt(18), true)
	n.replaced[fork] = map[primitives.ShardID]primitives.AccountID{0: producers[3]}
	n.block(parent, 21, hashAt(20), false)
	p = n.nodes[producers[2]]
	x := n.on(producers[3], parent, 22, fork)
	if _, err := p.Step(0, with(x, x.Anchor, 2)); err != nil {
		t.Fatal(err)
	}
	n.block(parent, 21, hashAt(20), true)
	if out, err := p.Step(0, BlockArrived{parent}); !errors.Is(err, ErrSignature) || len(out.Ready)+len(p.entries)+len(p.bySlot) > 0 {
		t.Errorf("a chunk with the anchor of another block: %v, %d chunks", err, len(p.entries))
	}
}

// TestStrippedAnchorDoesNotBlockOriginal: any node can remove the anchor from a partial chunk, or
// add one. The pool still accepts the original, whichever arrives first.
func TestStrippedAnchorDoesNotBlockOriginal(t *testing.T) {
	t.Parallel()
	n := anchoredNetwork(t, true)
	c := n.on(n.maker(hashAt(20)), hashAt(20), 21, hashAt(19))
	forged := &primitives.PartialChunkAnchor{PrevPrevBlock: hashAt(3), EpochID: primitives.Hash{1}}
	for _, first := range []bool{false, true} {
		p := anchoredNetwork(t, true).nodes[producers[2]]
		evs := []Event{with(c, nil, 3), with(c, forged, 4), with(c, c.Anchor, 5)}
		if first {
			slices.Reverse(evs)
		}
		for _, ev := range evs {
			at := ev.(Partial).Anchor
			_, err := p.Step(0, ev)
			want := map[*primitives.PartialChunkAnchor]error{nil: anchor.ErrForm, forged: anchor.ErrWrong}[at]
			if want == nil && err != nil || want != nil && !errors.Is(err, want) {
				t.Errorf("anchor %+v: %v, want %v", at, err, want)
			}
		}
		if e := p.entries[c.Header.ChunkHash()]; e == nil || e.have != 1 {
			t.Error("the chunk was evicted")
		}
	}

	// In the last epoch before EarlyKickout the epoch of a chunk on an unknown block is not
	// certain. The pool stores a partial chunk without an anchor, and drops it when its block shows
	// that it needs one. If the partial chunk with its anchor has arrived too, the chunk stays.
	for _, again := range []bool{false, true} {
		n := anchoredNetwork(t, false)
		n.anchored = map[primitives.EpochID]bool{{2}: true}
		parent := primitives.Hash{99}
		n.block(parent, 21, hashAt(20), false)
		for _, e := range n.views {
			e.epochs, e.later = map[primitives.Hash]primitives.EpochID{parent: {2}}, n.layout
		}
		by, _ := n.views[producers[0]].Producer(primitives.EpochID{2}, 0, 22)
		c := n.on(by.AccountID, parent, 22, hashAt(20))
		c.Anchor.EpochID = primitives.Hash{2}
		p := n.nodes[producers[2]]
		if _, err := p.Step(0, with(c, nil, 2)); err != nil || len(p.entries) != 1 {
			t.Fatalf("%v, %d chunks", err, len(p.entries))
		}
		if again {
			if _, err := p.Step(0, with(c, c.Anchor, 3)); err != nil {
				t.Fatal(err)
			}
		}
		n.block(parent, 21, hashAt(20), true)
		_, err := p.Step(0, BlockArrived{parent})
		if again && (err != nil || len(p.entries) != 1) || !again && (!errors.Is(err, anchor.ErrForm) || !empty(p)) {
			t.Errorf("with an anchor %t: %v, %d chunks", again, err, len(p.entries))
		}
	}
}

// TestFloodOfEarlyChunksIsBounded: whatever peers send with the signed header of an early chunk,
// the queue is bounded, and it holds each part at most once and only with a valid proof.
func TestFloodOfEarlyChunksIsBounded(t *testing.T) {
	t.Parallel()
	n := anchoredNetwork(t, true)
	parent, p := primitives.Hash{99}, n.nodes[producers[2]]
	n.block(parent, 22, hashAt(20), false)
	c := n.on(n.maker(parent), parent, 23, hashAt(20))
	for i := range 50 {
		ords := []int{i % 10, (i * 3) % 10}
		if _, err := p.Step(0, with(c, c.Anchor, ords...)); err != nil && !errors.Is(err, anchor.ErrEarly) {
			t.Fatal(err)
		}
		bad := with(c, c.Anchor, i%10)
		bad.Parts[0].Part = append([]byte{1}, bad.Parts[0].Part...)
		if _, err := p.Step(0, bad); !errors.Is(err, ErrPart) {
			t.Fatalf("a part that is not proven: %v", err)
		}
		bad = with(c, c.Anchor, i%10)
		bad.Receipts = slices.Clone(bad.Receipts)
		bad.Receipts[0].To++
		if _, err := p.Step(0, bad); !errors.Is(err, ErrReceipts) {
			t.Fatalf("receipts that are not proven: %v", err)
		}
	}
	if waits, _ := p.early.Len(); waits > 10+len(c.Receipts) {
		t.Errorf("%d messages of one chunk wait", waits)
	}
	for i := range 2 * anchor.MaxQueued { // other chunks, all signed by the producer, on blocks that do not exist
		x := *c
		x.Header.PrevBlockHash = primitives.HashBytes(fmt.Append(nil, i))
		hash := x.Header.ChunkHash()
		x.Header.Signature = secret(n.maker(parent)).Sign(hash[:])
		x.Receipts = nil
		if _, err := p.Step(0, with(&x, c.Anchor)); err != nil && !errors.Is(err, anchor.ErrEarly) {
			t.Fatal(err)
		}
	}
	if waits, _ := p.early.Len(); waits > anchor.MaxQueued/4 || len(p.entries) > 0 {
		t.Errorf("%d messages wait, %d chunks are kept", waits, len(p.entries))
	}
	n.block(parent, 22, hashAt(20), true)
	if out, err := p.Step(0, BlockArrived{parent}); err != nil || len(out.Complete) != 1 {
		t.Errorf("the first chunk is gone: %v", err)
	}
}

// TestForwardsFollowReplacedProducer: forwards of a chunk on an unknown child of the head are
// accepted if the producer for the head as anchor signed them. Own parts are also forwarded to the
// producer of the next chunk, which the chunk's previous block determines.
func TestForwardsFollowReplacedProducer(t *testing.T) {
	t.Parallel()
	n := anchoredNetwork(t, true)
	parent := primitives.Hash{99}
	n.replaced[hashAt(20)] = map[primitives.ShardID]primitives.AccountID{0: producers[3]}
	n.block(parent, 21, hashAt(20), false)
	p := n.nodes[producers[2]]
	for by, want := range map[primitives.AccountID]error{producers[3]: nil, producers[2]: ErrSignature} {
		c := n.on(by, parent, 22, hashAt(20))
		if _, err := p.Step(0, Forward{primitives.NewChunkForward(&c.Header, c.Parts[3:5])}); want == nil && err != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("a forward of a chunk of %s: %v", by, err)
		}
	}
	// the chunk at height 21 is on block 20, so block 20 is the anchor of the next chunk
	c := n.on(n.maker(hashAt(20)), hashAt(20), 21, hashAt(19))
	out, err := p.Step(0, with(c, c.Anchor, 2))
	if err != nil {
		t.Fatal(err)
	}
	var to []primitives.AccountID
	for _, s := range out.Send {
		to = append(to, s.To)
	}
	if !slices.Contains(to, producers[3]) {
		t.Errorf("own parts go to %v, not to the next producer", to)
	}
}

// TestEachWrongEarlyChunkIsCounted: one block may show that several queued chunks are wrong. The
// counters count each of them, and a valid one among them is still accepted.
func TestEachWrongEarlyChunkIsCounted(t *testing.T) {
	t.Parallel()
	n := anchoredNetwork(t, true)
	parent := primitives.Hash{99}
	n.block(parent, 22, hashAt(20), false)
	c := n.on(n.maker(parent), parent, 23, hashAt(20))
	p := n.nodes[producers[2]]
	for _, ord := range []int{2, 5, 7} {
		// ErrEarly: the receipts are queued already
		if _, err := p.Step(0, with(c, c.Anchor, ord)); err != nil && !errors.Is(err, anchor.ErrEarly) {
			t.Fatal(err)
		}
	}
	waits, _ := p.early.Len()
	n.block(parent, 21, hashAt(20), true) // a height other than that below the chunk's
	if _, err := p.Step(0, BlockArrived{parent}); !errors.Is(err, anchor.ErrWrong) {
		t.Fatal(err)
	}
	if got := p.counters.WrongPlace.Load(); waits < 3 || got != uint64(waits) {
		t.Errorf("%d messages waited, %d are counted as wrong", waits, got)
	}
	if _, err := p.Step(0, BlockArrived{parent}); err != nil || p.counters.WrongPlace.Load() != uint64(waits) {
		t.Errorf("%v, %d are counted after the block came again", err, p.counters.WrongPlace.Load())
	}
	for of, count := range p.counters.Lookups() {
		if of.Message != anchor.MessageChunk || of.Shard != "0" || of.Result != anchor.LookupHit || count != uint64(3+waits) {
			t.Errorf("%d lookups %+v", count, of)
		}
	}
}
