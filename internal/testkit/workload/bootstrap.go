package workload

import (
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Bootstrap opens a second chain in memory by state sync at a sync point (engine.Engine.SyncPoint).
// It transfers the blocks before point, and the state before the chunks of point. Of the oldest
// blocks it transfers only the headers. made must return a block as Make returned it. The engine of
// c must have the state in memory. The caller must close the result.
func (c *Chain) Bootstrap(point *engine.BlockNode, made func(primitives.Hash) *Made, store storage.Options) (*Chain, error) {
	start, err := c.beginning(point, made)
	if err != nil {
		return nil, err
	}
	out := &Chain{o: c.o, id: c.id, chain: c.chain, keys: c.keys}
	out.o.Disk, out.o.Folder, out.o.Store = storage.NewMemDisk(), "", store
	store.Identity = c.id
	s, err := storage.OpenMemory(out.o.Disk, store)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.sendState(s, start, point), s.Close()); err != nil {
		return nil, err
	}
	return out, out.open()
}

// beginning collects the input of a state sync except the state: headers, blocks and receipt
// proofs.
func (c *Chain) beginning(point *engine.BlockNode, made func(primitives.Hash) *Made) (*engine.BootstrapInput, error) {
	start := &engine.BootstrapInput{Proofs: map[primitives.Hash][]*primitives.Chunk{}}
	var list []*primitives.Block
	for hash := point.Header().PrevHash; ; {
		m := made(hash)
		if m == nil {
			break
		}
		list = append(list, m.Block)
		hash = m.Block.Header.PrevHash
	}
	list = append(list, c.Engine.Genesis().Block)
	slices.Reverse(list)
	oldest := point.Height() // lowest height of a block with the last chunk of a shard before point
	for _, x := range list[len(list)-1].Body.Chunks {
		oldest = min(oldest, x.HeightIncluded)
	}
	for i, b := range list {
		switch {
		case i == 0:
		case b.Header.Height < oldest:
			list[i] = &primitives.Block{Header: b.Header}
		case b.Header.Height > oldest:
			cut := make([]*primitives.Chunk, len(b.Body.Chunks))
			for k, x := range made(b.Hash()).Chunks {
				if x != nil {
					cut[k] = chain.CutChunk(x, point.Layout, point.Layout.ShardIDs())
				}
			}
			start.Proofs[b.Hash()] = cut
		}
	}
	for i, x := range made(point.Hash).Chunks {
		if x == nil {
			return nil, fmt.Errorf("workload: the sync block %d has no new chunk at shard index %d", point.Height(), i)
		}
		start.Next = append(start.Next, x)
	}
	start.Blocks = engine.BlockList(list)
	return start, nil
}

// sendState transfers the state to the store s of the second chain, in two parts for each shard.
func (c *Chain) sendState(s *storage.Store, start *engine.BootstrapInput, point *engine.BlockNode) error {
	sync, err := engine.BeginBootstrap(engine.Options{Chain: c.chain, Store: s, Tries: c.o.Tries}, start)
	if err != nil {
		return err
	}
	for i := range primitives.ShardIndex(point.Layout.NumShards()) {
		for k := range uint64(2) {
			id := trie.PartID{Index: k, Total: 2}
			part, err := c.Engine.Snapshots().Part(point.Header().PrevHash, i, id)
			if err == nil {
				err = sync.Part(i, id, part)
			}
			if err != nil {
				return fmt.Errorf("workload: transfer the state at shard index %d before block %d: %w", i, point.Height(), err)
			}
		}
	}
	return sync.Finish()
}
