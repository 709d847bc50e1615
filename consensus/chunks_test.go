package consensus

import (
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// allImported is a Chain in which every block is known and has height 9.
type allImported struct{ engineOf }

func (allImported) Imported(primitives.Hash) *engine.BlockNode {
	h := new(primitives.BlockHeader)
	h.Height = 9
	return &engine.BlockNode{Block: &primitives.Block{Header: h}}
}

// TestReadyChunkOfWrongHeightIsIgnored: a chunk whose created height is not its parent's height
// plus one is not recorded, so it does not take the place of a valid chunk.
func TestReadyChunkOfWrongHeightIsIgnored(t *testing.T) {
	n := &Node{e: allImported{}, ready: map[primitives.Hash]map[primitives.ShardID]*primitives.ChunkHeader{}}
	prev := primitives.Hash{1}
	for _, h := range []primitives.Height{9, 12, 10, 10} {
		c := new(primitives.ChunkHeader)
		c.PrevBlockHash, c.HeightCreated, c.ShardID = prev, h, 3
		n.readyChunk(c)
	}
	if got := n.ready[prev][3]; len(n.ready[prev]) != 1 || got == nil || got.HeightCreated != 10 {
		t.Errorf("ready on the block: %+v", n.ready[prev])
	}
}
