package engine

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage/trie"
)

// StateHeader is the data with which a shard's catchup starts. A StateHeader determines the state
// to fetch and the number of the state's parts.
type StateHeader struct {
	// Chunk is the shard's newest chunk as of the sync point, with its outgoing receipts. The state
	// to fetch is the state before this chunk.
	Chunk *primitives.Chunk
	// Before contains the receipts that were sent to the shard since its previous chunk. For each
	// block, Before has the block's new chunks with receipt proofs to the shard.
	Before map[primitives.Hash][]*primitives.Chunk
	// Root is the encoded root node of the state. The memory usage in Root determines the number of
	// parts. Root is empty for an empty state.
	Root []byte
}

// Parts returns the number of parts of the state. An error means that Root does not match the chunk
// header.
func (h *StateHeader) Parts() (uint64, error) {
	if h.Chunk.Header.PrevStateRoot.IsZero() {
		return 0, nil
	}
	p, err := trie.NewPartial([][]byte{h.Root}, h.Chunk.Header.PrevStateRoot)
	if err != nil {
		return 0, unproven(err)
	}
	return trie.NumParts(p.MemoryUsage()), nil
}

// StateHeader returns the state header of a shard at a sync point. point is the parent of the
// epoch's sync block (SyncPoint). Part serves the parts of that state. Safe for concurrent use.
func (e *Engine) StateHeader(point *BlockNode, shard primitives.ShardIndex) (*StateHeader, error) {
	if int(shard) >= len(point.Shards) {
		return nil, fmt.Errorf("%w: shard index %d at block %d", ErrUnknown, shard, point.Height())
	}
	h, id := point.Block.Body.Chunks[shard], point.Layout.ShardIDs()[shard]
	at, x := point, point
	var err error
	for x.Height() > h.HeightIncluded {
		if x, err = e.Block(x.Header().PrevHash); err != nil {
			return nil, err
		}
	}
	if at, err = e.Block(x.Hash); err != nil { // an evicted node has no chunks, so read the block from the store
		return nil, err
	}
	out := &StateHeader{Chunk: at.Shards[shard].Chunk, Before: map[primitives.Hash][]*primitives.Chunk{}}
	if out.Chunk == nil || out.Chunk.Proofs != nil || out.Chunk.Hash != h.ChunkHash() {
		return nil, fmt.Errorf("%w: shard %d at block %d", ErrUntracked, id, point.Height())
	}
	prev, err := e.Block(h.PrevBlockHash)
	if err != nil {
		return nil, err
	}
	for since := prev.Block.Body.Chunks[shard].HeightIncluded; prev.Height() > since; {
		if out.Before[prev.Hash], err = e.ChunksFor(prev.Hash, id); err != nil {
			return nil, err
		}
		if prev, err = e.Block(prev.Header().PrevHash); err != nil {
			return nil, err
		}
	}
	if h.PrevStateRoot.IsZero() {
		return out, nil
	}
	err = e.snapshots.lendState(h.PrevBlockHash, shard, func(r *trie.Root) error {
		path, err := r.Prove(nil)
		if err == nil && len(path) > 0 {
			out.Root = path[0]
		}
		return err
	})
	return out, err
}

// ChunksFor returns the new chunks of a block in the form for a node that holds only the shard id:
// the chunk of that shard, and the other chunks with receipt proofs to that shard. Safe for
// concurrent use.
func (e *Engine) ChunksFor(block primitives.Hash, id primitives.ShardID) ([]*primitives.Chunk, error) {
	at, err := e.Block(block)
	if err != nil {
		return nil, err
	}
	if !at.Layout.Has(id) {
		return nil, fmt.Errorf("%w: shard %d in block %d", ErrUnknown, id, at.Height())
	}
	out := make([]*primitives.Chunk, len(at.Shards))
	for i := range at.Shards {
		switch c := at.Shards[i].Chunk; {
		case c == nil:
		case c.Proofs != nil && at.Shards[i].ID == id:
			return nil, fmt.Errorf("%w: shard %d at block %d", ErrUntracked, id, at.Height())
		case c.Proofs != nil:
			out[i] = &primitives.Chunk{Hash: c.Hash, Header: c.Header, Proofs: []primitives.ReceiptProof{}}
			p := chain.ProofTo(c, id)
			if p == nil {
				return nil, fmt.Errorf("%w: shard %d at block %d", ErrUntracked, at.Shards[i].ID, at.Height())
			}
			out[i].Proofs = append(out[i].Proofs, *p)
		case at.Shards[i].ID == id:
			whole := *c
			whole.PrevOutgoingReceipts = nil // the receiver computes these receipts itself
			out[i] = &whole
		default:
			out[i] = chain.CutChunk(c, at.Layout, []primitives.ShardID{id})
		}
	}
	return out, nil
}
