package consensus

import (
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// engineOf is another name of Chain, so that test types can embed it although Chain has a method
// Chain.
type engineOf = Chain

// votesChain is a Chain with a head and no other data.
type votesChain struct{ engineOf }

func (votesChain) BlockNode(primitives.Hash) *engine.BlockNode { return nil }
func (votesChain) Epochs(func(*epoch.Manager) error) error {
	return epoch.ErrEpochOutOfBounds // so nextApprovers is empty, and is not computed again
}

// TestApprovalsOfUnknownBlocksAreKeptIfValid: of the approvals of unknown blocks, those with a
// valid signature of an approver are kept, the newest for each height, whatever other nodes send.
func TestApprovalsOfUnknownBlocksAreKeptIfValid(t *testing.T) {
	key := func(name string) primitives.SecretKey { return primitives.SecretKeyFromSeed(primitives.ED25519, name) }
	var approvers []chain.Approver
	for _, name := range []primitives.AccountID{"a", "b", "c"} {
		approvers = append(approvers, chain.Approver{AccountID: name, PublicKey: key(string(name)).PublicKey(), StakeThis: primitives.NEAR(1)})
	}
	verified := 0
	n := &Node{e: votesChain{}, parked: map[primitives.AccountID][]parked{}, tracker: doomslug.New(doomslug.Delays{}, 0, 0), out: new(Out),
		head: &head{hash: primitives.Hash{1}, height: 10, approvers: approvers},
		o:    Options{Verifier: countVerifier{n: &verified}}}
	vote := func(account primitives.AccountID, signer string, on byte, target primitives.Height) {
		a := &primitives.Approval{Inner: primitives.NewApprovalInner(primitives.Hash{on}, target-1, target), Target: target, AccountID: account}
		a.Signature = key(signer).Sign(a.Inner.SignedBytes(target))
		n.approval(a, "")
	}
	for i := range 5000 {
		vote(primitives.AccountID(fmt.Sprint("unknown", i)), "x", 2, 12)
	}
	if verified > 0 {
		t.Errorf("%d signatures of unknown accounts were verified", verified)
	}
	for i := range 100 {
		vote("a", "x", 2, primitives.Height(12+i)) // a forged signature
	}
	if len(n.parked) > 0 {
		t.Fatalf("%d accounts have votes that wait", len(n.parked))
	}
	for i := range 100 { // an approver sends very many
		vote("c", "c", 9, primitives.Height(12+i))
		vote("c", "c", 9, primitives.Height(12+i))
	}
	if list := n.parked["c"]; len(list) != MaxParked || list[0].Target != 112-MaxParked || list[MaxParked-1].Target != 111 {
		t.Errorf("of it %d wait: %+v", len(list), list)
	}
	vote("c", "c", 9, 12) // lower than all that are parked
	for _, name := range []primitives.AccountID{"a", "b"} {
		vote(name, string(name), 3, 12)
		vote(name, string(name), 2, 12)
	}
	vote("c", "c", 2, 120)
	if list := n.parked["c"]; len(list) != MaxParked || list[MaxParked-1].Target != 120 || list[0].Target != 113-MaxParked {
		t.Errorf("behind the highest %d wait: %+v", len(list), list)
	}
	checked := verified
	n.head = &head{hash: primitives.Hash{2}, height: 11, approvers: approvers}
	n.tracker.Tip(n.head.hash, 11, 9, 0)
	n.unpark()
	got := n.tracker.Approvals(12, approvers)
	if got[0] == "" || got[1] == "" || got[2] != "" {
		t.Errorf("votes that count: %q", got)
	}
	if verified != checked {
		t.Errorf("%d signatures were checked twice", verified-checked)
	}
}

// TestEarlyApprovalIsKeptWithNextEpochKey: if an account has another key in the next epoch, its
// approvals of unknown blocks are kept with either key.
func TestEarlyApprovalIsKeptWithNextEpochKey(t *testing.T) {
	key := func(name string) primitives.SecretKey { return primitives.SecretKeyFromSeed(primitives.ED25519, name) }
	as := func(name string) []chain.Approver {
		return []chain.Approver{{AccountID: "a", PublicKey: key(name).PublicKey(), StakeThis: primitives.NEAR(1)}}
	}
	for _, signer := range []string{"old", "new", "other"} {
		n := &Node{e: votesChain{}, parked: map[primitives.AccountID][]parked{}, tracker: doomslug.New(doomslug.Delays{}, 0, 0), out: new(Out),
			head: &head{hash: primitives.Hash{1}, height: 10, approvers: as("old"), next: as("new")},
			o:    Options{Verifier: PlainVerifier{}}}
		a := &primitives.Approval{Inner: primitives.NewApprovalInner(primitives.Hash{2}, 11, 12), Target: 12, AccountID: "a"}
		a.Signature = key(signer).Sign(a.Inner.SignedBytes(12))
		n.approval(a, "")
		if signer == "other" {
			if len(n.parked) > 0 {
				t.Error("an approval signed by another key is kept")
			}
			continue
		}
		n.head = &head{hash: primitives.Hash{2}, height: 11, approvers: as(signer)}
		n.tracker.Tip(n.head.hash, 11, 9, 0)
		n.unpark()
		if got := n.tracker.Approvals(12, n.head.approvers); got[0] == "" {
			t.Errorf("the approval signed by the %s key is lost", signer)
		}
	}
}

// producedBy is a Chain in which one account produces all blocks.
type producedBy struct {
	engineOf
	producer primitives.AccountID
}

func (c producedBy) BlockProducer(primitives.Hash, primitives.Height) (primitives.ValidatorStake, error) {
	return primitives.ValidatorStake{AccountID: c.producer}, nil
}

func (producedBy) Final() storage.BlockRef { return storage.BlockRef{} }
func (producedBy) Header(primitives.Hash) (*primitives.BlockHeader, error) {
	return nil, engine.ErrUnknown
}

// TestApprovalIsRepeatedIfHeadStays: an approval is sent again if the head is unchanged after one
// and a half times Delays.Endorsement. It is not sent again if a higher height was approved
// meanwhile.
func TestApprovalIsRepeatedIfHeadStays(t *testing.T) {
	key := primitives.SecretKeyFromSeed(primitives.ED25519, "a")
	approvers := []chain.Approver{{AccountID: "a", PublicKey: key.PublicKey(), StakeThis: primitives.NEAR(1)}}
	delays := doomslug.Delays{Endorsement: 600 * ms, Skip: 2000 * ms, MaxWait: 6000 * ms}
	for _, c := range []struct {
		name, maker string
		skips, head bool // what happens before the repetition is due
		want        int
	}{
		{"the head stays", "b", false, false, 1},
		{"the height is skipped", "b", true, false, 0},
		{"a block comes", "b", false, true, 0},
		{"this node produces the block", "a", false, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			delays := delays
			if c.skips {
				delays.Skip = 1200 * ms
			}
			n := &Node{e: producedBy{producer: primitives.AccountID(c.maker)}, me: "a",
				o: Options{Verifier: PlainVerifier{}, Key: key, Delays: delays}, signed: new(Signatures),
				tracker: doomslug.New(delays, 0, 0), out: new(Out), head: &head{hash: primitives.Hash{1}, height: 10, approvers: approvers, approves: true}}
			n.tracker.Tip(n.head.hash, 10, 9, 0)
			sentAt := func(at int64) (votes []*primitives.Approval) {
				n.now, n.out = at, new(Out)
				for _, p := range n.tracker.Tick(at, false) {
					n.vote(p)
				}
				n.voteAgain()
				for _, s := range n.out.Send {
					if a, ok := s.Message.(*primitives.Approval); ok && s.To == "b" && a.Target == 11 {
						votes = append(votes, a)
					}
				}
				return votes
			}
			first := sentAt(600 * ms)
			if len(first) != 1 && c.maker == "b" {
				t.Fatalf("%d votes for 11", len(first))
			}
			if again := sentAt(1499 * ms); len(again) != 0 {
				t.Errorf("%d votes for 11 too early", len(again))
			}
			if c.head {
				n.head = &head{hash: primitives.Hash{2}, height: 11, approvers: approvers}
			}
			got := sentAt(1500 * ms)
			if len(got) != c.want || c.want == 1 && got[0] != first[0] {
				t.Errorf("%d votes for 11 once more, not %d", len(got), c.want)
			}
			if len(sentAt(1999*ms)) != 0 || n.again.vote != nil {
				t.Error("and still more")
			}
		})
	}
}

// countVerifier counts the signatures that are verified.
type countVerifier struct {
	PlainVerifier
	n *int
}

func (c countVerifier) Verify(s primitives.Signature, b []byte, k primitives.PublicKey) bool {
	*c.n++
	return s.Verify(b, k)
}
