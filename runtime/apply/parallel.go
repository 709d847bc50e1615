package apply

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// Parallel execution of receipts.
//
// The problem: the order in which a chunk's receipts run is consensus. But most receipts touch a
// single account, and contract calls take nearly all of the time. If receipts run one by one, they
// use one core.
//
// Invariants:
//   - The result (outcomes, state root, recorded proof, profiles) equals the result of the
//     serial order, for any number of workers and any window size.
//   - Each receipt has its turn in the serial order. Limits, commits, recorded reads and sent
//     receipts take effect only in that turn.
//   - A speculative run may fail, or its receipt's turn may come when its result is no longer
//     correct. The receipt then runs again in its turn. Until its turn, nothing that a
//     speculative run does is visible.
//
// Outline: runAhead takes the next receipts of a list (at most windowSizes.most) and divides them
// into calls of about batch receipts (divide). All receipts of one receiver go to the same call, in
// order. Each call runs on its own fork of the state update, in parallel with the others. The
// result of a run is a state.Span, which holds what the run read and wrote. When the receipt's turn
// comes, adopt checks that no value in the span's reads has changed. If no value has changed, adopt
// commits the span's writes and settles the outcome. Otherwise the receipt runs again.
//
// A call pays for each touch of a trie node. The gas profile has separate costs for the first touch
// of a node in a chunk and for repeated touches. A speculative run may assign a touch to the wrong
// cost. canRunAhead checks that the two costs have the same price. correctProfile moves the touches
// between the two costs.
//
// Rejected: locking accounts by a dependency analysis up front. Contracts can read and write any
// key of their account, and promises and refunds are known only after a run. Also rejected: running
// the receipts of a popular receiver speculatively. All other calls would wait for the call with
// the popular receiver.

const (
	defaultWindow = 1024 // maximum number of receipts that run speculatively at a time
	defaultLeast  = 32   // minimum number of receipts that run speculatively
	batch         = 16   // approximate number of receipts in one call of Par
)

// windowSizes bounds speculative execution. At most `most` receipts run ahead. Lists shorter than
// `least` do not run ahead. Tests choose other values; results do not depend on them.
type windowSizes struct{ most, least int }

func (w windowSizes) orDefault() windowSizes {
	if w.most == 0 {
		return windowSizes{defaultWindow, defaultLeast}
	}
	return w
}

// speculativeRun is a receipt that ran before its turn. ok is false if the run failed or never
// started.
type speculativeRun struct {
	span state.Span
	out  executed
	ok   bool
}

// speculation holds the receipts that ran ahead.
type speculation struct {
	done  map[*primitives.Receipt]*speculativeRun
	forks int32 // number of forks of the state made in this chunk
}

// runAhead runs the first receipts of the list before their turn.
func (c *chunk) runAhead(list []*primitives.Receipt) {
	list = list[:min(c.window.most, len(list))]
	if c.in.Par == nil || len(list) < c.window.least || c.full() {
		return
	}
	if !canRunAhead(c.cfg) {
		return
	}
	calls := c.divide(list)
	slots := make([]speculativeRun, len(list))
	c.spec.done = make(map[*primitives.Receipt]*speculativeRun, len(list))
	first := make([]int, len(calls))
	at := 0
	for i, call := range calls {
		first[i] = at
		for _, r := range call {
			c.spec.done[r] = &slots[at]
			at++
		}
	}
	forks := c.spec.forks
	c.spec.forks += int32(len(calls))
	c.in.Par(len(calls), func(i int) {
		fork := c.u.Fork(forks + int32(i) + 1)
		var w worker
		for k, r := range calls[i] {
			a := &slots[first[i]+k]
			w.out = executed{}
			a.span = fork.Begin()
			if c.in.canceled() || w.run(&c.in.Block, c.in.Layout, fork, r) != nil {
				return // skip the remaining receipts of this call of Par
			}
			a.span.End()
			a.out, a.ok = w.out, true
		}
	})
}

// canRunAhead returns whether receipts can run speculatively under config c. Two conditions must
// hold. First, the first touch and repeated touches of a trie node have the same price, so that
// speculation can change only profiles (see adopt). Second, the chunk's soft limit of recorded
// state is at most the limit of one receipt. A run that reaches the receipt's limit has then passed
// the soft limit too, and Span.End marks it as not adoptable.
func canRunAhead(c *parameters.RuntimeConfig) bool {
	e := &c.Wasm.Ext
	return e[parameters.ExtTouchingTrieNode] == e[parameters.ExtReadCachedTrieNode] &&
		c.Witness.MainStorageProofSizeSoftLimit <= c.Wasm.Limits.PerReceiptStorageProofSizeLimit
}

