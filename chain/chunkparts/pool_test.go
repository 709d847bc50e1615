package chunkparts

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// one returns a chunk of shard 0 at a height, and its parts. All nodes know its previous block.
// change, if not nil, modifies the chunk before it is signed.
func one(t *testing.T, n *network, h primitives.Height, change func(*primitives.Chunk)) (*primitives.Chunk, []primitives.ChunkPart) {
	t.Helper()
	prev := primitives.Hash{byte(h)}
	for _, e := range n.views {
		e.known[prev] = true
	}
	n.heights[prev] = h
	p, _ := n.views[producers[0]].Producer(primitives.Hash{1}, 0, h)
	c, coded, err := chain.BuildChunk(&chain.ChunkInput{PrevBlock: prev, Height: h, Extra: new(chain.ChunkExtra), Layout: n.layout, Coding: n.rs,
		Outgoing: []*primitives.Receipt{{PredecessorID: "system", ReceiverID: "zz", Body: &primitives.DataReceipt{Data: bytes.Repeat([]byte{7}, 900)}}}}, secret(p.AccountID))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(c)
		c.Hash = c.Header.ChunkHash()
		c.Header.Signature = secret(p.AccountID).Sign(c.Hash[:])
	}
	_, paths := primitives.MerklizeParts(coded.Parts)
	var list []primitives.ChunkPart
	for i := range coded.Parts {
		list = append(list, primitives.ChunkPart{Ord: uint64(i), Part: coded.Parts[i], Proof: paths[i]})
	}
	return c, list
}

// TestInvalidMessageIsNotStored: each invalid message gives an error, and the pool stores nothing
// of it.
func TestInvalidMessageIsNotStored(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 6, nil)
	p := n.nodes[producers[2]]
	if _, err := p.Step(0, Head{Height: 5}); err != nil {
		t.Fatal(err)
	}
	partial := func(change func(*primitives.PartialChunk)) Partial {
		x := &primitives.PartialChunk{Header: c.Header, Parts: slices.Clone(list[2:3]), Receipts: chain.ProveReceipts(0, c.PrevOutgoingReceipts, n.layout)}
		change(x)
		return Partial{x}
	}
	forward := func(change func(*primitives.ChunkForward)) Forward {
		f := primitives.NewChunkForward(&c.Header, slices.Clone(list[3:5]))
		change(f)
		return Forward{f}
	}
	for name, x := range map[string]struct {
		ev   Event
		want error
	}{
		"too far ahead":       {partial(func(c *primitives.PartialChunk) { c.Header.HeightCreated = 11 }), ErrHorizon},
		"another's signature": {partial(func(c *primitives.PartialChunk) { c.Header.Signature = primitives.ZeroED25519Signature }), ErrSignature},
		"another part":        {partial(func(c *primitives.PartialChunk) { c.Parts[0].Ord = 3 }), ErrPart},
		"a changed part":      {partial(func(c *primitives.PartialChunk) { c.Parts[0].Part = append(bytes.Clone(c.Parts[0].Part), 1) }), ErrPart},
		"a number too many":   {partial(func(c *primitives.PartialChunk) { c.Parts[0].Ord = 10 }), ErrPart},
		"other receipts":      {partial(func(c *primitives.PartialChunk) { c.Receipts[0].To = 2 }), ErrReceipts},
		"receipts of another": {partial(func(c *primitives.PartialChunk) { c.Receipts[0].From = 2 }), ErrReceipts},
		"a forward of lies":   {forward(func(f *primitives.ChunkForward) { f.InnerHash[0] ^= 1 }), ErrHeader},
		"a forwarded part":    {forward(func(f *primitives.ChunkForward) { f.Parts[0].Ord = 7 }), ErrPart},
		"a forward by nobody": {forward(func(f *primitives.ChunkForward) { f.Signature = primitives.ZeroED25519Signature }), ErrSignature},
		"an answer to nobody": {Response{&primitives.ChunkResponse{ChunkHash: c.Hash}}, ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			if out, err := p.Step(0, x.ev); !errors.Is(err, x.want) || len(out.Send)+len(out.Ready)+len(out.Complete) > 0 {
				t.Errorf("got %v, want %v", err, x.want)
			}
			if len(p.entries)+len(p.bySlot)+len(p.forwards) > 0 {
				t.Fatalf("%d chunks are kept", len(p.entries))
			}
		})
	}
	if _, err := p.Step(0, partial(func(*primitives.PartialChunk) {})); err != nil {
		t.Fatal(err)
	}
	other, _ := one(t, n, 6, func(c *primitives.Chunk) { c.Header.GasLimit = 1 })
	if _, err := p.Step(0, Partial{&primitives.PartialChunk{Header: other.Header}}); !errors.Is(err, ErrOther) {
		t.Errorf("another chunk of the height: %v", err)
	}
	// a requested chunk stays when the head moves
	if _, err := p.Step(0, Head{Height: 6 + HeightHorizon}); err != nil || len(p.entries) != 1 {
		t.Errorf("%v, %d chunks are kept at the horizon", err, len(p.entries))
	}
	if _, err := p.Step(GiveUp, Tick{}); err != nil {
		t.Error(err)
	}
	if _, err := p.Step(GiveUp, Head{Height: 7 + HeightHorizon}); err != nil || len(p.entries)+len(p.bySlot) != 0 {
		t.Errorf("%v, %d chunks are kept behind the horizon", err, len(p.entries))
	}
	p = newNetwork(t, 1, 10, 0).nodes[producers[0]]
	if _, err := p.Step(0, Head{Hash: c.Header.PrevBlockHash, Height: 5}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * MaxForwards {
		x := c.Header
		x.PrevBlockHash, x.GasLimit = primitives.Hash{99}, primitives.Gas(i)
		if _, err := p.Step(0, Forward{primitives.NewChunkForward(&x, list[3:4])}); !errors.Is(err, ErrSignature) || len(p.forwards) != min(i, MaxForwards) {
			t.Fatalf("by nobody, on an unknown block: %v", err)
		}
		signBy(&x, 0)
		if _, err := p.Step(0, Forward{primitives.NewChunkForward(&x, list[3:4])}); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.forwards) != MaxForwards || len(p.forwardOrder) != MaxForwards {
		t.Errorf("%d forwards of unknown chunks are kept", len(p.forwards))
	}
}

