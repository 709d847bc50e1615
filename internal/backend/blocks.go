package backend

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// Block returns a block and its producer.
func (b *Backend) Block(ctx context.Context, r view.BlockRef) (primitives.AccountID, *primitives.Block, error) {
	author, blk, err := b.ownBlock(r)
	if err == nil {
		return author, blk, nil
	}
	d, err := b.olderBlock(ctx, r, err)
	if err != nil {
		return "", nil, err
	}
	return d.Author, d.Block, nil
}

// ownBlock is Block for the node's own store.
func (b *Backend) ownBlock(r view.BlockRef) (primitives.AccountID, *primitives.Block, error) {
	k, err := b.find(r)
	if err != nil {
		return "", nil, err
	}
	blk, err := b.whole(k)
	if err != nil {
		return "", nil, err
	}
	author, err := b.producer(k.ref.Hash, blk.Header)
	return author, blk, err
}

// authored is a block hash with the account that produced the block.
type authored struct {
	block  primitives.Hash
	author primitives.AccountID
}

// authorSlots is the size of the cache of block producers. The index is the first byte of the block
// hash. The cache helps because clients query the last few blocks repeatedly. The computation of a
// producer hashes while it holds the lock of the epoch manager.
const authorSlots = 256

// producer returns the account that produced a block.
func (b *Backend) producer(hash primitives.Hash, h *primitives.BlockHeader) (primitives.AccountID, error) {
	slot := &b.authors[hash[0]]
	if a := slot.Load(); a != nil && a.block == hash {
		return a.author, nil
	}
	a := &authored{block: hash}
	err := b.Engine.Epochs(func(m *epoch.Manager) error {
		p, err := m.BlockProducer(h.EpochID, h.Height)
		if err == nil {
			a.author = p.AccountID
		}
		return err
	})
	if err == nil {
		slot.Store(a)
	}
	return a.author, err
}

// Chunk returns a chunk and its producer.
func (b *Backend) Chunk(ctx context.Context, r view.ChunkRef) (primitives.AccountID, *primitives.Chunk, error) {
	author, c, err := b.ownChunk(r)
	if err == nil {
		return author, c, nil
	}
	if missing := b.lacks(err, view.ErrUnknownChunk); missing != nil {
		return b.olderChunk(ctx, missing.Hash, err)
	}
	if r.ByHash {
		return "", nil, err
	}
	d, err := b.olderBlock(ctx, r.Block, err)
	if err != nil {
		return "", nil, err
	}
	for _, h := range d.Block.Body.Chunks {
		switch {
		case h.ShardID != r.ShardID:
		case h.HeightIncluded == d.Block.Header.Height:
			return chunkOf(d, h.ShardID, h.ChunkHash())
		default: // an older chunk: the shard has no new chunk in this block
			return b.Chunk(ctx, view.ChunkRef{ByHash: true, Hash: h.ChunkHash()})
		}
	}
	return "", nil, &view.LookupError{Kind: view.ErrInvalidShard, ShardID: r.ShardID}
}

// ownChunk is Chunk for the node's own store.
func (b *Backend) ownChunk(r view.ChunkRef) (primitives.AccountID, *primitives.Chunk, error) {
	if r.ByHash {
		return b.chunkByHash(r.Hash)
	}
	k, err := b.find(r.Block)
	if err != nil {
		return "", nil, err
	}
	blk, err := b.whole(k)
	if err != nil {
		return "", nil, err
	}
	layout, err := b.layoutOf(k)
	if err != nil {
		return "", nil, err
	}
	i, err := layout.Index(r.ShardID)
	if err != nil {
		return "", nil, &view.LookupError{Kind: view.ErrInvalidShard, ShardID: r.ShardID}
	}
	// an older chunk: the shard has no new chunk in this block
	if c := blk.Body.Chunks[i]; c.HeightIncluded != blk.Header.Height {
		return b.chunkByHash(c.ChunkHash())
	}
	if held, err := b.hasChunk(k, i); err != nil || !held { // neard does not have the body of such a chunk either
		return "", nil, cmp.Or[error](err, &view.LookupError{Kind: view.ErrUnknownChunk, Hash: blk.Body.Chunks[i].ChunkHash()})
	}
	if k.entry != nil && k.entry.Shards[i].Chunk != nil {
		return b.author(k.entry.Shards[i].Chunk, k)
	}
	if _, err := b.record(k); err != nil {
		return "", nil, err
	}
	return b.loadChunk(blk.Body.Chunks[i].ChunkHash(), r.ShardID, k)
}

