package producer

import (
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// vote signs an approval with the keys of this node's validators, counts it in the tracker, and
// sends it to the block producer of the target height.
func (a *Actor) vote(p doomslug.Proposal, now int64) {
	h := a.head
	a.stepAt(production.Voted{}, now) // with the tracker's time, so that both measure the same interval
	to, persisted := must(a.o.Chain.BlockProducer(h.hash, p.Target)), false
	for i := range h.approvers {
		v := &h.approvers[i]
		if !a.isOwn(v.AccountID, v.PublicKey) {
			continue
		}
		vote := &primitives.Approval{
			Inner: p.Inner, Target: p.Target, AccountID: v.AccountID,
			Signature: a.o.Keys[v.AccountID].Sign(p.Inner.SignedBytes(p.Target)),
		}
		a.tracker.Vote(vote, h.approvers, now)
		if a.o.Out.Approval == nil || a.isOwn(to.AccountID, to.PublicKey) {
			continue
		}
		if !persisted && a.o.Persist != nil { // before it is sent, so that a restarted node does not contradict it
			if err := a.o.Persist(p.LargestTarget); err != nil {
				panic(err)
			}
			persisted = true
		}
		a.o.Out.Approval(messages.ApprovalMade{Approval: vote, To: to.AccountID})
	}
}

// approval handles another validator's approval. It counts one of a known block and parks one of an
// unknown block.
func (a *Actor) approval(m messages.ApprovalReceived) {
	v, h := m.Approval, a.head
	if v.Inner.Skip && v.Inner.SkipHeight > h.height || !v.Inner.Skip && v.Inner.Endorsement != h.hash &&
		a.o.Chain.Imported(v.Inner.Endorsement) == nil {
		if v.Target > h.height && v.Target-h.height <= doomslug.MaxAhead {
			a.park(m)
		}
		return
	}
	approvers := h.approvers
	if !v.Inner.Skip && v.Inner.Endorsement != h.hash {
		list, err := a.o.Chain.Approvers(v.Inner.Endorsement)
		if err != nil {
			return // its block is on a branch that is being removed
		}
		approvers = list
	}
	key, ok := approverKey(approvers, v.AccountID)
	if !ok || !a.o.Verify(v.Signature, v.Inner.SignedBytes(v.Target), key) {
		return
	}
	if a.tracker.Vote(v, approvers, a.now()) {
		a.advance()
	}
}

func approverKey(list []chain.Approver, account primitives.AccountID) (primitives.PublicKey, bool) {
	for i := range list {
		if list[i].AccountID == account {
			return list[i].PublicKey, true
		}
	}
	return "", false
}