// divide divides receipts into calls of about batch receipts each. Receipts of one receiver go to
// the same call, in their order. The division does not depend on the number of workers. divide
// leaves out a receiver with more than half of the work, because all other calls would wait for
// its receipts.
func (c *chunk) divide(list []*primitives.Receipt) (calls [][]*primitives.Receipt) {
	callOf := make(map[primitives.AccountID]int, len(list))
	popular := majority(list)
	open := -1 // index of the call of Par to which receipts are added; -1: none
	for _, r := range list {
		if r.ReceiverID == popular || !independent(r) {
			continue
		}
		i, known := callOf[r.ReceiverID]
		if !known {
			if open < 0 || len(calls[open]) >= batch {
				calls = append(calls, make([]*primitives.Receipt, 0, batch))
				open = len(calls) - 1
			}
			i = open
			callOf[r.ReceiverID] = i
		}
		calls[i] = append(calls[i], r)
	}
	return calls
}

// majority returns the receiver of more than half of the work; empty if there is no such receiver.
// majority finds a candidate by the majority vote of Boyer and Moore, with weights, and then checks
// the candidate.
func majority(list []*primitives.Receipt) (id primitives.AccountID) {
	left, all := 0, 0
	for _, r := range list {
		w := weight(r)
		all += w
		if r.ReceiverID == id {
			left += w
		} else if left -= w; left < 0 {
			id, left = r.ReceiverID, -left
		}
	}
	for _, r := range list {
		if r.ReceiverID == id {
			all -= 2 * weight(r)
		}
	}
	if all >= 0 {
		return ""
	}
	return id
}

// weight estimates the work of a receipt: a contract call counts as ten transfers.
func weight(r *primitives.Receipt) int {
	if body, ok := r.Body.(*primitives.ActionReceipt); ok {
		for _, a := range body.Actions {
			if a.Tag() == primitives.TagFunctionCall {
				return 10
			}
		}
	}
	return 1
}

// independent returns whether a receipt is worth running ahead. Receipts that are known to touch
// shared keys are not worth it.
func independent(r *primitives.Receipt) bool {
	switch body := r.Body.(type) {
	case *primitives.DataReceipt:
		return true
	case *primitives.ActionReceipt:
		return !slices.ContainsFunc(body.Actions, func(a primitives.Action) bool {
			return a.Tag() == primitives.TagDeleteAccount || a.Tag() == primitives.TagDeployGlobalContract
		})
	default: // distributions of global contracts do not run speculatively
		return false
	}
}

// adopt takes over the result of a receipt that ran ahead. It returns false if the receipt has to
// run now.
func (c *chunk) adopt(r *primitives.Receipt) (bool, error) {
	a := c.spec.done[r]
	if a == nil {
		return false, nil
	}
	delete(c.spec.done, r)
	m := &a.out.outcome.Metadata
	profile, correct := m.Profile, true
	if more := c.retouchedBy(a); more != 0 {
		// A call that ran out of gas may have touched nodes without paying for them, so its profile
		// cannot be corrected.
		correct = false
		if a.out.outcome.Status.Kind != primitives.StatusFailure {
			profile, correct = c.correctProfile(m.Profile, more)
		}
	}
	if !a.ok || !correct || !c.u.Adopt(&a.span) {
		c.res.Stats.RanAgain++
		return false, nil
	}
	c.res.Stats.RanInParallel++
	m.Profile = profile
	return true, c.settle(r, &a.out)
}

// retouchedBy returns TrieUpdate.Retouched of a completed run, and 0 for any other run.
func (c *chunk) retouchedBy(a *speculativeRun) int64 {
	if !a.ok {
		return 0
	}
	return c.u.Retouched(&a.span)
}

// correctProfile returns a copy of the gas profile p. The copy counts `more` additional touches
// of trie nodes as first touches, and as many fewer as repeated touches. A negative `more` moves
// touches in the other direction. correctProfile returns false if p has too few touches to move.
func (c *chunk) correctProfile(p []primitives.CostEntry, more int64) ([]primitives.CostEntry, bool) {
	price := c.cfg.Wasm.Ext[parameters.ExtTouchingTrieNode].Gas
	gas := primitives.Gas(max(more, -more)) * price // gas that the calls paid for these touches
	from, to := parameters.ExtReadCachedTrieNode, parameters.ExtTouchingTrieNode
	if more < 0 {
		from, to = to, from
	}
	i := slices.IndexFunc(p, func(e primitives.CostEntry) bool { return e.Cost == from.ProfileName() })
	if i < 0 || p[i].Gas < gas {
		return nil, false
	}
	out := slices.Clone(p)
	if out[i].Gas -= gas; out[i].Gas == 0 {
		out = slices.Delete(out, i, i+1)
	}
	return action.MergeProfiles(out, []primitives.CostEntry{{Category: p[i].Category, Cost: to.ProfileName(), Gas: gas}}), true
}
