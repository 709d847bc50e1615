package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Receipt returns a stored receipt by its id.
func (b *Backend) Receipt(ctx context.Context, id primitives.Hash) (*primitives.Receipt, error) {
	x, err := b.Engine.Transactions().Receipt(id)
	if errors.Is(err, engine.ErrUnknown) || gone(err) {
		err = &view.LookupError{Kind: view.ErrUnknownReceipt, Hash: id}
		if b.History == nil {
			return nil, err
		}
		return b.olderReceipt(ctx, id, err)
	}
	return x, err
}

// NextLightClientBlock returns the next block for a light client whose last block is last.
func (b *Backend) NextLightClientBlock(last primitives.Hash) (*primitives.LightClientBlock, error) {
	if _, err := b.byHash(last); err != nil {
		return nil, err
	}
	l, err := b.Engine.NextLightClientBlock(last)
	if errors.Is(err, epoch.ErrEpochOutOfBounds) {
		return nil, &view.LookupError{Kind: view.ErrEpochOutOfBounds, Hash: last}
	}
	return l, err
}

// LightClientProof proves an outcome to a light client. It has three parts: the outcome is in the
// chunk, the chunk's outcome root is in the next block with a new chunk of the shard, and that
// block is an ancestor of the light client's head (nearcore view_client_actor.rs,
// GetExecutionOutcome).
func (b *Backend) LightClientProof(r *view.OutcomeRef) (*view.LightClientProof, error) {
	outcome, place, err := b.Engine.Transactions().Outcome(r.ID)
	if errors.Is(err, engine.ErrUnknown) || gone(err) {
		if shard := b.Engine.Head().Layout.ShardOf(r.Account); !b.Engine.Holds(shard) {
			return nil, &view.LookupError{Kind: view.ErrOutcomeShard, Hash: r.ID, ShardID: shard}
		}
		return nil, &view.LookupError{Kind: view.ErrUnknownOutcome, Hash: r.ID}
	}
	if err != nil {
		return nil, err
	}
	at := place.Block.Ref()
	head := b.Engine.Head()
	k, err := b.byHash(at.Hash)
	if err != nil {
		return nil, err
	}
	layout, err := b.layoutOf(k)
	if err != nil {
		return nil, err
	}
	shards := []primitives.ShardID{place.Shard} // the shard, and after splits its child shards
	for height := at.Height + 1; height <= head.Height(); height++ {
		k, err := b.byHeight(height)
		if errors.Is(err, view.ErrUnknownHeight) {
			continue
		}
		if err != nil {
			return nil, err
		}
		next, err := b.whole(k)
		if err != nil {
			return nil, err
		}
		if shards, layout, err = b.follow(k, shards, layout); err != nil {
			return nil, err
		}
		shard, roots := -1, make([]primitives.Hash, len(next.Body.Chunks))
		for i, c := range next.Body.Chunks {
			roots[i] = primitives.HashBytes(c.PrevOutcomeRoot[:])
			if shard < 0 && c.HeightIncluded == height && slices.Contains(shards, c.ShardID) {
				shard = i
			}
		}
		if shard < 0 {
			continue
		}
		_, paths := primitives.Merklize(roots)
		outcome.BlockHash = k.ref.Hash
		lite, proof, err := b.LightClientBlockProof(k.ref.Hash, r.Head)
		if err != nil {
			return nil, err
		}
		return &view.LightClientProof{Outcome: outcome, OutcomeRootProof: paths[shard], Header: *lite, BlockProof: proof}, nil
	}
	return nil, &view.LookupError{Kind: view.ErrNotConfirmed, Hash: r.ID}
}

// follow maps shards of a layout to their descendants in block k's layout, and returns k's layout.
// neard uses the index in the old layout (view_client_actor.rs:1179). So neard proves the root of a
// wrong shard if a shard with a lower index was split.
func (b *Backend) follow(k *block, shards []primitives.ShardID, layout primitives.ShardLayout) ([]primitives.ShardID, primitives.ShardLayout, error) {
	now, err := b.layoutOf(k)
	if err != nil || now.Equal(layout) {
		return shards, layout, err
	}
	var out []primitives.ShardID
	for _, id := range shards {
		children, ok := now.Children(id)
		if !ok {
			return nil, now, fmt.Errorf("shard %d is neither in shard layout %v nor split into shards of it", id, now)
		}
		out = append(out, children...)
	}
	return out, now, nil
}

// LightClientBlockProof proves that a block is an ancestor of head. The block and head must be
// final.
func (b *Backend) LightClientBlockProof(hash, head primitives.Hash) (*primitives.LiteHeader, primitives.MerklePath, error) {
	k, err := b.byHash(hash) // look up hash first, because the error names hash if both blocks are unknown
	if err != nil {
		return nil, nil, err
	}
	tip, err := b.byHash(head)
	if err != nil {
		return nil, nil, err
	}
	for _, x := range []*block{k, tip} {
		canonical, err := b.byHeight(x.ref.Height)
		if x.ref.Height > b.Engine.Final().Height || err != nil || canonical.ref != x.ref {
			return nil, nil, fmt.Errorf("%v not on current chain", x.ref.Hash)
		}
	}
	h, err := b.header(k)
	if err != nil {
		return nil, nil, err
	}
	path, err := primitives.BlockMerkleProof(merkleSource{b}, hash, head)
	if err != nil {
		return nil, nil, err
	}
	lite := h.Lite()
	return &lite, path, nil
}

// merkleSource reads the Merkle trees from which block proofs are built.
type merkleSource struct{ b *Backend }

func (m merkleSource) BlockMerkleTree(hash primitives.Hash) (*primitives.PartialMerkleTree, error) {
	k, err := m.b.byHash(hash)
	if err != nil {
		return nil, err
	}
	if k.entry != nil {
		return k.entry.Tree.Clone(), nil
	}
	raw, err := k.rec.MerkleTree()
	if err != nil {
		return nil, err
	}
	t := new(primitives.PartialMerkleTree)
	return t, borsh.Unmarshal(raw, t)
}

func (m merkleSource) BlockAtLeaf(leaf uint64) (primitives.Hash, error) {
	ref, err := m.b.Engine.Store().OrdinalAt(leaf + 1)
	return ref.Hash, err
}
