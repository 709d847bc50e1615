package consensus

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// engineOf is the engine as votesChain has it.
type engineOf = Chain

// votesChain is a chain of which nothing but the head is known.
type votesChain struct{ engineOf }

func (votesChain) Entry(primitives.Hash) *engine.Entry { return nil }
func (votesChain) Epochs(func(*epoch.Manager) error) error {
	return epoch.ErrEpochOutOfBounds // the next one's are asked for once
}

// TestParked: votes on a block that has not come are kept of those who may vote, with right signatures, whatever others send; the newest for each height.
func TestParked(t *testing.T) {
	key := func(name string) primitives.SecretKey { return primitives.SecretKeyFromSeed(primitives.ED25519, name) }
	var approvers []chain.Approver
	for _, name := range []primitives.AccountID{"a", "b", "c"} {
		approvers = append(approvers, chain.Approver{AccountID: name, PublicKey: key(string(name)).PublicKey(), StakeThis: primitives.NEAR(1)})
	}
	verified := 0
	n := &Node{e: votesChain{}, parked: map[primitives.AccountID][]parked{}, tracker: doomslug.New(doomslug.Delays{}, 0, 0), out: new(Out),
		head: &head{hash: primitives.Hash{1}, height: 10, approvers: approvers},
		o: Options{Verify: func(s primitives.Signature, b []byte, k primitives.PublicKey) bool {
			verified++
			return s.Verify(b, k)
		}}}
	vote := func(account primitives.AccountID, signer string, on byte, target primitives.Height) {
		a := &primitives.Approval{Inner: primitives.NewApprovalInner(primitives.Hash{on}, target-1, target), Target: target, AccountID: account}
		a.Signature = key(signer).Sign(a.Inner.SignedBytes(target))
		n.approval(a, "")
	}
	for i := range 5000 {
		vote(primitives.AccountID(fmt.Sprint("stranger", i)), "x", 2, 12)
	}
	if verified > 0 {
		t.Errorf("%d signatures of strangers were looked at", verified)
	}
	for i := range 100 {
		vote("a", "x", 2, primitives.Height(12+i)) // in the name of another
	}
	if len(n.parked) > 0 {
		t.Fatalf("%d accounts have votes that wait", len(n.parked))
	}
	for i := range 100 { // one who has a vote, and sends many
		vote("c", "c", 9, primitives.Height(12+i))
		vote("c", "c", 9, primitives.Height(12+i))
	}
	if list := n.parked["c"]; len(list) != MaxParked || list[0].Target != 112-MaxParked || list[MaxParked-1].Target != 111 {
		t.Errorf("of it %d wait: %+v", len(list), list)
	}
	vote("c", "c", 9, 12) // lower than all that wait
	for _, name := range []primitives.AccountID{"a", "b"} {
		vote(name, string(name), 3, 12)
		vote(name, string(name), 2, 12)
	}
	vote("c", "c", 2, 120)
	if list := n.parked["c"]; len(list) != MaxParked || list[MaxParked-1].Target != 120 || list[0].Target != 113-MaxParked {
		t.Errorf("behind the highest %d wait: %+v", len(list), list)
	}
	looked := verified
	n.head = &head{hash: primitives.Hash{2}, height: 11, approvers: approvers}
	n.tracker.Tip(n.head.hash, 11, 9, 0)
	n.unpark()
	got := n.tracker.Approvals(12, approvers)
	if got[0] == "" || got[1] == "" || got[2] != "" {
		t.Errorf("votes that count: %q", got)
	}
	if verified != looked {
		t.Errorf("%d signatures were looked at twice", verified-looked)
	}
}
