package producer

import (
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/primitives"
)

// vote signs an approval with the keys of this node's validators and counts the approval in the
// tracker.
func (a *Actor) vote(p doomslug.Proposal, now int64) {
	h := a.head
	// use doomslug's time, so that doomslug and scheduler measure the same interval
	a.stepAt(production.Voted{}, now)
	for i := range h.approvers {
		v := &h.approvers[i]
		if !a.isOwn(v.AccountID, v.PublicKey) {
			continue
		}
		vote := &primitives.Approval{
			Inner: p.Inner, Target: p.Target, AccountID: v.AccountID,
			Signature: a.o.Keys[v.AccountID].Sign(p.Inner.SignedBytes(p.Target)),
		}
		a.doomslug.Vote(vote, h.approvers, now)
	}
}
