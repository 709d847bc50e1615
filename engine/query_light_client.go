package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage"
)

// headers implements chain's header lookup for one branch. tip is the last block of the branch.
type headers struct {
	e   *Engine
	tip *BlockNode
}

func (h headers) ByHash(hash primitives.Hash) (*primitives.BlockHeader, error) {
	return h.e.header(h.e.Imported(hash), hash)
}

// branch returns the header at a height on tip's branch. If that height was skipped, branch returns
// the header at the next height that was not skipped, and exact is false.
func (h headers) branch(height primitives.Height) (at *primitives.BlockHeader, exact bool, err error) {
	x := h.tip
	for {
		if x.Height() == height {
			return x.Header(), true, nil
		}
		next := h.e.Imported(x.Header().PrevHash)
		if next == nil {
			break
		}
		if next.Height() < height {
			return x.Header(), false, nil
		}
		x = next
	}
	ref, err := h.e.store.NextBlock(height)
	if err != nil {
		return nil, false, err
	}
	header, err := h.ByHash(ref.Hash)
	return header, ref.Height == height, err
}

func (h headers) ByHeight(height primitives.Height) (*primitives.BlockHeader, error) {
	if height > h.tip.Height() {
		return nil, fmt.Errorf("%w: block of height %d", ErrUnknown, height)
	}
	at, exact, err := h.branch(height)
	if err == nil && !exact {
		err = fmt.Errorf("%w: block of height %d", ErrUnknown, height)
	}
	return at, err
}

func (h headers) NextHash(hash primitives.Hash) (primitives.Hash, error) {
	at, err := h.ByHash(hash)
	if err != nil {
		return hash, err
	}
	if at.Height >= h.tip.Height() {
		return hash, fmt.Errorf("%w: a block after %v", ErrUnknown, hash)
	}
	next, _, err := h.branch(at.Height + 1)
	if err != nil {
		return hash, err
	}
	return next.Hash(), nil
}

// Header returns the header of a block in memory or in the store. It returns storage.ErrNotFound or
// storage.ErrGone if there is no such block.
func (e *Engine) Header(hash primitives.Hash) (*primitives.BlockHeader, error) {
	return e.header(e.BlockNode(hash), hash)
}

// header returns the header of the block node at or, if at is nil, the header of the stored block
// with this hash.
func (e *Engine) header(at *BlockNode, hash primitives.Hash) (*primitives.BlockHeader, error) {
	if at != nil {
		return at.Header(), nil
	}
	rec, err := e.store.BlockByHash(hash)
	if err != nil {
		return nil, err
	}
	raw, err := rec.Header()
	if err != nil {
		return nil, err
	}
	h := new(primitives.BlockHeader)
	return h, borsh.Unmarshal(raw, h)
}

func (e *Engine) lightClientBlock(tip *BlockNode, head *primitives.BlockHeader) (*primitives.LightClientBlock, error) {
	return chain.LightClientBlock(
		head,
		headers{e, tip},
		func(id primitives.EpochID) (bps []primitives.ValidatorStake, err error) {
			err = e.Epochs(func(m *epoch.Manager) (err error) { bps, err = m.BlockProducersOrdered(id); return })
			return bps, err
		},
	)
}

// NextLightClientBlock returns the next block for a light client that has verified the block
// `last`. If `last` is in the head's epoch or in the epoch before, the result is the latest final
// block. Otherwise the result is the last final block of the epoch after the epoch of `last`.
// NextLightClientBlock returns nil without an error if the client is up to date or the block is not
// available (nearcore chain/client/src/view_client_actor.rs:1087).
func (e *Engine) NextLightClientBlock(last primitives.Hash) (*primitives.LightClientBlock, error) {
	at, err := e.Header(last)
	if err != nil {
		return nil, err
	}
	head := e.Head()
	if at.EpochID == head.Header().EpochID || at.NextEpochID == head.Header().EpochID {
		b, err := e.lightClientBlock(head, head.Header())
		if err != nil || b.InnerLite.Height <= at.Height {
			return nil, err
		}
		return b, nil
	}
	// The stored row may be of another branch if the first block after epoch at.NextEpochID is
	// above the flat head. So search the head's branch in memory first.
	for x := head; x != nil; {
		parent := e.BlockNode(x.Header().PrevHash)
		if parent != nil && parent.Header().EpochID == at.NextEpochID && x.Header().EpochID != at.NextEpochID {
			b, err := e.lightClientBlock(parent, parent.Header())
			if errors.Is(err, ErrUnknown) || errors.Is(err, storage.ErrNotFound) || parent.Header().LastFinalBlock.IsZero() {
				return nil, nil
			}
			return b, err
		}
		x = parent
	}
	raw, err := storage.EpochLightClientBlock.Get(e.store.Reader(), at.NextEpochID)
	if err != nil {
		return nil, absent(err)
	}
	b := new(primitives.LightClientBlock)
	return b, borsh.Unmarshal(raw, b)
}

// saveLightClientBlock stores the light client view of an epoch's last final block in the batch of
// the next epoch's first block, on every branch. So the row exists exactly as long as that first
// block. The row is not stored with the block that makes a branch the head, because other branches
// from the same first block would then lack the row.
func (e *Engine) saveLightClientBlock(b *storage.Batch, entry, parent *BlockNode) error {
	if entry.Header().EpochID == parent.Header().EpochID || parent.Header().LastFinalBlock.IsZero() {
		return nil
	}
	l, err := e.lightClientBlock(parent, parent.Header())
	if errors.Is(err, ErrUnknown) || errors.Is(err, storage.ErrNotFound) {
		return nil // blocks that the view needs are missing
	}
	if err != nil {
		return err
	}
	raw := storage.Raw(l.AppendBorsh(nil))
	storage.EpochLightClientBlock.Put(b, parent.Header().EpochID, &raw)
	return nil
}