// loadChunk reads a chunk from the store. After state sync, a node has only the headers of earlier
// chunks. As in neard, loadChunk reports such a chunk as unknown.
func (b *Backend) loadChunk(hash primitives.Hash, shard primitives.ShardID, in *block) (primitives.AccountID, *primitives.Chunk, error) {
	c, err := engine.LoadChunk(in.rec, shard)
	if gone(err) {
		return b.genesisChunk(hash)
	}
	if err != nil {
		return "", nil, err
	}
	return b.author(c, in)
}

// genesisChunk returns the chunk of the genesis with a hash. The chunks of the genesis are empty, so an
// archival node that began by state sync has them too, as in neard. Errors: ErrUnknownChunk.
func (b *Backend) genesisChunk(hash primitives.Hash) (primitives.AccountID, *primitives.Chunk, error) {
	if b.History != nil {
		g := b.Engine.Genesis()
		for _, h := range g.Block.Body.Chunks {
			if h.ChunkHash() == hash {
				return b.author(&primitives.Chunk{Hash: hash, Header: *h}, held(g))
			}
		}
	}
	return "", nil, &view.LookupError{Kind: view.ErrUnknownChunk, Hash: hash}
}

// hasChunk returns whether the node has the body of the new chunk with shard index i in a block.
func (b *Backend) hasChunk(k *block, i primitives.ShardIndex) (bool, error) {
	if b.Engine.HoldsAll() {
		return true, nil
	}
	if k.entry != nil {
		c := k.entry.Shards[i].Chunk
		return c != nil && c.Proofs == nil, nil
	}
	layout, err := b.layoutOf(k)
	if err != nil {
		return false, err
	}
	rec, err := b.record(k)
	if err != nil {
		return false, err
	}
	_, has, err := rec.ChunkHash(layout.ShardIDs()[i])
	return has, err
}

func (b *Backend) chunkByHash(hash primitives.Hash) (primitives.AccountID, *primitives.Chunk, error) {
	places, err := b.Engine.Store().Find().Chunk(hash)
	if err != nil && !gone(err) {
		return "", nil, err
	}
	if len(places) == 0 {
		return b.genesisChunk(hash)
	}
	return b.loadChunk(hash, places[0].Shard, &block{ref: places[0].Block.Ref(), rec: places[0].Block})
}

// author returns a chunk with its producer. It sets the chunk's HeightIncluded to the height of the
// block; the produced chunk does not contain this height. Before protocol version 87, the block's
// epoch and its parent's height determine the producer. From version 87 on, the producer also
// depends on the two previous blocks. Garbage collection may have removed these blocks, but it
// keeps the records about them somewhat longer.
func (b *Backend) author(made *primitives.Chunk, in *block) (primitives.AccountID, *primitives.Chunk, error) {
	chunk := *made // copy, because other goroutines read *made
	chunk.Header.HeightIncluded = in.ref.Height
	c := &chunk
	var of primitives.EpochID
	var prev storage.BlockRef
	switch {
	case c.Header.PrevBlockHash.IsZero():
	case in.entry != nil:
		h := in.entry.Header()
		of, prev = h.EpochID, storage.BlockRef{Hash: h.PrevHash, Height: h.PrevHeight}
	default: // do not use the height in the chunk (nearcore view_client_actor.rs:871)
		rec, err := b.record(in)
		if err != nil {
			return "", nil, err
		}
		of, prev = rec.Epoch(), rec.Prev()
	}
	var id primitives.AccountID
	err := b.Engine.Epochs(func(m *epoch.Manager) (err error) {
		var p *primitives.ValidatorStake
		if prev.IsZero() {
			p, err = m.CanonicalChunkProducer(of, c.Header.ShardID, c.Header.HeightCreated)
		} else {
			p, err = m.ChunkProducerInEpoch(of, prev.Hash, prev.Height, c.Header.ShardID, b.collectedInfo(prev))
		}
		if err == nil {
			id = p.AccountID
		}
		return err
	})
	return id, c, err
}