// TestForwardsWithoutHeaderAreBoundedInBytes: a producer can sign any root. The forwards of its
// chunks without header are bounded in bytes, and a part longer than that of the longest chunk is
// rejected.
func TestForwardsWithoutHeaderAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, _ := one(t, n, 4, nil)
	p := n.nodes[producers[2]]
	send := func(i, size int, h primitives.Height) error {
		parts := make([][]byte, n.rs.TotalParts())
		for k := range parts {
			parts[k] = []byte{byte(k)}
		}
		parts[3] = make([]byte, size)
		x := c.Header
		x.GasLimit, x.HeightCreated = primitives.Gas(i), h
		root, paths := primitives.MerklizeParts(parts)
		x.EncodedMerkleRoot = root
		by, err := n.views[producers[2]].Producer(primitives.Hash{1}, 0, h)
		if err != nil {
			t.Fatal(err)
		}
		hash := x.ChunkHash()
		x.Signature = secret(by.AccountID).Sign(hash[:])
		_, err = p.Step(0, Forward{primitives.NewChunkForward(&x, []primitives.ChunkPart{{Ord: 3, Part: parts[3], Proof: paths[3]}})})
		return err
	}
	for i := range 20 {
		if err := send(i, 6<<20, 4); err != nil {
			t.Fatal(err)
		}
	}
	bytes := 0
	for _, list := range p.forwards {
		for i := range list {
			bytes += sizeOf(&list[i].ChunkPart)
		}
	}
	if bytes > MaxForwardBytes || bytes < MaxForwardBytes-7<<20 || bytes != p.forwardBytes || len(p.forwards) != len(p.forwardOrder) {
		t.Errorf("%d bytes of %d chunks wait, counted as %d", bytes, len(p.forwards), p.forwardBytes)
	}
	if err := send(30, MaxCoded/n.rs.DataParts()+1, 4); !errors.Is(err, ErrPart) {
		t.Errorf("a part that is too long: %v", err)
	}
	if err := send(31, 1, 5000); !errors.Is(err, ErrHorizon) {
		t.Errorf("far ahead, on a block that is known: %v", err)
	}
	for len(p.forwardOrder) > 0 {
		p.dropForwards(p.forwardOrder[0])
	}
	if p.forwardBytes != 0 {
		t.Errorf("%d bytes are counted without any", p.forwardBytes)
	}
}

// TestForwardsBeforeHeaderAreUsed: forwards that arrive before the header are used when it arrives.
// Own parts are forwarded once, to validators of the shard and to the producer of its next chunk.
func TestForwardsBeforeHeaderAreUsed(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	p := n.nodes[producers[2]]
	if _, err := p.Step(0, Forward{primitives.NewChunkForward(&c.Header, list[5:8])}); err != nil {
		t.Fatal(err)
	}
	first := Partial{&primitives.PartialChunk{Header: c.Header, Parts: []primitives.ChunkPart{list[2], list[6]}}}
	out, err := p.Step(0, first)
	// This validator has both parts that it owns, and more than the three parts that restore the
	// body.
	if err != nil || len(out.Complete) != 1 || len(out.Ready) != 1 {
		t.Fatalf("%v, %d ready, %d complete", err, len(out.Ready), len(out.Complete))
	}
	var to []primitives.AccountID
	for _, s := range out.Send {
		to = append(to, s.To)
		if f := s.Body.(*primitives.ChunkForward); len(f.Parts) != 1 || f.Parts[0].Ord != 2 || !f.Consistent() {
			t.Errorf("%s gets %d parts", s.To, len(f.Parts))
		}
	}
	if want := []primitives.AccountID{producers[0], producers[1]}; !slices.Equal(to, want) {
		t.Errorf("forwarded to %v, want %v", to, want)
	}
	if out, err := p.Step(0, first); err != nil || len(out.Send)+len(out.Ready)+len(out.Complete) > 0 {
		t.Errorf("again: %v, %+v", err, out)
	}
}

// TestTrackersAreLookedUpOncePerEpoch: a validator that forwards its parts of many chunks of a shard
// looks up the trackers of the shard once in an epoch, and again in the next. It owns the second or
// third part, depending on the epoch.
func TestTrackersAreLookedUpOncePerEpoch(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	p, view := n.nodes[producers[2]], n.views[producers[2]]
	view.trackers = producers[:2]
	forwards := func(h primitives.Height) (to []primitives.AccountID) {
		c, list := one(t, n, h, nil)
		if _, err := p.Step(0, Head{Hash: primitives.Hash{byte(h)}, Height: h - 1}); err != nil {
			t.Fatal(err)
		}
		before := view.lookups
		out, err := p.Step(0, Partial{&primitives.PartialChunk{Header: c.Header, Parts: list[1:3]}})
		if err != nil {
			t.Fatal(err)
		}
		if view.lookups > before+1 {
			t.Errorf("chunk at %d: %d lookups", h, view.lookups-before)
		}
		for _, s := range out.Send {
			to = append(to, s.To)
		}
		return to
	}
	view.epochs = map[primitives.Hash]primitives.EpochID{{11}: {2}, {12}: {2}}
	view.later = n.layout
	view.lookups = 0
	for h := primitives.Height(4); h < 8; h++ {
		if to := forwards(h); !slices.Equal(to, producers[:2]) {
			t.Errorf("chunk at %d: forwarded to %v, want %v", h, to, producers[:2])
		}
	}
	if view.lookups != 1 {
		t.Errorf("%d lookups in the first epoch, want 1", view.lookups)
	}
	view.trackers = producers[3:]
	for h := primitives.Height(11); h < 13; h++ {
		if to := forwards(h); !slices.Contains(to, producers[3]) || slices.Contains(to, producers[1]) {
			t.Errorf("chunk at %d: forwarded to %v, want %v", h, to, producers[3:])
		}
	}
	if view.lookups != 2 {
		t.Errorf("%d lookups in two epochs, want 2", view.lookups)
	}
}

// TestSparingOmitsForwardsToFullOwners: with Sparing, a validator that owns enough parts to restore
// the body gets no forwards.
func TestSparingOmitsForwardsToFullOwners(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0) // three parts restore the body; two of the four validators own three
	c, list := one(t, n, 4, nil)
	for _, sparing := range []bool{true, false} {
		p := n.nodes[producers[2]]
		if p.Sparing = sparing; !sparing {
			c, list = one(t, n, 5, nil)
		}
		out, err := p.Step(0, Partial{&primitives.PartialChunk{Header: c.Header, Parts: []primitives.ChunkPart{list[2], list[6]}}})
		if err != nil || len(out.Ready) != 1 || len(out.Send) == 0 != sparing {
			t.Errorf("sparing %v: %v, %d ready, %d sent to a validator with enough own parts", sparing, err, len(out.Ready), len(out.Send))
		}
	}
}

