package consensus

import (
	"cmp"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
)

// vote signs an approval and sends it to the producer of the block at the approval's target height.
// If heights were skipped, the last final block may be in another epoch than the head's children.
// The approval is then also sent to the producer of the target height in that block's epoch
// (nearcore chain/client/src/client.rs:1779).
func (n *Node) vote(p doomslug.Proposal) {
	h := n.head
	if p.Inner.Skip {
		n.sendDeferred()
	}
	if !h.approves {
		return
	}
	n.signed.vote(p.LargestTarget)
	n.save()
	a := &primitives.Approval{
		Inner:     p.Inner,
		Target:    p.Target,
		AccountID: n.me,
		Signature: n.o.Key.Sign(p.Inner.SignedBytes(p.Target)),
	}
	n.o.Verifier.Add(a.Signature, p.Inner.SignedBytes(p.Target), n.public)
	to, err := n.e.BlockProducer(h.hash, p.Target)
	if err != nil {
		n.fail(err)
		return
	}
	n.note(nil, "votes for %d on %d, to %s", p.Target, h.height, to.AccountID)
	n.tracker.Vote(a, h.approvers, n.now)
	n.again = repeatedVote{}
	if to.AccountID != n.me {
		n.sendTo(to.AccountID, a)
	}
	if !p.Inner.Skip {
		if to.AccountID != n.me {
			n.again = repeatedVote{a, to.AccountID, n.now + n.o.Delays.Endorsement*3/2}
		}
		return
	}
	if other, ok := n.finalProducer(p.Target); ok && other != to.AccountID && other != n.me {
		n.sendTo(other, a)
	}
}

// repeatedVote is an approval of the head that is sent again at the time at (ns since 1970) to the
// validator in the field to, unless the head has changed by then. A repeatedVote is for a neard
// node that produces two consecutive heights. Such a node drops approvals for the second height
// that arrive before the node has executed its block of the first height
// (chain/client/src/client.rs:1852, provenance). Without the repetition, no block of the second
// height would be produced.
type repeatedVote struct {
	vote *primitives.Approval
	to   primitives.AccountID
	at   int64
}

func (n *Node) voteAgain() {
	v := n.again.vote
	if v == nil {
		return
	}
	stands := v.Inner.Endorsement == n.head.hash && v.Target == n.tracker.LargestTarget()
	if stands && n.now < n.again.at {
		return
	}
	if stands {
		n.note(nil, "votes for %d again, to %s", v.Target, n.again.to)
		n.sendTo(n.again.to, v)
	}
	n.again = repeatedVote{}
}

// finalProducer returns the producer of a height in the epoch of the final block. ok is false if
// the head's children are in the same epoch.
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

// approval handles a validator's approval. If the approved block is known, approval counts the
// approval; otherwise approval parks it. verified is the key with which the signature was verified
// before. verified is empty if the signature was not verified.
func (n *Node) approval(a *primitives.Approval, verified primitives.PublicKey) {
	h := n.head
	if h == nil {
		return
	}
	known := a.Inner.Skip && a.Inner.SkipHeight <= h.height ||
		!a.Inner.Skip && (a.Inner.Endorsement == h.hash || n.e.BlockNode(a.Inner.Endorsement) != nil)
	if !known {
		if a.Target > h.height && a.Target-h.height <= doomslug.MaxAhead {
			n.park(a, verified)
		}
		return
	}
	approvers := h.approvers
	if !a.Inner.Skip && a.Inner.Endorsement != h.hash {
		list, err := n.e.Approvers(a.Inner.Endorsement)
		if err != nil {
			return // the block's branch is being dropped
		}
		approvers = list
	}
	key, ok := approverKey(approvers, a.AccountID)
	if !ok || key != verified && !n.o.Verifier.Verify(a.Signature, a.Inner.SignedBytes(a.Target), key) {
		n.note(nil, "vote of %s for %d has a wrong signature", a.AccountID, a.Target)
		return
	}
	n.tracker.Vote(a, approvers, n.now)
}

// parked is an approval of an unknown block. key is the public key that verifies its signature.
type parked struct {
	*primitives.Approval
	key primitives.PublicKey
}

// park keeps an approval of an unknown block if its account approves the head's children or blocks
// of the next epoch. For each account and target height, park keeps only the approval that arrived
// last. For each account, park keeps at most MaxParked approvals: the approvals with the highest
// targets.
func (n *Node) park(a *primitives.Approval, verified primitives.PublicKey) {
	signed := func(list []chain.Approver) (primitives.PublicKey, bool) {
		key, ok := approverKey(list, a.AccountID)
		return key, ok && (key == verified || n.o.Verifier.Verify(a.Signature, a.Inner.SignedBytes(a.Target), key))
	}
	key, ok := signed(n.head.approvers)
	if !ok { // the block may be of the next epoch, where the account may have another key
		if next, _ := approverKey(n.nextApprovers(), a.AccountID); next != key {
			key, ok = signed(n.nextApprovers())
		}
	}
	if !ok {
		n.note(nil, "vote of %s for %d on an unknown block has a wrong signature", a.AccountID, a.Target)
		return
	}
	list := n.parked[a.AccountID]
	i, found := slices.BinarySearchFunc(
		list,
		a.Target,
		func(p parked, t primitives.Height) int { return cmp.Compare(p.Target, t) },
	)
	switch {
	case found:
		list[i] = parked{a, key}
	case len(list) < MaxParked:
		list = slices.Insert(list, i, parked{a, key})
	case i > 0: // drop the approval with the lowest target height
		copy(list, list[1:i])
		list[i-1] = parked{a, key}
	}
	n.parked[a.AccountID] = list
}

// unpark handles the parked approvals again after the head has changed.
func (n *Node) unpark() {
	waited := n.parked
	n.parked = map[primitives.AccountID][]parked{}
	for _, account := range slices.Sorted(maps.Keys(waited)) {
		for _, p := range waited[account] {
			n.approval(p.Approval, p.key)
		}
	}
}

// nextApprovers returns the block producers of the epoch after that of the head's children. An
// unknown block may belong to that epoch.
func (n *Node) nextApprovers() []chain.Approver {
	h := n.head
	if h.next == nil {
		h.next = []chain.Approver{}
		err := n.e.Epochs(func(m *epoch.Manager) error {
			id, err := m.NextEpochIDFromPrev(h.hash)
			if err != nil {
				return err
			}
			list, err := m.BlockProducersOrdered(id)
			for _, v := range list {
				h.next = append(h.next, chain.Approver{AccountID: v.AccountID, PublicKey: v.PublicKey})
			}
			return err
		})
		if err != nil {
			n.note(err, "approvers of the next epoch")
		}
	}
	return h.next
}

func approverKey(list []chain.Approver, account primitives.AccountID) (primitives.PublicKey, bool) {
	for i := range list {
		if list[i].AccountID == account {
			return list[i].PublicKey, true
		}
	}
	return "", false
}
