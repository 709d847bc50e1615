package apply

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestStagesAddUpToChunk: the gas and compute of the stages are those of the chunk, each in the stage
// of its transactions and receipts.
func TestStagesAddUpToChunk(t *testing.T) {
	n := newPair(t)
	cost := transferGas(n.cfg)
	local := n.tx(alice, alice, transfer(primitives.Yocto(1)))
	remote := n.tx(alice, bob, transfer(primitives.Yocto(1)))
	poor := n.tx(bob, alice, transfer(primitives.NEAR(1_000_000)))
	n.give(bobsReceipts(n, 4)...)
	// the transactions burn about twice a transfer, the local receipt one, so two of four receipts run
	n.limit = 5*cost - 1
	first := n.step(local, remote, poor)[0]
	second := n.step()[0]
	for i, r := range []*Result{first, second} {
		var sum StageUse
		for _, s := range r.Stats.Stages {
			sum.Gas += s.Gas
			sum.Compute += s.Compute
		}
		if sum.Gas != r.GasUsed || uint64(sum.Compute) != r.Stats.Compute || sum.Gas == 0 {
			t.Errorf("chunk %d: the stages burnt %d gas and used %d, the chunk %d and %d",
				i, sum.Gas, sum.Compute, r.GasUsed, r.Stats.Compute)
		}
	}
	s := &first.Stats
	if s.Transactions != 3 || s.Failed != 1 {
		t.Errorf("%d transactions, %d failed, want 3 and 1", s.Transactions, s.Failed)
	}
	if s.Local != 1 || s.Stages[StageLocal].Gas != cost {
		t.Errorf("%d local receipts burnt %d gas, want 1 and %d", s.Local, s.Stages[StageLocal].Gas, cost)
	}
	if s.Incoming != 2 || s.Stages[StageIncoming].Gas != 2*cost || s.Stages[StageDelayed].Gas != 0 {
		t.Errorf("%d incoming receipts burnt %d gas, delayed receipts %d, want 2, %d and 0",
			s.Incoming, s.Stages[StageIncoming].Gas, s.Stages[StageDelayed].Gas, 2*cost)
	}
	if n := s.Begun[primitives.TagTransfer]; n != 3 {
		t.Errorf("%d transfers began, want 3", n)
	}
	if d := &second.Stats; d.Delayed != 2 || d.Stages[StageDelayed].Gas != 2*cost {
		t.Errorf("%d delayed receipts burnt %d gas, want 2 and %d", d.Delayed, d.Stages[StageDelayed].Gas, 2*cost)
	}
}
