package sandbox

import (
	"context"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Impersonate returns an account that acts in this world, and in worlds created from it afterwards,
// without the account's secret key: the chain accepts its transactions unsigned. The account must
// have a full access key, which the transactions name; AddKey gives it one.
func (w *World) Impersonate(id primitives.AccountID) (*Account, error) {
	s, err := w.state(view.BlockRef{}, id)
	if err != nil {
		return nil, w.wrap(err, "impersonate %s", id)
	}
	var a primitives.Account
	exists, err := s.Account(id, &a)
	switch {
	case err == nil && !exists:
		err = ErrNoAccount
	case err == nil:
		_, err = anyKey(s, id)
	}
	s.Release()
	if err != nil {
		return nil, w.wrap(err, "impersonate %s", id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.actFor, id) {
		list := append(slices.Clone(w.actFor), id)
		if err := w.chain.Backend().Impersonate(list, false); err != nil {
			return nil, w.wrap(err, "impersonate %s", id)
		}
		w.actFor = list
	}
	return &Account{ID: id}, nil
}

// Reorganise replaces the last blocks of the chain, including the head, by a new branch. blocks is
// the number of replaced blocks. The branch is one block longer than the blocks that it replaces,
// and contains none of their transactions. These transactions return to the pool, and the blocks
// after the branch include them. Reorganise returns the head of the branch and the replaced blocks.
// Final blocks cannot be replaced.
func (w *World) Reorganise(ctx context.Context, blocks uint64) (view.Reorganised, error) {
	r, err := w.chain.Backend().Reorganise(ctx, blocks)
	if err != nil {
		return r, w.wrap(err, "replace %d blocks", blocks)
	}
	w.forgetNonces()
	return r, nil
}

// MissChunks makes the next blocks contain no new chunks of the given shards, or of any shard if
// none is given. blocks is the number of such blocks; 0 ends the effect of the previous call.
func (w *World) MissChunks(ctx context.Context, blocks uint64, shards ...primitives.ShardID) error {
	_, err := w.chain.Backend().MissChunks(ctx, &view.MissChunks{Shards: shards, Blocks: blocks})
	return w.wrap(err, "miss chunks of %d blocks", blocks)
}

// forgetNonces must be called after blocks were removed from the chain.
func (w *World) forgetNonces() {
	w.mu.Lock()
	clear(w.nonces)
	w.mu.Unlock()
}
