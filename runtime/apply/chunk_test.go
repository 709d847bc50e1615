package apply

import (
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/state"
)

// TestMissingChunkChangesOnlyBandwidthState checks that congestion info and bandwidth requests are
// repeated in the result.
func TestMissingChunkChangesOnlyBandwidthState(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	n.step()
	n.shards[0].info.ReceiptBytes = 7 // any value, to see that it is repeated
	n.shards[0].requests = []primitives.BandwidthRequest{{ToShard: 0, Bitmap: [5]byte{1}}}
	n.shards[0].missing = true
	n.shards[0].incoming[0] = []*primitives.Receipt{{PredecessorID: alice, ReceiverID: bob, Body: &primitives.DataReceipt{}}}
	r := n.step(n.tx(alice, bob, transfer(primitives.Yocto(1))))[0]
	if len(r.Outcomes) != 0 || len(r.Outgoing) != 0 || r.Congestion.ReceiptBytes != 7 || len(r.BandwidthRequests) != 1 {
		t.Errorf("result %+v", r)
	}
	if len(r.Changes) != 1 || !slices.Equal(r.Changes[0].Key, primitives.BandwidthSchedulerKey) ||
		r.Changes[0].Changes[0].Cause.Kind != primitives.CauseBandwidthSchedulerStateUpdate {
		t.Errorf("changes %+v", r.Changes)
	}
}

// TestEpochStartPaysRewardsAndReturnsStake: nearcore lib.rs:1584.
func TestEpochStartPaysRewardsAndReturnsStake(t *testing.T) {
	t.Parallel()
	setup := func(locked uint64) *net {
		n := newNet(t, primitives.SingleShardLayout(), alice, bob, "treasury.near")
		u := state.NewUnrecorded(n.shards[0].trie)
		a := *n.account(alice)
		a.Locked = primitives.NEAR(locked)
		u.SetAccount(alice, &a)
		u.Commit(primitives.CauseInitialState, primitives.Hash{})
		f, err := u.Finalize()
		if err != nil {
			t.Fatal(err)
		}
		n.shards[0].trie = f.Trie
		return n
	}
	update := func(most uint64) *ValidatorUpdate {
		return &ValidatorUpdate{
			Stakes:   []AccountAmount{{alice, primitives.NEAR(most)}, {"gone.near", primitives.Balance{}}},
			Rewards:  []AccountAmount{{alice, primitives.NEAR(3)}, {"treasury.near", primitives.NEAR(2)}},
			Treasury: "treasury.near",
		}
	}
	run := func(n *net, v *ValidatorUpdate) error {
		n.height++
		in := n.input(0, nil)
		in.Validators = v
		r, err := Apply(in)
		if err == nil {
			n.shards[0].trie = r.Trie
		}
		return err
	}
	for _, tt := range []struct {
		name                   string
		most, proposal, locked uint64 // locked: after
	}{
		{"returns what nobody needs", 20, 0, 20},
		{"keeps the last proposal", 20, 40, 40},
		{"keeps the maximum", 53, 10, 53},
	} {
		n := setup(50)
		v := update(tt.most)
		v.LastProposals = []primitives.ValidatorStake{{AccountID: alice, Stake: primitives.NEAR(1)}, {AccountID: alice, Stake: primitives.NEAR(tt.proposal)}}
		if err := run(n, v); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		a := n.account(alice)
		if a.Locked != primitives.NEAR(tt.locked) || a.Amount != primitives.NEAR(1000+53-tt.locked) {
			t.Errorf("%s: locked %v, amount %v", tt.name, a.Locked, a.Amount)
		}
		if got := n.account("treasury.near").Amount; got != primitives.NEAR(1002) {
			t.Errorf("%s: treasury has %v", tt.name, got)
		}
	}
	if err := run(setup(50), update(54)); !errors.Is(err, state.ErrInconsistent) {
		t.Errorf("less locked than staked: %v", err)
	}
	v := update(20)
	v.Stakes = append(v.Stakes, AccountAmount{"nobody.near", primitives.NEAR(1)})
	if err := run(setup(50), v); !errors.Is(err, state.ErrInconsistent) {
		t.Errorf("missing validator: %v", err)
	}
	v = update(20)
	v.Stakes = append(v.Stakes, AccountAmount{"treasury.near", primitives.Balance{}})
	n := setup(50)
	if err := run(n, v); err != nil || n.account("treasury.near").Amount != primitives.NEAR(1002) {
		t.Errorf("staking treasury: %v, %v: paid once", err, n.account("treasury.near").Amount)
	}
}

