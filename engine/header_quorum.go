package engine

import (
	"time"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// Voted returns whether h contains approvals by more than two thirds of the stake of its epoch.
// These approvals prove that the network has reached h's height; the producer's signature alone
// does not. The parent need not be known. Voted returns false if the epoch is neither current nor
// announced by headers.
func (e *Engine) Voted(h *primitives.BlockHeader) (bool, error) {
	voters, err := e.voters(h.EpochID)
	if err != nil || voters == nil {
		return false, err
	}
	return chain.Voted(h, voters, e.verify), nil
}

// ProvenAhead returns by how much the first header of a list that is more than
// chain.AcceptableTimeDifference ahead of now is ahead, if more than two thirds of the stake of its
// epoch have endorsed it: then it is now that is wrong. Otherwise it returns 0. list is one peer's
// response, parents first, and may contain anything.
//
// A header's own approvals name its parent. So they do not prove its timestamp, and any producer can
// sign a header of a later time. The approvals of a child at the next height name the header's hash.
func (e *Engine) ProvenAhead(list []*primitives.BlockHeader, now time.Time) (time.Duration, error) {
	limit := now.Add(chain.AcceptableTimeDifference)
	for i := 0; i+1 < len(list); i++ {
		h, child := list[i], list[i+1]
		at := time.Unix(0, int64(h.Timestamp))
		if !at.After(limit) || child.PrevHash != h.Hash() || child.PrevHeight != h.Height || child.Height != h.Height+1 {
			continue
		}
		voted, err := e.Voted(child) // checked once, so that a response costs no more
		if err != nil || !voted {
			return 0, err
		}
		return at.Sub(now), nil
	}
	return 0, nil
}

// voters returns the approvers of an epoch's blocks, in the order of a header's approvals. nil: the
// epoch is unknown.
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
		if m, err = e.headerChain.epochsOf(id); err != nil || m == nil {
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

// Highest returns the highest validated header. That header contains approvals by two thirds of the
// stake. Highest returns nil if the header is not known without reading the disk.
func (l *HeaderChain) Highest() *primitives.BlockHeader {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.chain == nil {
		return nil
	}
	if tip := l.blocks.Head(); l.overtaken(tip) {
		return tip.Header()
	}
	return l.chain.Head().Header
}