// TestSparedValidatorRequestsMissingParts: with Sparing, a validator that restores bodies from its
// own parts gets no forwards. If a faulty producer does not send its parts, it requests enough
// parts from one validator shortly after the block, and then from all. It requests no parts that
// arrived meanwhile, and waits longer for a long body.
func TestSparedValidatorRequestsMissingParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		seats   int
		sparing bool
		// by is the producer of the block. want is the validator that gets the first request; if it
		// is empty, any validator may get it except the chunk's producer and this node.
		by, want   primitives.AccountID
		soon, than int64 // times in ms of the first request and of that to all; 0: times as in neard
	}{
		{"by the block's producer", 4, true, producers[3], producers[3], forwardWait, forwardWait + Retry},
		{"by the chunk's producer", 4, true, producers[0], "", forwardWait, forwardWait + Retry},
		{"by an unknown producer", 4, true, "", "", forwardWait, forwardWait + Retry},
		{"own block", 4, true, producers[1], "", forwardWait, forwardWait + Retry},
		{"forwards are sent", 4, false, producers[3], "", 0, 0},
		{"own parts are too few", 10, true, producers[3], "", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNetwork(t, 1, c.seats, 0)
			chunk, list := one(t, n, 4, nil)
			me := producers[1]
			if c.seats == 10 {
				me = producers[2] // owns two parts
			}
			p := n.nodes[me]
			p.Sparing = c.sparing
			step := func(now int64, ev Event) Out {
				t.Helper()
				out, err := p.Step(now, ev)
				if err != nil {
					t.Fatalf("got %v", err)
				}
				return out
			}
			step(0, Head{Hash: chunk.Header.PrevBlockHash, Height: 3})
			wanted := Wanted{Headers: []*primitives.ChunkHeader{&chunk.Header}, Ancestor: chunk.Header.PrevBlockHash, By: c.by}
			if out := step(1000, wanted); len(out.Ask) > 0 {
				t.Errorf("%d questions at once", len(out.Ask))
			}
			if c.soon == 0 {
				if p.Due() != 0 || len(step(1000+forwardWait, Tick{}).Ask) > 0 || len(step(1000+Retry, Tick{}).Ask) == 0 {
					t.Errorf("due at %d, and not as neard asks", p.Due())
				}
				return
			}
			if p.Due() != 1000+c.soon || len(step(1000+c.soon-1, Tick{}).Ask) > 0 || p.Due() != 1000+c.soon {
				t.Errorf("due at %d", p.Due())
			}
			step(1000+c.soon-1, wanted) // the block is handled again
			out := step(1000+c.soon, Tick{})
			if len(out.Ask) != 1 || len(out.Ask[0].Request.Ords) != p.rs.DataParts() || out.Ask[0].PreferPeer || p.Due() != 1000+c.than {
				t.Fatalf("%+v, then due at %d", out.Ask, p.Due())
			}
			who, facts := out.Ask[0].Account, p.epochs[primitives.EpochID{1}]
			if c.want != "" && who != c.want || who == me || who == producers[0] || facts.owners[out.Ask[0].Request.Ords[0]] != who {
				t.Errorf("%s is asked for part %d", who, out.Ask[0].Request.Ords[0])
			}
			if len(step(1000+c.soon, wanted).Ask)+len(step(1000+c.than-1, Tick{}).Ask) > 0 {
				t.Error("asked again")
			}
			if out := step(1000+c.than, Tick{}); len(out.Ask) < 2 {
				t.Errorf("then %+v", out.Ask)
			}
			done := step(1000+c.than, Response{&primitives.ChunkResponse{ChunkHash: chunk.Hash, Parts: list[:p.rs.DataParts()]}})
			if len(done.Complete) != 1 || len(step(5000, Tick{}).Ask) > 0 || p.Due() != 0 {
				t.Errorf("%d complete, due at %d", len(done.Complete), p.Due())
			}
		})
	}
	n := newNetwork(t, 1, 4, 0)
	c, list := one(t, n, 4, nil)
	p := n.nodes[producers[1]]
	p.Sparing = true
	for _, ev := range []Event{Head{Hash: c.Header.PrevBlockHash, Height: 3}, Wanted{Headers: []*primitives.ChunkHeader{&c.Header}, Ancestor: c.Header.PrevBlockHash},
		// the validator's own part arrives slightly late
		Partial{&primitives.PartialChunk{Header: c.Header, Parts: list[1:2]}}, Tick{}} {
		if out, err := p.Step(1, ev); err != nil || len(out.Ask) > 0 {
			t.Errorf("%T: %v, %d questions", ev, err, len(out.Ask))
		}
	}
	if p.Due() != 0 {
		t.Errorf("due at %d, with all there", p.Due())
	}
	for length, ms := range map[uint64]int64{0: forwardWait, forwardWaitBytes: forwardWait + 1, 1 << 20: forwardWait + 16, 1 << 62: Retry} {
		e := &entry{header: new(primitives.ChunkHeader), want: &want{noForwards: true}}
		e.header.EncodedLength = length
		if got := e.retryAfter(); got != ms {
			t.Errorf("a body of %d bytes is waited for %d ms, not %d", length, got, ms)
		}
	}
}

// TestUndecodableChunkIsReportedOnce: signed parts that do not decode are reported once, and never
// requested again.
func TestUndecodableChunkIsReportedOnce(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*primitives.Chunk){
		"transactions": func(c *primitives.Chunk) { c.Header.TxRoot = primitives.Hash{1} },
		"receipts":     func(c *primitives.Chunk) { c.Header.PrevOutgoingReceiptsRoot = primitives.Hash{1} },
		"length":       func(c *primitives.Chunk) { c.Header.EncodedLength-- },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, 1, 10, 0)
			c, list := one(t, n, 4, change)
			p := n.nodes[producers[0]]
			out, err := p.Step(0, Partial{&primitives.PartialChunk{Header: c.Header, Parts: list[3:6]}})
			if err != nil || len(out.Bad) != 1 || len(out.Complete) != 0 {
				t.Errorf("got %v, %d bad", err, len(out.Bad))
			}
			out, err = p.Step(0, Wanted{Headers: []*primitives.ChunkHeader{&c.Header}, Ancestor: c.Header.PrevBlockHash})
			if err != nil || len(out.Bad)+len(out.Ask) != 0 {
				t.Errorf("%s again: %v, %+v", name, err, out)
			}
		})
	}
}