// TestSplitProposalFollowsNearcoresOrder: nearcore's order is that of check_dynamic_resharding.
func TestSplitProposalFollowsNearcoresOrder(t *testing.T) {
	t.Parallel()
	n := newNet(t, threeShards(), wildNames...)
	own := n.layout.ShardIDs()[0]
	usage := n.shards[0].trie.MemoryUsage()
	all := SplitRule{MaxShards: 4, MemoryThreshold: usage}
	for _, tt := range []struct {
		name   string
		change func(*SplitRule)
		want   bool
	}{
		{"large enough", func(*SplitRule) {}, true},
		{"too small", func(r *SplitRule) { r.MemoryThreshold++ }, false},
		{"too many shards", func(r *SplitRule) { r.MaxShards = 3; r.Force = []primitives.ShardID{own} }, false},
		{"forced", func(r *SplitRule) {
			r.MemoryThreshold, r.MinChildMemory, r.Force, r.Block = usage+1, usage, []primitives.ShardID{own}, []primitives.ShardID{own}
		}, true},
		{"blocked", func(r *SplitRule) { r.Block = []primitives.ShardID{own} }, false},
		{"small child", func(r *SplitRule) { r.MinChildMemory = usage }, false},
	} {
		rule := all
		tt.change(&rule)
		for _, present := range []bool{true, false} {
			n.shards[0].missing = !present
			in := n.input(0, nil)
			in.Split = &rule
			r, err := Apply(in)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.ProposedSplit != nil; got != (tt.want && present) {
				t.Errorf("%s, chunk %v: split %+v", tt.name, present, r.ProposedSplit)
			}
		}
	}
	n.shards[0].missing = false
}

// TestLastStakeProposalOfAccountIsKept checks that the latest proposal is first.
func TestLastStakeProposalOfAccountIsKept(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	stake := func(who primitives.AccountID, near uint64) *primitives.SignedTransaction {
		return n.tx(who, who, &primitives.Stake{Stake: primitives.NEAR(near), PublicKey: testKey("v").PublicKey()})
	}
	r := n.step(stake(alice, 20), stake(bob, 30), stake(alice, 15))[0]
	if len(r.Proposals) != 2 || r.Proposals[0].AccountID != alice || r.Proposals[0].Stake != primitives.NEAR(15) || r.Proposals[1].AccountID != bob {
		t.Errorf("proposals %+v", r.Proposals)
	}
	if a := n.account(alice); a.Locked != primitives.NEAR(20) {
		t.Errorf("locked %v: a cut waits for the end of epochs", a.Locked)
	}
	for near, want := range map[uint64]primitives.ActionErrorTag{5: primitives.ActionInsufficientStake, 5000: primitives.ActionTriesToStake} {
		tx := stake(bob, near)
		results := n.step(tx)
		if e := actionError(t, findOutcome(t, results, findOutcome(t, results, tx.Hash()).ReceiptIDs[0])); e.Kind.Tag != want {
			t.Errorf("staking %d: %v", near, e)
		}
	}
}

