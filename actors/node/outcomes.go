package node

import (
	"fmt"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// outcomeLedger reads stored outcomes for waiters.
type outcomeLedger struct{ e *engine.Engine }

// Outcome implements waiter.Ledger. The outcome has no proof.
func (l outcomeLedger) Outcome(id primitives.Hash, upto primitives.Height) (m messages.Executed, found bool,
	err error) {
	places, err := l.e.Store().Find().Outcome(id)
	if err != nil {
		return m, false, err
	}
	for _, p := range places {
		// The store may contain blocks above the head that readers see.
		if p.Block.Ref().Height > upto || !l.e.Canonical(p.Block.Ref()) {
			continue
		}
		raw, err := p.Block.Outcome(p.Shard, p.Index)
		if err != nil {
			return m, false, err
		}
		o := &primitives.OutcomeWithID{ID: raw.ID}
		if err := borsh.Unmarshal(raw.Value, &o.Outcome); err != nil {
			return m, false, fmt.Errorf("node: outcome %v: %w", id, err)
		}
		m = messages.Executed{Outcome: o, Block: p.Block.Ref().Hash, Height: p.Block.Ref().Height}
		if n := len(o.Outcome.ReceiptIDs); n > 0 {
			last := o.Outcome.ReceiptIDs[n-1]
			if r, err := l.e.Transactions().Receipt(last); err == nil && r.PredecessorID == primitives.SystemAccount {
				m.Refund = last
			}
		}
		return m, true, nil
	}
	return m, false, nil
}
