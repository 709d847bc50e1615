package engine

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// TestPartsViewHidesBlockDuringImport: during an import the epoch manager knows a block before the
// block tree does. Until the tree does, the view reports the block as unknown.
func TestPartsViewHidesBlockDuringImport(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa", "bb"))
	d := n.ChunkPartsView(func(primitives.Hash) *primitives.Chunk { return nil })
	b, chunks := n.make(n.Head().Hash, 1, false)
	hash, shard := b.Hash(), n.Head().Layout.ShardIDs()[0]
	if holds, err := d.Holds(n.Head().Hash, shard); err != nil || !holds {
		t.Fatalf("shard on the head: %v, %v", holds, err)
	}
	if _, known := d.Epoch(n.Head().Hash); !known {
		t.Error("the head is not known")
	}
	if err := n.Epochs(func(m *epoch.Manager) error {
		_, err := m.RecordBlockInfo(epoch.BlockInfoFromHeader(b.Header, 0), b.Header.RandomValue)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, known := d.Epoch(hash); known {
		t.Error("a block is known before it is in the block tree")
	}
	if _, err := d.Holds(hash, shard); !errors.Is(err, ErrUnknown) {
		t.Errorf("held shards on that block: %v, want ErrUnknown", err)
	}
	n = openNode(t, testGenesis(t, "aa", "bb")) // as if its epoch manager knew the block already
	d = n.ChunkPartsView(func(primitives.Hash) *primitives.Chunk { return nil })
	n.accept(b, chunks)
	holds, err := d.Holds(hash, shard)
	if _, known := d.Epoch(hash); !known || err != nil || !holds {
		t.Errorf("imported: known %v, held %v, %v", known, holds, err)
	}
	if _, err := d.Holds(hash, 77); err == nil {
		t.Error("of no shard")
	}
}