func TestIncomingListsAreShuffledByPrevHash(t *testing.T) {
	t.Parallel()
	lists := make([][]*primitives.Receipt, 5)
	for i := range lists {
		for range i {
			lists[i] = append(lists[i], &primitives.Receipt{ID: primitives.Hash{byte(i)}})
		}
	}
	seed := primitives.HashBytes([]byte("prev"))
	got := OrderIncoming(seed, lists)
	order := []int{0, 1, 2, 3, 4}
	primitives.Shuffle(primitives.NewChaCha20Rng(seed), order)
	at := 0
	for _, i := range order {
		for range i {
			if got[at].ID[0] != byte(i) {
				t.Fatalf("receipt %d is of list %d, want %d", at, got[at].ID[0], i)
			}
			at++
		}
	}
	if at != len(got) {
		t.Errorf("%d receipts, want %d", len(got), at)
	}
}

func TestApplyRefusesInvalidInput(t *testing.T) {
	t.Parallel()
	n := newPair(t)
	for name, change := range map[string]func(*Input){
		"no trie":       func(in *Input) { in.Trie = nil },
		"unknown shard": func(in *Input) { in.Block.ShardID = 9 },
		"no congestion": func(in *Input) { in.Congestion = nil },
	} {
		t.Run(name, func(t *testing.T) {
			in := n.input(0, nil)
			change(in)
			if _, err := Apply(in); !errors.Is(err, ErrInput) {
				t.Errorf("got error %v, want %v", err, ErrInput)
			}
		})
	}
	in := n.input(0, nil)
	in.Incoming = []*primitives.Receipt{{PredecessorID: alice, ReceiverID: bob, Body: &primitives.ActionReceipt{SignerID: alice, Actions: make([]primitives.Action, 0)}}}
	a := in.Incoming[0].Body.(*primitives.ActionReceipt)
	for range 101 {
		a.Actions = append(a.Actions, &primitives.CreateAccount{})
	}
	var invalid *primitives.ReceiptValidationError
	if _, err := Apply(in); !errors.As(err, &invalid) {
		t.Errorf("invalid incoming receipt: %v", err)
	}
}

// TestOutgoingGroupsMatchSimpleGrouping compares the groups that Apply builds with those of a
// simple implementation.
func TestOutgoingGroupsMatchSimpleGrouping(t *testing.T) {
	t.Parallel()
	w := newRandomWorkload(t, threeShards(), 99)
	for range 4 {
		var txs []*primitives.SignedTransaction
		for range 30 {
			txs = append(txs, w.transaction())
		}
		for _, r := range w.step(txs...) {
			groups, err := groupOutgoing(w.layout, r.Outgoing)
			if err != nil {
				t.Fatal(err)
			}
			for i := range groups {
				if groups[i].Hash != r.OutgoingByShard[i].Hash || !slices.Equal(groups[i].Receipts, r.OutgoingByShard[i].Receipts) {
					t.Errorf("group %d differs", i)
				}
			}
			if OutgoingRoot(groups) != r.OutgoingRoot {
				t.Error("root differs")
			}
		}
	}
}

// groupOutgoing sorts receipts by the shards they go to, one group for each shard of the layout, by
// index; the order within a group is kept (nearcore chain/chain/src/chain.rs:4054).
func groupOutgoing(l primitives.ShardLayout, receipts []*primitives.Receipt) ([]Outgoing, error) {
	out := make([]Outgoing, l.NumShards())
	for i, id := range l.ShardIDs() {
		out[i].Shard = id
	}
	for _, r := range receipts {
		to, err := target(l, r)
		if err != nil {
			return nil, err
		}
		out[to].Receipts = append(out[to].Receipts, r)
	}
	for i := range out {
		out[i].Hash = outgoingHash(out[i].Shard, out[i].Receipts)
	}
	return out, nil
}

func outgoingHash(shard primitives.ShardID, receipts []*primitives.Receipt) primitives.Hash {
	return primitives.HashBytes(primitives.AppendReceipts(borsh.AppendUint64(nil, uint64(shard)), receipts))
}