// TestRequestTimesFollowForwarding: a node to which others forward parts waits for them; a node
// that tracks a shard but gets no forwards does not wait. Then it requests own parts and receipts
// from the producer, after 400 ms from other validators, and all parts after 3 s.
func TestRequestTimesFollowForwarding(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, coded := one(t, n, 4, nil)
	head := Head{Hash: c.Header.PrevBlockHash, Height: 3}
	asked := func(me primitives.AccountID, now int64, ev Event) (list []Ask) {
		out, err := n.nodes[me].Step(now, ev)
		if err != nil {
			t.Fatal(err)
		}
		return out.Ask
	}
	me := producers[2] // tracks shards 1 and 2
	wanted := Wanted{Headers: []*primitives.ChunkHeader{&c.Header}, Ancestor: c.Header.PrevBlockHash}
	asked(me, 0, head)
	if list := asked(me, 0, wanted); len(list) != 0 {
		t.Errorf("at once: %+v", list)
	}
	if list := asked(me, 99, Tick{}); len(list) != 0 {
		t.Errorf("after 99 ms: %+v", list)
	}
	list := asked(me, 100, Tick{})
	if len(list) != 1 || list[0].Account != producers[0] || !slices.Equal(list[0].Request.Ords, []uint64{2, 6}) || !slices.Equal(list[0].Request.Shards, []primitives.ShardID{1, 2}) {
		t.Errorf("after 100 ms: %+v", list)
	}
	others, last := map[primitives.AccountID]bool{}, list[0].Account
	for i := range int64(20) {
		for _, a := range asked(me, 400+i*100, Tick{}) {
			if a.Account == last {
				t.Errorf("%s is asked in vain twice in a row", last)
			}
			others[a.Account], last = true, a.Account
		}
	}
	if len(others) != 2 || !others[producers[1]] { // the validators that track shard 0
		t.Errorf("after 400 ms: %v", others)
	}
	parts := 0
	for _, a := range asked(me, 3000, Tick{}) {
		parts += len(a.Request.Ords)
		if len(a.Request.Shards) > 0 {
			t.Errorf("after 3 s receipts are asked for: %+v", a.Request)
		}
	}
	if parts != 10 {
		t.Errorf("after 3 s %d parts", parts)
	}
	if list := asked(me, GiveUp, Tick{}); len(list) != 0 {
		t.Errorf("at the end: %+v", list)
	}
	asked("", 0, head)
	parts = 0
	for _, a := range asked("", 0, wanted) {
		parts += len(a.Request.Ords)
	}
	if parts != 10 {
		t.Errorf("a node that gets no forwards asks for %d parts at once", parts)
	}
	n = newNetwork(t, 1, 10, 0)
	one(t, n, 4, nil)
	// shard 3 is tracked from an earlier epoch, and no validator forwards receipts to it
	n.views[me].more = []primitives.ShardID{3}
	asked(me, 0, head)
	if list := asked(me, 0, wanted); len(list) != 1 || list[0].Account != producers[0] || !slices.Equal(list[0].Request.Shards, []primitives.ShardID{1, 2, 3}) {
		t.Errorf("who holds another shard that it makes no chunks of asks at once: %+v", list)
	}
	n = newNetwork(t, 1, 10, 0)
	one(t, n, 4, nil)
	me = producers[3] // does not produce chunks of shard 0
	n.views[me].more = []primitives.ShardID{0}
	asked(me, 0, head)
	parts = 0
	for _, a := range asked(me, 0, wanted) {
		parts += len(a.Request.Ords)
	}
	if parts != 10 {
		t.Errorf("who holds a shard that it makes no chunks of asks for %d parts at once", parts)
	}
	if list := asked(me, 1, wanted); len(list) != 0 {
		t.Errorf("again: %+v", list)
	}
	n = newNetwork(t, 1, 10, 0)
	one(t, n, 4, nil)
	n.views[me].more = []primitives.ShardID{0}
	asked(me, 0, head)
	own := &primitives.PartialChunk{Header: c.Header, Parts: []primitives.ChunkPart{coded[3], coded[7]}}
	if list := asked(me, 0, Partial{own}); len(list) != 0 {
		t.Errorf("before its block: %+v", list)
	}
	parts = 0
	for _, a := range asked(me, 50, wanted) {
		parts += len(a.Request.Ords)
	}
	if parts != 8 {
		t.Errorf("who has its own parts, and holds the shard, asks for %d parts at once", parts)
	}
	if list := asked(me, 149, Tick{}); len(list) != 0 {
		t.Errorf("99 ms later: %+v", list)
	}
}

// TestChunkOfWrongHeightNeedsItsProducer: a chunk whose height is not its previous block's plus one
// must be signed by the producer of that block's children. Its parts are accepted, forwarded and
// requested like those of other chunks. The producer of the height in the header does not matter.
func TestChunkOfWrongHeightNeedsItsProducer(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, func(c *primitives.Chunk) { c.Header.HeightCreated = 5 })
	if there, _ := n.views[producers[0]].Producer(primitives.Hash{1}, 0, 5); there.AccountID == producers[0] {
		t.Fatal("the same producer at both heights")
	}
	p := n.nodes[producers[2]]
	if _, err := p.Step(0, Head{Hash: c.Header.PrevBlockHash, Height: 3}); err != nil {
		t.Fatal(err)
	}
	out, err := p.Step(0, Wanted{Headers: []*primitives.ChunkHeader{&c.Header}, Ancestor: c.Header.PrevBlockHash})
	if err != nil {
		t.Fatalf("of a block: %v", err)
	}
	if out, err = p.Step(400, Tick{}); err != nil || len(out.Ask) == 0 {
		t.Fatalf("%d asked, %v", len(out.Ask), err)
	}
	for _, a := range out.Ask {
		if a.Account == producers[1] && len(a.Request.Shards) > 0 {
			t.Errorf("receipts are requested from the producer of height 5: %+v", a.Request)
		}
	}
	f := primitives.NewChunkForward(&c.Header, list[6:7])
	if _, err := p.Step(401, Forward{f}); err != nil {
		t.Errorf("a forward: %v", err)
	}
	all := Partial{&primitives.PartialChunk{Header: c.Header, Parts: list, Receipts: chain.ProveReceipts(0, c.PrevOutgoingReceipts, n.layout)}}
	if out, err := p.Step(402, all); err != nil || len(out.Complete) != 1 {
		t.Errorf("%d complete, %v", len(out.Complete), err)
	}
	forged := *c
	forged.Header.Signature = secret(producers[1]).Sign(c.Hash[:])
	q := n.nodes[producers[3]]
	if _, err := q.Step(0, Head{Hash: c.Header.PrevBlockHash, Height: 3}); err != nil {
		t.Fatal(err)
	}
	all.Header = forged.Header
	if out, err := q.Step(0, Partial{all.PartialChunk}); !errors.Is(err, ErrSignature) || len(out.Complete) > 0 {
		t.Errorf("signed by who makes height 5: %v", err)
	}
}

