package chunkparts

import (
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// TestBringsPredictsDeliveredParts: Brings predicts which accounts receive enough parts before the
// block, with and without Sparing. A validator that produces no blocks receives none, and an
// unknown previous block gives an error.
func TestBringsPredictsDeliveredParts(t *testing.T) {
	t.Parallel()
	for _, seats := range []int{4, 10} {
		for _, sparing := range []bool{true, false} {
			n := newNetwork(t, 1, seats, 0)
			prev := primitives.Hash{4}
			for _, e := range n.views {
				e.known[prev] = true
			}
			for _, p := range n.nodes {
				p.Sparing = sparing
			}
			maker, _ := n.views[producers[0]].Producer(primitives.Hash{1}, 0, 4)
			c, coded, err := chain.BuildChunk(&chain.ChunkInput{PrevBlock: prev, Height: 4, Extra: new(chain.ChunkExtra), Layout: n.layout, Coding: n.rs,
				Outgoing: []*primitives.Receipt{{PredecessorID: "system", ReceiverID: "zz", Body: &primitives.DataReceipt{Data: make([]byte, 900)}}}}, secret(maker.AccountID))
			if err != nil {
				t.Fatal(err)
			}
			p := n.nodes[maker.AccountID]
			made, err := p.Step(0, Made{c, coded})
			if err != nil {
				t.Fatal(err)
			}
			given := map[primitives.AccountID]map[uint64]bool{maker.AccountID: nil}
			take := func(to primitives.AccountID, list []primitives.ChunkPart) {
				if given[to] == nil {
					given[to] = map[uint64]bool{}
				}
				for _, x := range list {
					given[to][x.Ord] = true
				}
			}
			for _, s := range made.Send {
				partial := s.Body.(*primitives.PartialChunk)
				take(s.To, partial.Parts)
				out, err := n.nodes[s.To].Step(0, Partial{partial})
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range out.Send {
					take(f.To, f.Body.(*primitives.ChunkForward).Parts)
				}
			}
			some := 0
			for _, a := range append([]primitives.AccountID{"judges.only"}, producers...) {
				is, err := p.Brings(&c.Header, []primitives.AccountID{maker.AccountID, a})
				if want := a == maker.AccountID || len(given[a]) >= n.rs.DataParts(); err != nil || is != want {
					t.Errorf("%d seats, sparing %v: %s is given %d parts of %d: %v, %v", seats, sparing, a, len(given[a]), n.rs.DataParts(), is, err)
				}
				if is {
					some++
				}
			}
			if some == 0 || seats == 10 && some == len(producers) {
				t.Errorf("%d seats, sparing %v: %d are given it", seats, sparing, some)
			}
			x := c.Header
			x.PrevBlockHash = primitives.Hash{99}
			if _, err := p.Brings(&x, nil); err == nil {
				t.Error("on an unknown block")
			}
		}
	}
}
