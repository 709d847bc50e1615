package apply

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
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
	n.clock = new(ticks)
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
	for stage, use := range s.Stages { // the clock advances by 1 whenever it is read: at the beginning and after each stage
		if use.Nanoseconds != 1 {
			t.Errorf("stage %d took %d ns by the clock, want 1", stage, use.Nanoseconds)
		}
	}
	if d := &second.Stats; d.Delayed != 2 || d.Stages[StageDelayed].Gas != 2*cost {
		t.Errorf("%d delayed receipts burnt %d gas, want 2 and %d", d.Delayed, d.Stages[StageDelayed].Gas, 2*cost)
	}
}

// ticks is a Clock that advances by 1 ns whenever it is read.
type ticks struct{ n int64 }

func (c *ticks) Elapsed() int64 { c.n++; return c.n }

// TestCallsAreCountedByResult: each contract call of an executed receipt counts, under the names of
// nearcore's errors if it failed, whether receipts run one by one or in parallel.
func TestCallsAreCountedByResult(t *testing.T) {
	spin := action.CallFailure{Error: "HostError", Kind: "GasExceeded"}
	empty := action.CallFailure{Error: "CompilationError", Kind: "CodeDoesNotExist"}
	for name, par := range map[string]Par{"one by one": nil, "in parallel": func(n int, do func(int)) {
		for i := range n {
			do(i)
		}
	}} {
		t.Run(name, func(t *testing.T) {
			n := newPair(t)
			n.par, n.vm = par, namedVM{"spin": spin}
			call := func(method string) primitives.Action {
				return &primitives.FunctionCall{Method: method, Gas: 1_000_000_000_000}
			}
			code := &primitives.DeployContract{Code: []byte("code")}
			n.step(n.tx(alice, alice, code))
			s := n.step(n.tx(alice, alice, call("a"), call("b"), call("spin"), call("c")), n.tx(alice, alice, call("d")),
				n.tx(bob, bob, call("a")))[0].Stats
			if s.CallsDone != 3 || len(s.CallFailures) != 2 || s.CallFailures[spin] != 1 || s.CallFailures[empty] != 1 {
				t.Errorf("%d calls succeeded, failures %v, want 3, one of %v and one of %v", s.CallsDone, s.CallFailures, spin, empty)
			}
			if s := n.step()[0].Stats; s.CallsDone != 0 || s.CallFailures != nil {
				t.Errorf("a chunk without calls has %d and %v", s.CallsDone, s.CallFailures)
			}
		})
	}
}

// namedVM is a VM in which calls of the listed methods fail.
type namedVM map[string]action.CallFailure

func (vm namedVM) Call(c *action.Call, _ *action.External) (action.CallOutcome, error) {
	out := c.Unchanged()
	if out.Failure = vm[c.Method]; out.Failure.Error != "" {
		out.Err = &primitives.FunctionCallError{Tag: primitives.CallExecution, Message: "text"}
	}
	return out, nil
}
