package consensus

import (
	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// vote signs an approval, and sends it to who makes the block of its height: in the epoch behind the head, and, if heights are skipped, also in that
// of the final block, where that is another one (nearcore client.rs:1779).
func (n *Node) vote(p doomslug.Proposal) {
	h := n.head
	if !h.approves {
		return
	}
	n.signed.vote(p.LargestTarget)
	n.save()
	a := &primitives.Approval{Inner: p.Inner, Target: p.Target, AccountID: n.me, Signature: n.o.Key.Sign(p.Inner.SignedBytes(p.Target))}
	to, err := n.e.BlockProducer(h.hash, p.Target)
	if err != nil {
		n.fail(err)
		return
	}
	n.note(nil, "votes for %d on %d, to %s", p.Target, h.height, to.AccountID)
	n.tracker.Vote(a, h.approvers, n.now)
	if to.AccountID != n.me {
		n.say(to.AccountID, a)
	}
	if !p.Inner.Skip {
		return
	}
	if other, ok := n.finalProducer(p.Target); ok && other != to.AccountID && other != n.me {
		n.say(other, a)
	}
}

// finalProducer is who makes a height in the epoch of the final block.
func (n *Node) finalProducer(target primitives.Height) (who primitives.AccountID, ok bool) {
	at, err := n.e.Header(n.e.Final().Hash)
	if err != nil || at.PrevHash.IsZero() || at.EpochID == n.head.epoch {
		return "", false
	}
	err = n.e.Epochs(func(m *epoch.Manager) error {
		p, err := m.BlockProducer(at.EpochID, target)
		if err == nil {
			who = p.AccountID
		}
		return err
	})
	return who, err == nil
}

// approval takes a validator's vote: one on the head counts, one on a block that has not come waits for it.
func (n *Node) approval(a *primitives.Approval) {
	h := n.head
	if h == nil {
		return
	}
	known := a.Inner.Skip && a.Inner.SkipHeight <= h.height || !a.Inner.Skip && (a.Inner.Endorsement == h.hash || n.e.Entry(a.Inner.Endorsement) != nil)
	if !known {
		if a.Target > h.height && a.Target-h.height <= doomslug.MaxAhead && len(n.parked) < MaxParked {
			n.parked = append(n.parked, a)
		}
		return
	}
	approvers := h.approvers
	if !a.Inner.Skip && a.Inner.Endorsement != h.hash {
		list, err := n.e.Approvers(a.Inner.Endorsement)
		if err != nil {
			return // of a branch that is being forgotten
		}
		approvers = list
	}
	key, ok := approverKey(approvers, a.AccountID)
	if !ok || !n.o.Verify(a.Signature, a.Inner.SignedBytes(a.Target), key) {
		n.note(nil, "vote of %s for %d is not its own", a.AccountID, a.Target)
		return
	}
	n.tracker.Vote(a, approvers, n.now)
}

func approverKey(list []chain.Approver, account primitives.AccountID) (primitives.PublicKey, bool) {
	for i := range list {
		if list[i].AccountID == account {
			return list[i].PublicKey, true
		}
	}
	return "", false
}
