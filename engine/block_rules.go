package engine

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// nextRules are the layout and the runtime configuration of a block's children. They differ from
// the block's own at the end of an epoch.
type nextRules struct {
	layout primitives.ShardLayout
	config *parameters.RuntimeConfig
}

// rulesAfter returns the rules of a block's children. Safe for concurrent use, but not while
// epochMu is held.
func (e *Engine) rulesAfter(parent *BlockNode) (*nextRules, error) {
	if r := parent.rules.Load(); r != nil {
		return r, nil
	}
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	id, err := e.epochs.EpochIDFromPrev(parent.Hash)
	if err != nil {
		return nil, err
	}
	r := new(nextRules)
	if r.layout, err = e.epochs.ShardLayout(id); err != nil {
		return nil, err
	}
	if r.config, err = e.version(id); err != nil {
		return nil, err
	}
	parent.rules.Store(r)
	return r, nil
}