// TestChunkOfWrongHeightBlocksNoOther: a chunk that has the height of another producer's chunk does
// not block that chunk, whichever arrives first. There can be one such chunk for each block.
func TestChunkOfWrongHeightBlocksNoOther(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{true, false} {
		n := newNetwork(t, 1, 10, 0)
		wrongHeight, list := one(t, n, 4, func(c *primitives.Chunk) { c.Header.HeightCreated = 5 })
		again, more := one(t, n, 4, func(c *primitives.Chunk) { c.Header.HeightCreated = 6 })
		right, own := one(t, n, 5, nil)
		p := n.nodes[producers[2]]
		if _, err := p.Step(0, Head{Hash: right.Header.PrevBlockHash, Height: 4}); err != nil {
			t.Fatal(err)
		}
		give := func(c *primitives.Chunk, parts []primitives.ChunkPart) error {
			_, err := p.Step(0, Partial{&primitives.PartialChunk{Header: c.Header, Parts: parts[2:3]}})
			return err
		}
		if !first {
			if err := give(right, own); err != nil {
				t.Fatal(err)
			}
		}
		if err := give(wrongHeight, list); err != nil {
			t.Errorf("one of another height: %v", err)
		}
		if first {
			if err := give(right, own); err != nil {
				t.Errorf("the one of that height: %v", err)
			}
		}
		if err := give(again, more); !errors.Is(err, ErrOther) {
			t.Errorf("a second one on the block: %v", err)
		}
		late, rest := one(t, n, 3, func(c *primitives.Chunk) { c.Header.HeightCreated = HeightHorizon + 40 })
		if _, err := p.Step(0, Head{Hash: right.Header.PrevBlockHash, Height: HeightHorizon + 40}); err != nil {
			t.Fatal(err)
		}
		if err := give(late, rest); !errors.Is(err, ErrHorizon) {
			t.Errorf("on a block far below the head: %v", err)
		}
	}
}

// TestTimesOfChunkAreReported: the times from the header until the validator's own parts, the needed
// receipts and enough parts for the body are present are reported once each.
func TestTimesOfChunkAreReported(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	p := n.nodes[producers[2]] // owns parts 2 and 6, and does not track the shard
	receipts := chain.ProveReceipts(0, c.PrevOutgoingReceipts, n.layout)
	for _, step := range []struct {
		now  int64
		more primitives.PartialChunk
		want []Timed
	}{
		{100, primitives.PartialChunk{Parts: list[2:3]}, nil},
		{120, primitives.PartialChunk{Parts: list[2:3]}, nil},
		{150, primitives.PartialChunk{Receipts: receipts}, []Timed{{Receipts, c.Header.ShardID, 50}}},
		{170, primitives.PartialChunk{Receipts: receipts, Parts: list[6:8]}, []Timed{{OwnParts, c.Header.ShardID, 70}, {Decodable, c.Header.ShardID, 70}}},
		{190, primitives.PartialChunk{Parts: list[1:2]}, nil},
	} {
		step.more.Header = c.Header
		if out, err := p.Step(step.now, Partial{&step.more}); err != nil || !slices.Equal(out.Timed, step.want) {
			t.Errorf("at %d: %v, %+v, want %+v", step.now, err, out.Timed, step.want)
		}
	}
}

// TestUnknownTrackingCompletesNoChunk: while it is unknown which shards are tracked, no chunk
// counts as complete, even if everything is present that a node needs of an untracked shard.
func TestUnknownTrackingCompletesNoChunk(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	p, unknown := n.nodes[producers[2]], errors.New("not known")
	n.views[producers[2]].unknown = unknown
	all := Partial{&primitives.PartialChunk{Header: c.Header, Parts: []primitives.ChunkPart{list[2], list[6]}, Receipts: chain.ProveReceipts(0, c.PrevOutgoingReceipts, n.layout)}}
	if out, err := p.Step(0, all); !errors.Is(err, unknown) || len(out.Complete) > 0 {
		t.Errorf("%v, %d complete", err, len(out.Complete))
	}
	n.views[producers[2]].unknown = nil
	if out, err := p.Step(0, BlockArrived{c.Header.PrevBlockHash}); err != nil || len(out.Complete) != 1 {
		t.Errorf("%v, %d complete", err, len(out.Complete))
	}
}

// signBy signs a header with the key of a shard's chunk producer.
func signBy(h *primitives.ChunkHeader, shard primitives.ShardID) {
	hash := h.ChunkHash()
	h.Signature = secret(producers[shard]).Sign(hash[:])
}

// TestHeaderOnUnknownBlockNeedsSigner: a header on an unknown block is rejected if the producer has
// not signed it, if the epoch is unknown, or if the epoch does not have the shard.
func TestHeaderOnUnknownBlockNeedsSigner(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	me := producers[2]
	p, head := n.nodes[me], primitives.Hash{200}
	send := func(shard primitives.ShardID, signed bool) error {
		h := c.Header
		h.PrevBlockHash, h.ShardID = primitives.Hash{99}, shard
		if signed {
			signBy(&h, 0)
		}
		_, err := p.Step(0, Partial{&primitives.PartialChunk{Header: h, Parts: list[2:3]}})
		return err
	}
	if _, err := p.Step(0, Head{Hash: head, Height: 3}); err != nil {
		t.Fatal(err)
	}
	if err := send(0, true); !errors.Is(err, ErrHeader) || len(p.entries) > 0 {
		t.Errorf("of an unknown epoch: %v, %d are kept", err, len(p.entries))
	}
	n.views[me].known[head] = true
	if err := send(77, true); !errors.Is(err, ErrHeader) || len(p.entries) > 0 {
		t.Errorf("of no shard: %v, %d are kept", err, len(p.entries))
	}
	if err := send(0, false); !errors.Is(err, ErrSignature) || len(p.entries) > 0 {
		t.Errorf("without the producer's signature: %v, %d are kept", err, len(p.entries))
	}
	if err := send(0, true); err != nil || len(p.entries) != 1 {
		t.Errorf("what may be: %v, %d are kept", err, len(p.entries))
	}
}

