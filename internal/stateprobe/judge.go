package stateprobe

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/statesync"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage/trie"
)

// judgeHeader verifies a state header of a shard. point is the header of the parent of the sync
// block. judgeHeader checks that the chunk belongs to point, the chunk's transactions, and the root
// node of the state. It does not check the receipts, which no part depends on.
func judgeHeader(h *primitives.StateHeader, point *primitives.BlockHeader, shard primitives.ShardID) error {
	c := &h.Chunk
	if c.Header.ShardID != shard {
		return fmt.Errorf("the chunk is of shard %d", c.Header.ShardID)
	}
	if err := chain.ValidateBody(c); err != nil {
		return err
	}
	hash := c.Header.ChunkHash()
	leaf := primitives.HashBytes(borsh.AppendUint64(hash[:], uint64(c.Header.HeightIncluded)))
	if !h.ChunkProof.Verify(point.ChunkHeadersRoot, leaf) {
		return fmt.Errorf("the chunk is not in block %d", point.Height)
	}
	root := c.Header.PrevStateRoot
	if root.IsZero() {
		return nil
	}
	p, err := trie.NewPartial([][]byte{h.Root.Data}, root)
	if err != nil {
		return err
	}
	if p.MemoryUsage() != h.Root.MemoryUsage {
		return fmt.Errorf("the memory usage is %d, but %d in the root node", h.Root.MemoryUsage, p.MemoryUsage())
	}
	if n := trie.NumParts(p.MemoryUsage()); n > statesync.MaxParts {
		return fmt.Errorf("the state has %d parts, the limit is %d", n, statesync.MaxParts)
	}
	return nil
}

// judgePart verifies a part of the state of a root.
func judgePart(p *primitives.StatePart, root primitives.Hash, id trie.PartID) error {
	strings, err := statesync.UnpackPart(p)
	if err != nil {
		return err
	}
	_, err = trie.OpenPart(strings, root, id, 0)
	return err
}
