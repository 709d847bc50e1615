package engine

import (
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/state"
)

// CallView runs a contract method as a view call on the state after the block `at`. The method sees
// the height, time and hashes of that block. found is false if the account does not exist. If v.Gas
// is 0, the limit is the protocol's gas limit of a function call. Safe for concurrent use while the
// caller holds the block's states.
func (e *Engine) CallView(at *State, v *action.View) (out action.CallOutcome, found bool, err error) {
	h := at.Header()
	shard := at.Layout.ShardOf(v.Account)
	i, err := at.Layout.Index(shard)
	if err != nil {
		return out, false, err
	}
	if !at.Shards[i].Held() {
		return out, false, fmt.Errorf("%w: shard %d, on which the view call runs", ErrUntracked, shard)
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
	viewings.Put(w) // w is not reused if the call panics
	return out, found, err
}

// SetMocks sets the overrides of contracts' signature checks for all following view calls and
// simulations; nil removes them. For contracts that run in a block, the overrides are in the
// block's Proposal. Safe for concurrent use.
func (e *Engine) SetMocks(m *primitives.Mocks) {
	if !m.Any() {
		m = nil
	}
	e.mocks.Store(m)
}

// Mocks returns the overrides that SetMocks has set. Safe for concurrent use.
func (e *Engine) Mocks() *primitives.Mocks { return e.mocks.Load() }

// viewing is the reusable memory of a view call. If each call allocated a new viewing, this
// allocation would be a third of the garbage of a short call.
type viewing struct {
	block  action.Block
	update state.TrieUpdate
	parts  action.ViewParts
}

var viewings = sync.Pool{New: func() any { return new(viewing) }}

// viewedEpoch caches the epoch info of the last view call, so that view calls need not lock the
// epoch manager.
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
