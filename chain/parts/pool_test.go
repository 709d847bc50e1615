package parts

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// one makes one chunk of shard 0 at a height with its parts, on a block that all know.
func one(t *testing.T, n *network, h primitives.Height, change func(*primitives.Chunk)) (*primitives.Chunk, []primitives.ChunkPart) {
	t.Helper()
	prev := primitives.Hash{byte(h)}
	for _, e := range n.eyes {
		e.known[prev] = true
	}
	p, _ := n.eyes[producers[0]].Producer(primitives.Hash{1}, 0, h)
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

// TestRefusals: what is not right about a message is said, and nothing is kept of it.
func TestRefusals(t *testing.T) {
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
		if out, err := p.Step(0, x.ev); !errors.Is(err, x.want) || len(out.Send)+len(out.Ready)+len(out.Complete) > 0 {
			t.Errorf("%s: %v, want %v", name, err, x.want)
		}
		if len(p.entries)+len(p.at)+len(p.forwards) > 0 {
			t.Fatalf("%s: %d chunks are kept", name, len(p.entries))
		}
	}
	if _, err := p.Step(0, partial(func(*primitives.PartialChunk) {})); err != nil {
		t.Fatal(err)
	}
	other, _ := one(t, n, 6, func(c *primitives.Chunk) { c.Header.GasLimit = 1 })
	if _, err := p.Step(0, Partial{&primitives.PartialChunk{Header: other.Header}}); !errors.Is(err, ErrOther) {
		t.Errorf("another chunk of the height: %v", err)
	}
	if _, err := p.Step(0, Head{Height: 6 + HeightHorizon}); err != nil || len(p.entries) != 1 { // it is asked for
		t.Errorf("%v, %d chunks are kept at the horizon", err, len(p.entries))
	}
	if _, err := p.Step(GiveUp, Tick{}); err != nil {
		t.Error(err)
	}
	if _, err := p.Step(GiveUp, Head{Height: 7 + HeightHorizon}); err != nil || len(p.entries)+len(p.at) != 0 {
		t.Errorf("%v, %d chunks are kept behind the horizon", err, len(p.entries))
	}
	for i := range 2 * MaxForwards {
		x := c.Header
		x.PrevBlockHash, x.GasLimit = primitives.Hash{99}, primitives.Gas(i)
		if _, err := p.Step(0, Forward{primitives.NewChunkForward(&x, list[3:4])}); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.forwards) != MaxForwards || len(p.order) != MaxForwards {
		t.Errorf("%d forwards of unknown chunks are kept", len(p.forwards))
	}
}

// TestForwardsFirst: forwards that come before anything else count when the header comes, and own parts are passed on once, to who holds the shard and to
// who makes the next chunk.
func TestForwardsFirst(t *testing.T) {
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	p := n.nodes[producers[2]]
	if _, err := p.Step(0, Forward{primitives.NewChunkForward(&c.Header, list[5:8])}); err != nil {
		t.Fatal(err)
	}
	first := Partial{&primitives.PartialChunk{Header: c.Header, Parts: []primitives.ChunkPart{list[2], list[6]}}}
	out, err := p.Step(0, first)
	if err != nil || len(out.Complete) != 1 || len(out.Ready) != 1 { // all that it owns has come, and three parts would be enough
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
		t.Errorf("passed on to %v, want %v", to, want)
	}
	if out, err := p.Step(0, first); err != nil || len(out.Send)+len(out.Ready)+len(out.Complete) > 0 {
		t.Errorf("again: %v, %+v", err, out)
	}
}