// TestHorizonFollowsChainNotHeaders: the horizon and the epoch follow the chain's head even if
// headers are far ahead. Whether a chunk is old depends on the headers.
func TestHorizonFollowsChainNotHeaders(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	me := producers[2]
	p, here, ahead := n.nodes[me], primitives.Hash{3}, primitives.Hash{200}
	n.views[me].known[here] = true
	if _, err := p.Step(0, Head{Hash: here, Height: 3, Header: ahead, HeaderPrev: primitives.Hash{199}}); err != nil {
		t.Fatal(err)
	}
	h := c.Header
	h.PrevBlockHash = primitives.Hash{99}
	signBy(&h, 0)
	// its epoch follows from the chain's head
	if _, err := p.Step(0, Partial{&primitives.PartialChunk{Header: h, Parts: list[2:3]}}); err != nil || len(p.entries) != 1 {
		t.Errorf("on an unknown block: %v, %d are kept", err, len(p.entries))
	}
	waits := func(h *primitives.ChunkHeader) bool {
		out, err := p.Step(0, Wanted{Headers: []*primitives.ChunkHeader{h}, Ancestor: here})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Ask) == 0
	}
	if waits(&c.Header) {
		t.Error("the pool awaits forwards of a chunk that is not on the last two headers")
	}
	last := c.Header
	last.PrevBlockHash, last.ShardID = ahead, 1
	if !waits(&last) {
		t.Error("forwards of a chunk on the last header are not awaited")
	}
	far := c.Header
	far.HeightCreated = 9
	if _, err := p.Step(0, Partial{&primitives.PartialChunk{Header: far, Parts: list[2:3]}}); !errors.Is(err, ErrHorizon) {
		t.Errorf("beyond the chain's head: %v", err)
	}
}

// TestCompleteChunkFarFromHeadIsRemoved: a chunk that a block far from the head needs is removed
// from the pool when it is complete.
func TestCompleteChunkFarFromHeadIsRemoved(t *testing.T) {
	t.Parallel()
	for _, h := range []primitives.Height{4, 200} {
		n := newNetwork(t, 1, 10, 0)
		c, list := one(t, n, h, nil)
		p := n.nodes[producers[0]]
		// the head is at 178 or 78, so that the chunk is outside the horizon
		if _, err := p.Step(0, Head{Height: 50 + HeightHorizon - 100*(h/200)}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Step(0, Wanted{Headers: []*primitives.ChunkHeader{&c.Header}, Ancestor: c.Header.PrevBlockHash}); err != nil {
			t.Fatal(err)
		}
		out, err := p.Step(0, Response{&primitives.ChunkResponse{ChunkHash: c.Hash, Parts: list[3:7]}})
		if err != nil || len(out.Complete) != 1 || len(p.entries)+len(p.bySlot) > 0 {
			t.Errorf("at %d: %v, %d complete, %d are kept", h, err, len(out.Complete), len(p.entries))
		}
	}
}

// TestErrorOfOneChunkSparesOthers: an error for one chunk is returned, and the other chunks are
// processed.
func TestErrorOfOneChunkSparesOthers(t *testing.T) {
	t.Parallel()
	for shard := range primitives.ShardID(4) { // whatever the order of the map, one of them is not the last
		testErrorOfOneChunk(t, shard)
	}
}

func testErrorOfOneChunk(t *testing.T, shard primitives.ShardID) {
	n := newNetwork(t, 1, 10, 0)
	prev, odd := primitives.Hash{9}, errors.New("not known")
	me := producers[3]
	p, e := n.nodes[me], n.views[me]
	e.known[prev] = true
	var headers []*primitives.ChunkHeader
	for s := range primitives.ShardID(4) {
		c, _, err := chain.BuildChunk(&chain.ChunkInput{PrevBlock: prev, Height: 4, ShardID: s, Extra: new(chain.ChunkExtra), Layout: n.layout, Coding: n.rs}, secret(producers[s]))
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, &c.Header)
	}
	e.odd, e.oddly = shard, odd
	asked := func(now int64, ev Event) map[primitives.ShardID]bool {
		t.Helper()
		out, err := p.Step(now, ev)
		if !errors.Is(err, odd) {
			t.Errorf("%T: %v", ev, err)
		}
		shards := map[primitives.ShardID]bool{}
		for _, a := range out.Ask {
			shards[a.Shard] = true
		}
		return shards
	}
	if got := asked(0, Wanted{Headers: headers, Ancestor: prev}); len(got) != 3 {
		t.Errorf("asked for chunks of %v", got)
	}
	e.oddly = nil
	if _, err := p.Step(0, Wanted{Headers: headers, Ancestor: prev}); err != nil {
		t.Fatal(err)
	}
	// the chunks are not old, so the requests go to their producers
	if _, err := p.Step(0, Head{Hash: prev, Height: 3}); err != nil {
		t.Fatal(err)
	}
	e.oddly = odd
	if got := asked(Retry, Tick{}); len(got) != 3 {
		t.Errorf("asked again for chunks of %v", got)
	}

	later := primitives.Hash{10}
	for s := range primitives.ShardID(4) { // before the chunks' previous block is known
		c, _, err := chain.BuildChunk(&chain.ChunkInput{PrevBlock: later, Height: 6, ShardID: s, Extra: new(chain.ChunkExtra), Layout: n.layout, Coding: n.rs}, secret(producers[s]))
		if err != nil {
			t.Fatal(err)
		}
		if s == shard {
			c.Header.Signature = primitives.ZeroED25519Signature
		}
		body, err := chain.EncodeBody(&c.ChunkBody, n.rs)
		if err != nil {
			t.Fatal(err)
		}
		_, paths := primitives.MerklizeParts(body.Parts)
		var list []primitives.ChunkPart
		for i := range body.Parts {
			list = append(list, primitives.ChunkPart{Ord: uint64(i), Part: body.Parts[i], Proof: paths[i]})
		}
		e.known[prev] = true
		if _, err := p.Step(0, Head{Hash: prev, Height: 5}); err != nil {
			t.Fatal(err)
		}
		e.oddly = nil
		if _, err := p.Step(0, Partial{&primitives.PartialChunk{Header: c.Header, Parts: list}}); (err != nil) != (s == shard) {
			t.Fatal(err)
		}
	}
	e.known[later] = true
	if out, err := p.Step(0, BlockArrived{later}); err != nil || len(out.Complete) != 3 {
		t.Errorf("the block came: %v, %d complete", err, len(out.Complete))
	}
}

