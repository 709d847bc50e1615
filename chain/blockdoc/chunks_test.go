package blockdoc

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
)

// TestChunksReturnsVerifiedTrackedShard: for a node that tracks one shard, Chunks returns from each
// block of the stream the transactions of that shard's chunk, verified by tx_root, and the receipts
// of other chunks to the shard, verified by their roots. Only code that no earlier document
// contains is missing.
func TestChunksReturnsVerifiedTrackedShard(t *testing.T) {
	t.Parallel()
	s := readStream(t)
	b := newBooks()
	b.blocks = s.before
	ids := s.layout.ShardIDs()
	bodies, proofs, lacking := 0, 0, 0
	for _, line := range s.lines[1:] {
		d, err := Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		b.learn(d)
		k := b.known(&s.layout)
		held := ids[int(d.Block.Header.Height)%len(ids)]
		chunks, err := d.Chunks(k.Code, k.Ancestors, &Wanted{Layout: s.layout, Held: []primitives.ShardID{held}})
		if errors.Is(err, ErrLacks) {
			lacking++
			continue
		}
		if err != nil {
			t.Fatalf("block %d: %v", d.Block.Header.Height, err)
		}
		for i, c := range chunks {
			switch {
			case c == nil:
			case ids[i] == held:
				if err := chain.ValidateBody(c); err != nil || c.Proofs != nil {
					t.Errorf("block %d: %v", d.Block.Header.Height, err)
				}
				bodies++
			default:
				if err := chain.ValidateProofs(c); err != nil || len(c.Proofs) != 1 || c.Proofs[0].To != held {
					t.Errorf("block %d: %v", d.Block.Header.Height, err)
				}
				proofs++
			}
		}
	}
	t.Logf("%d bodies, %d proofs, %d blocks lack code", bodies, proofs, lacking)
	if bodies < 1200 || proofs < 3600 || lacking > 10 {
		t.Errorf("%d bodies, %d proofs, %d blocks lack code", bodies, proofs, lacking)
	}

	d, err := Parse(s.lines[100])
	if err != nil {
		t.Fatal(err)
	}
	var lie *MismatchError
	d.Shards = nil
	if _, err := d.Chunks(b.known(nil).Code, b.known(nil).Ancestors, &Wanted{Layout: s.layout, Held: ids[:1]}); !errors.As(err, &lie) {
		t.Errorf("without shards: %v", err)
	}
}
