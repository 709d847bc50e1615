package engine

import (
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// Voted tells whether more than two thirds of the stake of a header's epoch have voted for a block of its height on its parent, which need not be known. What
// its producer alone says of the height that others are at is nothing. An epoch that is neither under way nor told of by headers has no votes.
func (e *Engine) Voted(h *primitives.BlockHeader) (bool, error) {
	voters, err := e.voters(h.EpochID)
	if err != nil || voters == nil {
		return false, err
	}
	return chain.Voted(h, voters, e.verify), nil
}

// voters are whose votes the blocks of an epoch carry first, in the order of their headers; nil: it is not known.
func (e *Engine) voters(id primitives.EpochID) ([]chain.Approver, error) {
	e.epochMu.Lock()
	defer e.epochMu.Unlock()
	m := e.epochs
	known, err := e.isCurrentEpoch(id)
	if err != nil {
		return nil, err
	}
	if !known {
		e.headerChain.mu.Lock()
		defer e.headerChain.mu.Unlock()
		if m, err = e.headerEpochs(id); err != nil || m == nil {
			return nil, err
		}
	}
	return votersOf(m, id)
}

func votersOf(m *epoch.Manager, id primitives.EpochID) ([]chain.Approver, error) {
	list, err := m.BlockProducersOrdered(id)
	if err != nil {
		return nil, err
	}
	out := make([]chain.Approver, len(list))
	for i, v := range list {
		out[i] = chain.Approver{AccountID: v.AccountID, PublicKey: v.PublicKey, StakeThis: v.Stake}
	}
	return out, nil
}

// LeadingHeader is the highest header that was judged, nil: none that is known without asking the disk. What it says of the height of others two thirds of
// the stake have said.
func (e *Engine) HighestHeader() *primitives.BlockHeader {
	e.headerChain.mu.Lock()
	defer e.headerChain.mu.Unlock()
	if e.headerChain.chain == nil {
		return nil
	}
	if tip := e.Head(); e.headerChain.overtaken(tip) {
		return tip.Header()
	}
	return e.headerChain.chain.Head().Header
}
