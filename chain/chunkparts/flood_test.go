package chunkparts

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain/anchor"
	"github.com/troupe-chain/troupe/primitives"
)

// TestFloodOfForwardsEvictsOnlyItsProducer: if a chunk producer signs any number of chunks and
// their parts are forwarded, the forwards of another producer's chunk are not evicted before its
// header arrives.
func TestFloodOfForwardsEvictsOnlyItsProducer(t *testing.T) {
	t.Parallel()
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
		t.Errorf("%d chunks have waiting parts, that of another producer %d", len(p.forwards), len(p.forwards[c.Hash]))
	}
}

// TestRepeatedPartsOrReceiptsAreRefused: a message repeats neither parts nor receipts. Any node
// that has one of each could otherwise make a message, with the producer's header, that takes
// seconds to verify.
func TestRepeatedPartsOrReceiptsAreRefused(t *testing.T) {
	t.Parallel()
	n := anchoredNetwork(t, true)
	unknown := primitives.Hash{99}
	n.block(unknown, 22, hashAt(20), false)
	known, early := n.on(n.maker(hashAt(20)), hashAt(20), 21, hashAt(19)), n.on(n.maker(unknown), unknown, 23, hashAt(20))
	p := n.nodes[producers[2]]
	for _, c := range []*primitives.PartialChunk{known, early} {
		parts, receipts := *c, *c
		parts.Parts, receipts.Parts, receipts.Receipts = nil, nil, nil
		for i := range n.rs.TotalParts() + 1 {
			parts.Parts = append(parts.Parts, c.Parts[i%2])
		}
		for range 2 {
			receipts.Receipts = append(receipts.Receipts, c.Receipts[0])
		}
		for name, x := range map[string]struct {
			ev   Event
			want error
		}{
			"parts":           {Partial{&parts}, ErrPart},
			"receipts":        {Partial{&receipts}, ErrReceipts},
			"forwarded parts": {Forward{primitives.NewChunkForward(&c.Header, parts.Parts)}, ErrPart},
		} {
			if _, err := p.Step(0, x.ev); !errors.Is(err, x.want) || !empty(p) {
				t.Errorf("%s of the chunk at %d: %v, want %v", name, c.Header.HeightCreated, err, x.want)
			}
		}
		if _, err := p.Step(0, with(c, c.Anchor, 2)); err != nil && !errors.Is(err, anchor.ErrEarly) {
			t.Fatal(err)
		}
		p = n.nodes[producers[3]]
	}
}
