package engine

import (
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/state"
)

// CallView runs a contract method read-only on the state after a block. found is false if the
// account does not exist. The method sees the block as if it ran in it. v.Gas of 0 means the
// maximum of a chunk's call. Safe for concurrent use while at is held.
func (e *Engine) CallView(at *State, v *action.View) (out action.CallOutcome, found bool, err error) {
	h := at.Header()
	shard := at.Layout.ShardOf(v.Account)
	i, err := at.Layout.Index(shard)
	if err != nil {
		return out, false, err
	}
	if !at.Shards[i].Held() {
		return out, false, fmt.Errorf("%w: shard %d", ErrUntracked, shard)
	}
	info, err := e.viewEpoch(h.EpochID)
	if err != nil {
		return out, false, fmt.Errorf("%w: epoch of block %v: %w", ErrUnknown, at.Hash, err)
	}
	w := viewings.Get().(*viewing)
	b := &w.block
	*b = e.actionBlock(at.BlockNode, info)
	b.ShardID, b.Height, b.PrevHash, b.Timestamp = shard, h.Height, h.PrevHash, h.Timestamp
	b.RandomValue = at.Shards[i].Extra.StateRoot
	b.Beside, b.Mocks = true, e.mocks.Load()
	if v.Gas == 0 {
		most := *v
		most.Gas, v = at.Config.Wasm.Limits.MaxGasBurnt, &most
	}
	w.update.Reset(at.Trie(i))
	out, found, err = v.Run(b, &w.update, &w.parts)
	w.block, w.parts = action.Block{}, action.ViewParts{}
	w.update.Reset(nil)
	viewings.Put(w) // not reached if it panicked
	return out, found, err
}

// SetMocks sets the overrides of signature checks for contracts that are called as views or
// simulated from now on; nil: none. Those for a block are in its Proposal. Safe for concurrent use.
func (e *Engine) SetMocks(m *primitives.Mocks) {
	if !m.Any() {
		m = nil
	}
	e.mocks.Store(m)
}

// Mocks returns the overrides of SetMocks. Safe for concurrent use.
func (e *Engine) Mocks() *primitives.Mocks { return e.mocks.Load() }

// viewing is reusable memory of a view call. Most calls are short, and this would be a third of
// their garbage.
type viewing struct {
	block  action.Block
	update state.TrieUpdate
	parts  action.ViewParts
}

var viewings = sync.Pool{New: func() any { return new(viewing) }}

// viewedEpoch caches one epoch info so that readers avoid the epoch manager's lock.
type viewedEpoch struct {
	id   primitives.EpochID
	info *epoch.EpochInfo
}

func (e *Engine) viewEpoch(id primitives.EpochID) (*epoch.EpochInfo, error) {
	if v := e.viewed.Load(); v != nil && v.id == id {
		return v.info, nil
	}
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	info, err := e.epochs.EpochInfo(id)
	if err == nil {
		e.viewed.Store(&viewedEpoch{id, info})
	}
	return info, err
}