// TestWrongSignatureDoesNotBlockHeader: the chunk hash does not cover the signature. A header with
// a wrong signature that arrives before the block does not block the header of the producer or of a
// block.
func TestWrongSignatureDoesNotBlockHeader(t *testing.T) {
	t.Parallel()
	wrong := func(h primitives.ChunkHeader, first byte) *primitives.ChunkHeader {
		key := primitives.SecretKeyFromSeed(primitives.ED25519, string(rune(first)))
		hash := h.ChunkHash()
		h.Signature = key.Sign(hash[:])
		return &h
	}
	refused := func(err error) error {
		if errors.Is(err, ErrSignature) {
			return nil
		}
		return fmt.Errorf("not refused: %w", err)
	}
	for name, before := range map[string]func(p *Pool, h primitives.ChunkHeader, parts []primitives.ChunkPart) error{
		"the producer's came second": func(p *Pool, h primitives.ChunkHeader, parts []primitives.ChunkPart) error {
			_, first := p.Step(0, Partial{&primitives.PartialChunk{Header: *wrong(h, 'a'), Parts: parts[:1]}})
			_, second := p.Step(0, Partial{&primitives.PartialChunk{Header: h, Parts: parts[:2]}})
			return errors.Join(refused(first), second)
		},
		"the block's came third": func(p *Pool, h primitives.ChunkHeader, parts []primitives.ChunkPart) error {
			_, first := p.Step(0, Partial{&primitives.PartialChunk{Header: *wrong(h, 'a'), Parts: parts[:1]}})
			_, second := p.Step(0, Partial{&primitives.PartialChunk{Header: *wrong(h, 'b'), Parts: parts[1:2]}})
			_, third := p.Step(0, Wanted{Headers: []*primitives.ChunkHeader{&h}, Ancestor: primitives.Hash{3}})
			_, fourth := p.Step(0, Partial{&primitives.PartialChunk{Header: h, Parts: parts[:2]}})
			return errors.Join(refused(first), refused(second), third, fourth)
		},
		"a block's came second": func(p *Pool, h primitives.ChunkHeader, parts []primitives.ChunkPart) error {
			_, first := p.Step(0, Partial{&primitives.PartialChunk{Header: h, Parts: parts[:2]}})
			_, second := p.Step(0, Wanted{Headers: []*primitives.ChunkHeader{wrong(h, 'a')}, Ancestor: primitives.Hash{3}})
			return errors.Join(first, second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNetwork(t, 1, 10, 0)
			c, list := one(t, n, 4, nil)
			p, e := n.nodes[producers[0]], n.views[producers[0]]
			delete(e.known, c.Header.PrevBlockHash)
			e.known[primitives.Hash{3}] = true
			if _, err := p.Step(0, Head{Hash: primitives.Hash{3}, Height: 3}); err != nil {
				t.Fatal(err)
			}
			if err := before(p, c.Header, list); err != nil {
				t.Errorf("got %v", err)
			}
			e.known[c.Header.PrevBlockHash] = true
			if _, err := p.Step(0, BlockArrived{c.Header.PrevBlockHash}); err != nil {
				t.Errorf("the block came: %v", err)
			}
			out, err := p.Step(0, Partial{&primitives.PartialChunk{Header: c.Header, Parts: list[2:3]}})
			if err != nil || len(out.Complete) != 1 || out.Complete[0].Chunk.Header.Signature != c.Header.Signature {
				t.Errorf("got %v, %d complete", err, len(out.Complete))
			}
		})
	}
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	p := n.nodes[producers[0]]
	e := n.views[producers[0]]
	delete(e.known, c.Header.PrevBlockHash)
	e.known[primitives.Hash{3}] = true
	if _, err := p.Step(0, Head{Hash: primitives.Hash{3}, Height: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Step(0, Partial{&primitives.PartialChunk{Header: *wrong(c.Header, 'a'), Parts: list[:1]}}); !errors.Is(err, ErrSignature) {
		t.Fatal(err)
	}
	e.known[c.Header.PrevBlockHash] = true
	// the header in the block has the right signature: the chunk is requested and not dropped
	out, err := p.Step(0, Wanted{Headers: []*primitives.ChunkHeader{&c.Header}, Ancestor: c.Header.PrevBlockHash})
	if err != nil || len(p.entries) != 1 || p.entries[c.Hash].want == nil {
		t.Errorf("wanted behind a wrong one: %v, %d are kept, %d asked", err, len(p.entries), len(out.Ask))
	}
}

// TestChunkOfNextEpochIsStoredAndForwarded: parts of the first chunk of an epoch may arrive before
// the chunk's previous block. If the head's epoch does not have the shard, they are stored, and
// forwarded when the block arrives. Parts of other shards are forwarded first by their owners in
// the head's epoch, then by those in the chunk's epoch.
func TestChunkOfNextEpochIsStoredAndForwarded(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	me, head, prev := producers[2], primitives.Hash{200}, primitives.Hash{99}
	p, e := n.nodes[me], n.views[me]
	e.known[head], e.epochs = true, map[primitives.Hash]primitives.EpochID{prev: {2}}
	var err error
	if e.later, err = primitives.NewShardLayoutV2([]primitives.AccountID{"dd", "hh", "ll", "pp"}, []primitives.ShardID{0, 1, 2, 77, 3}, nil); err != nil {
		t.Fatal(err)
	}
	step := func(ev Event, want error) (sent map[primitives.AccountID][]uint64) {
		t.Helper()
		out, err := p.Step(0, ev)
		if !errors.Is(err, want) {
			t.Fatalf("%T: %v, want %v", ev, err, want)
		}
		sent = map[primitives.AccountID][]uint64{}
		for _, s := range out.Send {
			for _, x := range s.Body.(*primitives.ChunkForward).Parts {
				sent[s.To] = append(sent[s.To], x.Ord)
			}
		}
		return sent
	}
	step(Head{Hash: head, Height: 3}, nil)
	some := func(shard primitives.ShardID) (ev Partial) {
		producer, _ := e.Producer(primitives.EpochID{2}, shard, 4)
		c, coded, err := chain.BuildChunk(&chain.ChunkInput{PrevBlock: prev, Height: 4, ShardID: shard, Extra: new(chain.ChunkExtra), Layout: n.layout, Coding: n.rs,
			Outgoing: []*primitives.Receipt{{PredecessorID: "system", ReceiverID: "zz", Body: &primitives.DataReceipt{Data: bytes.Repeat([]byte{7}, 900)}}}}, secret(producer.AccountID))
		if err != nil {
			t.Fatal(err)
		}
		_, paths := primitives.MerklizeParts(coded.Parts)
		ev = Partial{&primitives.PartialChunk{Header: c.Header}}
		for _, ord := range []int{1, 2} { // part 1 is this node's in epoch {2}, part 2 in epoch {1}
			ev.Parts = append(ev.Parts, primitives.ChunkPart{Ord: uint64(ord), Part: coded.Parts[ord], Proof: paths[ord]})
		}
		return ev
	}
	step(some(78), ErrHeader)
	if sent := step(some(77), nil); len(sent) > 0 {
		t.Errorf("parts of a shard to come are passed on, who knows whose they are: %v", sent)
	}
	if sent, want := step(some(0), nil), []uint64{2}; len(sent) != 2 || !slices.Equal(sent[producers[0]], want) || !slices.Equal(sent[producers[1]], want) {
		t.Errorf("by the head's epoch are passed on %v", sent)
	}
	e.known[prev] = true
	// part 1 of both chunks goes to producer 1, which needs both; producer 0 needs one of them
	sent, want := step(BlockArrived{prev}, nil), []uint64{1, 1}
	if len(sent) != 2 || !slices.Equal(sent[producers[1]], want) || !slices.Equal(sent[producers[0]], want[:1]) {
		t.Errorf("when the block has come are passed on %v", sent)
	}
	if sent := step(BlockArrived{prev}, nil); len(sent) > 0 {
		t.Errorf("and again %v", sent)
	}
}

// TestNewTrackedShardRequestsBody: a chunk that is complete for the previous tracked shards need
// not be complete for others. The body is requested then, or proofs are computed.
func TestNewTrackedShardRequestsBody(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	me := producers[2]
	p, e := n.nodes[me], n.views[me]
	all := Partial{&primitives.PartialChunk{Header: c.Header, Parts: []primitives.ChunkPart{list[2], list[6]}, Receipts: chain.ProveReceipts(0, c.PrevOutgoingReceipts, n.layout)}}
	if out, err := p.Step(0, all); err != nil || len(out.Complete) != 1 || out.Complete[0].Chunk.Proofs == nil {
		t.Fatalf("%v, %d complete", err, len(out.Complete))
	}
	wanted := Wanted{Headers: []*primitives.ChunkHeader{&c.Header}, Ancestor: c.Header.PrevBlockHash}
	e.more = []primitives.ShardID{0}
	if out, err := p.Step(0, wanted); err != nil || len(out.Complete) > 0 {
		t.Fatalf("held now: %v, %d complete", err, len(out.Complete))
	}
	if out, err := p.Step(Retry, Tick{}); err != nil || len(out.Ask) == 0 {
		t.Fatalf("held now: %v, not asked for", err)
	}
	out, err := p.Step(Retry, Response{&primitives.ChunkResponse{ChunkHash: c.Hash, Parts: list[3:5]}})
	if err != nil || len(out.Complete) != 1 || out.Complete[0].Chunk.Proofs != nil {
		t.Fatalf("held now: %v, %d complete", err, len(out.Complete))
	}
	e.more = nil
	if out, err = p.Step(Retry, wanted); err != nil || len(out.Complete) != 1 || !chain.Proves(out.Complete[0].Chunk, []primitives.ShardID{1, 2}) {
		t.Fatalf("held no more: %v, %d complete", err, len(out.Complete))
	}
}

// TestHeightIncludedOfMessageIsIgnored: no hash covers the height at which a chunk is included, so
// the pool ignores that field of a message.
func TestHeightIncludedOfMessageIsIgnored(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 6, nil)
	p := n.nodes[producers[2]]
	if _, err := p.Step(0, Head{Height: 5}); err != nil {
		t.Fatal(err)
	}
	x := &primitives.PartialChunk{Header: c.Header, Parts: list, Receipts: chain.ProveReceipts(0, c.PrevOutgoingReceipts, n.layout)}
	x.Header.HeightIncluded = 6
	out, err := p.Step(0, Partial{x})
	if err != nil || len(out.Ready) != 1 || len(out.Complete) != 1 {
		t.Fatal(err, len(out.Ready), len(out.Complete))
	}
	if a, b := out.Ready[0].HeightIncluded, out.Complete[0].Chunk.Header.HeightIncluded; a != 0 || b != 0 || x.Header.HeightIncluded != 6 {
		t.Errorf("included at %d and %d", a, b)
	}
}

// TestDelayOfNeededChunkIsReported: the time from the first block that needs a chunk until the chunk
// is complete is reported once, and not of a chunk that no block needed.
func TestDelayOfNeededChunkIsReported(t *testing.T) {
	t.Parallel()
	for _, needed := range []bool{false, true} {
		n := newNetwork(t, 1, 10, 0)
		c, list := one(t, n, 4, nil)
		p := n.nodes[producers[2]]
		var got []Timed
		step := func(now int64, ev Event) {
			t.Helper()
			out, err := p.Step(now, ev)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range out.Timed {
				if x.Timing == Received {
					got = append(got, x)
				}
			}
		}
		step(100, Partial{&primitives.PartialChunk{Header: c.Header, Parts: list[2:3]}})
		var want []Timed
		if needed {
			for _, now := range []int64{110, 130} {
				step(now, Wanted{Headers: []*primitives.ChunkHeader{&c.Header}, Ancestor: c.Header.PrevBlockHash})
			}
			want = []Timed{{Received, c.Header.ShardID, 60}}
		}
		rest := &primitives.PartialChunk{Header: c.Header, Parts: list[6:8], Receipts: chain.ProveReceipts(0, c.PrevOutgoingReceipts, n.layout)}
		step(170, Partial{rest})
		step(180, Partial{rest})
		if !slices.Equal(got, want) {
			t.Errorf("needed %v: got %+v, want %+v", needed, got, want)
		}
	}
}
