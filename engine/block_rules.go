package engine

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// rules are what the children of a block go by. They differ from the block's own where an epoch ends.
type rules struct {
	layout primitives.ShardLayout
	config *parameters.RuntimeConfig
}

// rulesBehind returns the rules of a block's children. Safe from any goroutine that does not hold epochMu.
func (e *Engine) rulesBehind(parent *BlockNode) (*rules, error) {
	if r := parent.rules.Load(); r != nil {
		return r, nil
	}
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	id, err := e.epochs.EpochIDFromPrev(parent.Hash)
	if err != nil {
		return nil, err
	}
	r := new(rules)
	if r.layout, err = e.epochs.ShardLayout(id); err != nil {
		return nil, err
	}
	if r.config, err = e.version(id); err != nil {
		return nil, err
	}
	parent.rules.Store(r)
	return r, nil
}
