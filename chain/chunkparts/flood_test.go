package chunkparts

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestFloodOfForwards: if a chunk producer signs any number of chunks and their parts are
// forwarded, the forwards of another producer's chunk are not evicted before its header arrives.
func TestFloodOfForwards(t *testing.T) {
	n := newNetwork(t, 1, 10, 0)
	c, list := one(t, n, 4, nil)
	p := n.nodes[producers[2]]
	if _, err := p.Step(0, Forward{primitives.NewChunkForward(&c.Header, list[5:8])}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 * MaxForwards {
		x := c.Header
		x.ShardID, x.GasLimit, x.PrevBlockHash = 1, primitives.Gas(i), primitives.Hash{4}
		if i%2 == 1 { // half of the chunks are on an unknown block
			x.PrevBlockHash = primitives.Hash{99}
		}
		signBy(&x, 1)
		if _, err := p.Step(0, Head{Hash: primitives.Hash{4}, Height: 3}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Step(0, Forward{primitives.NewChunkForward(&x, list[3:4])}); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.forwards) != MaxForwards || len(p.forwardSigners) != MaxForwards || len(p.forwards[c.Hash]) != 3 {
		t.Errorf("%d chunks have waiting parts, that of another maker %d", len(p.forwards), len(p.forwards[c.Hash]))
	}
}