// TestBadChunk: what the producer has signed and is no chunk is told once, and never asked for again.
func TestBadChunk(t *testing.T) {
	for name, change := range map[string]func(*primitives.Chunk){
		"transactions": func(c *primitives.Chunk) { c.Header.TxRoot = primitives.Hash{1} },
		"receipts":     func(c *primitives.Chunk) { c.Header.PrevOutgoingReceiptsRoot = primitives.Hash{1} },
		"length":       func(c *primitives.Chunk) { c.Header.EncodedLength-- },
	} {
		n := newNetwork(t, 1, 10, 0)
		c, list := one(t, n, 4, change)
		p := n.nodes[producers[0]]
		out, err := p.Step(0, Partial{&primitives.PartialChunk{Header: c.Header, Parts: list[3:6]}})
		if err != nil || len(out.Bad) != 1 || len(out.Complete) != 0 {
			t.Errorf("%s: %v, %d bad", name, err, len(out.Bad))
		}
		out, err = p.Step(0, Wanted{[]*primitives.ChunkHeader{&c.Header}, c.Header.PrevBlockHash})
		if err != nil || len(out.Bad)+len(out.Ask) != 0 {
			t.Errorf("%s again: %v, %+v", name, err, out)
		}
	}
}

// TestTimers: who gets forwards waits for them; then own parts and receipts are asked of the producer, after 400 ms of others, and all parts after 3 s.
func TestTimers(t *testing.T) {
	n := newNetwork(t, 1, 10, 0)
	c, _ := one(t, n, 4, nil)
	head := Head{Hash: c.Header.PrevBlockHash, Height: 3}
	asked := func(me primitives.AccountID, now int64, ev Event) (list []Ask) {
		out, err := n.nodes[me].Step(now, ev)
		if err != nil {
			t.Fatal(err)
		}
		return out.Ask
	}
	me := producers[2] // holds shards 1 and 2
	wanted := Wanted{[]*primitives.ChunkHeader{&c.Header}, c.Header.PrevBlockHash}
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
	others := map[primitives.AccountID]bool{}
	for i := range int64(20) {
		for _, a := range asked(me, 400+i*100, Tick{}) {
			others[a.Account] = true
		}
	}
	if len(others) != 2 || !others[producers[1]] { // those that hold shard 0
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
}

// TestBlind: while it can't be told what this node holds, no chunk is complete: not even one of which it has all that others' shards need.
func TestBlind(t *testing.T) {
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	p, blind := n.nodes[producers[2]], errors.New("not to be told")
	n.eyes[producers[2]].blind = blind
	all := Partial{&primitives.PartialChunk{Header: c.Header, Parts: []primitives.ChunkPart{list[2], list[6]}, Receipts: chain.ProveReceipts(0, c.PrevOutgoingReceipts, n.layout)}}
	if out, err := p.Step(0, all); !errors.Is(err, blind) || len(out.Complete) > 0 {
		t.Errorf("%v, %d complete", err, len(out.Complete))
	}
	n.eyes[producers[2]].blind = nil
	if out, err := p.Step(0, BlockCame{c.Header.PrevBlockHash}); err != nil || len(out.Complete) != 1 {
		t.Errorf("%v, %d complete", err, len(out.Complete))
	}
}

// TestNowhere: a header on an unknown block is refused, unsigned as it may be, where there is no epoch to go by, or where that has no such shard.
func TestNowhere(t *testing.T) {
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	me := producers[2]
	p, head := n.nodes[me], primitives.Hash{200}
	send := func(shard primitives.ShardID) error {
		h := c.Header
		h.PrevBlockHash, h.ShardID = primitives.Hash{99}, shard
		_, err := p.Step(0, Partial{&primitives.PartialChunk{Header: h, Parts: list[2:3]}})
		return err
	}
	if _, err := p.Step(0, Head{Hash: head, Height: 3}); err != nil {
		t.Fatal(err)
	}
	if err := send(0); !errors.Is(err, ErrHeader) || len(p.entries) > 0 {
		t.Errorf("in no epoch: %v, %d are kept", err, len(p.entries))
	}
	n.eyes[me].known[head] = true
	if err := send(77); !errors.Is(err, ErrHeader) || len(p.entries) > 0 {
		t.Errorf("of no shard: %v, %d are kept", err, len(p.entries))
	}
	if err := send(0); err != nil || len(p.entries) != 1 {
		t.Errorf("what may be: %v, %d are kept", err, len(p.entries))
	}
}