// collectedInfo returns a function that finds the BlockInfo of a block below the tail. Each further
// call of that function finds the BlockInfo of the parent of the previous result.
func (b *Backend) collectedInfo(at storage.BlockRef) func(primitives.Hash) (*epoch.BlockInfo, error) {
	return func(hash primitives.Hash) (*epoch.BlockInfo, error) {
		ref := at
		if hash != at.Hash {
			rec, err := b.Engine.Store().Block(at)
			if err != nil {
				return nil, err
			}
			if ref = rec.Prev(); ref.Hash != hash {
				return nil, fmt.Errorf("%w %v", epoch.ErrMissingBlock, hash)
			}
		}
		rec, err := b.Engine.Store().Block(ref)
		if err != nil {
			return nil, err
		}
		raw, err := rec.Info()
		if err != nil {
			return nil, err
		}
		var info epoch.StoredBlockInfo
		err = borsh.Unmarshal(raw, &info)
		return info.BlockInfo, err
	}
}

// GasPrice returns the gas price in a block's header. A nil r means the head.
func (b *Backend) GasPrice(ctx context.Context, r *view.BlockRef) (primitives.Balance, error) {
	if r == nil {
		return b.Engine.Head().Header().NextGasPrice, nil
	}
	h, err := b.headerOf(ctx, *r)
	if err != nil {
		return primitives.Balance{}, err
	}
	return h.NextGasPrice, nil
}

// headerOf returns the header of a block, which may be in the history.
func (b *Backend) headerOf(ctx context.Context, r view.BlockRef) (*primitives.BlockHeader, error) {
	k, err := b.find(r)
	if err == nil {
		return b.header(k)
	}
	d, err := b.olderBlock(ctx, r, err)
	if err != nil {
		return nil, err
	}
	return d.Block.Header, nil
}

// written returns a block's hash and its state changes, in ascending order of keys.
func (b *Backend) written(r view.BlockRef) (primitives.Hash, []primitives.KeyChanges, error) {
	k, err := b.find(r)
	if err != nil {
		return primitives.Hash{}, nil, err
	}
	if k.entry != nil {
		if all := k.entry.Changes(); len(all) > 0 {
			return k.ref.Hash, all, nil
		}
	}
	if err := b.executed(k); err != nil {
		return k.ref.Hash, nil, err
	}
	rec, err := b.record(k)
	if err != nil {
		return k.ref.Hash, nil, err
	}
	var all []primitives.KeyChanges
	for _, shard := range rec.Shards() {
		list, err := rec.Changes(shard)
		if err != nil {
			return k.ref.Hash, nil, err
		}
		for i := range list {
			all = append(all, list[i].KeyChanges)
		}
	}
	slices.SortStableFunc(all, func(x, y primitives.KeyChanges) int { return strings.Compare(string(x.Key), string(y.Key)) })
	return k.ref.Hash, all, nil
}

// Changes returns a block's hash and the state changes that q selects.
func (b *Backend) Changes(r view.BlockRef, q *view.ChangesRequest) (primitives.Hash, []view.Change, error) {
	hash, all, err := b.written(r)
	if err != nil {
		return hash, nil, err
	}
	out, err := q.Select(all)
	return hash, out, err
}

// Effects returns a block's hash and, for each account, the kinds of data that the block wrote.
func (b *Backend) Effects(r view.BlockRef) (primitives.Hash, []view.Effect, error) {
	hash, all, err := b.written(r)
	if err != nil {
		return hash, nil, err
	}
	out, err := view.Effects(all)
	return hash, out, err
}
