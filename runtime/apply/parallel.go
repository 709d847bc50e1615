package apply

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// Receipts mostly touch one account. So the next ones are run ahead of their turn on forks of the
// state, those of one receiver one after the other on the same fork, others at the same time. In
// their turn they are adopted if nothing that they read has changed since; else they run again.
// Limits, the order of commits, recorded reads and everything that receipts send are accounted for
// in their turn only, so the result is that of the serial order.

const (
	defaultWindow = 1024 // receipts that are run ahead
	defaultLeast  = 32   // fewer are not worth it
	batch         = 16   // about how many receipts one call of Par gets
)

// windowSizes are how many receipts are run ahead, and from how many on. Tests choose them; results
// do not depend on them.
type windowSizes struct{ most, least int }

func (w windowSizes) orDefault() windowSizes {
	if w.most == 0 {
		return windowSizes{defaultWindow, defaultLeast}
	}
	return w
}

// ahead is a receipt that ran before its turn.
type ahead struct {
	span state.Span
	out  executed
	ok   bool
}

// speculation holds what ran ahead.
type speculation struct {
	done  map[*primitives.Receipt]*ahead
	forks int32 // made in this chunk
}

// runAhead runs the first receipts of the list before their turn.
func (c *chunk) runAhead(list []*primitives.Receipt) {
	list = list[:min(c.window.most, len(list))]
	if c.in.Par == nil || len(list) < c.window.least || c.full() {
		return
	}
	if !boundedApart(c.cfg) {
		return
	}
	calls := c.share(list)
	slots := make([]ahead, len(list))
	c.spec.done = make(map[*primitives.Receipt]*ahead, len(list))
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
			if w.run(&c.in.Block, c.in.Layout, fork, r) != nil {
				return // the rest is not run ahead either
			}
			a.span.End()
			a.out, a.ok = w.out, true
		}
	})
}

// boundedApart tells whether a config lets work run apart: whether a node of the trie was seen
// before shows in profiles only, as both prices are the same (see adopt), and work that met the
// limit of a receipt's recorded state also passed the chunk's soft limit, at which Span.End tells
// that it cannot be adopted.
func boundedApart(c *parameters.RuntimeConfig) bool {
	e := &c.Wasm.Ext
	return e[parameters.ExtTouchingTrieNode] == e[parameters.ExtReadCachedTrieNode] &&
		c.Witness.MainStorageProofSizeSoftLimit <= c.Wasm.Limits.PerReceiptStorageProofSizeLimit
}

// share deals receipts out to calls of about batch receipts each, those of one receiver to the same
// call and in their order; the same for any number of workers. A receiver of more than half of the
// work is left out: while its receipts run one after the other the others would wait for them.
func (c *chunk) share(list []*primitives.Receipt) (calls [][]*primitives.Receipt) {
	callOf := make(map[primitives.AccountID]int, len(list))
	popular := majority(list)
	open := -1 // the call that is being filled
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

// majority is the receiver of more than half of the work; empty: there is none. What is more than
// half is what is left when each takes away as much as it is of the others (Boyer and Moore), if it
// is that much, too.
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

// weight is about how much work a receipt is: a call of a contract is worth ten transfers.
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

// independent tells whether a receipt is worth running ahead: those that are known to touch what
// all share are not.
func independent(r *primitives.Receipt) bool {
	switch body := r.Body.(type) {
	case *primitives.DataReceipt:
		return true
	case *primitives.ActionReceipt:
		return !slices.ContainsFunc(body.Actions, func(a primitives.Action) bool {
			return a.Tag() == primitives.TagDeleteAccount || a.Tag() == primitives.TagDeployGlobalContract
		})
	default: // a distribution
		return false
	}
}

// adopt takes over a receipt that ran ahead; false if it has to run now.
func (c *chunk) adopt(r *primitives.Receipt) (bool, error) {
	a := c.spec.done[r]
	if a == nil {
		return false, nil
	}
	delete(c.spec.done, r)
	m := &a.out.outcome.Metadata
	profile, correct := m.Profile, true
	if more := c.moved(a); more != 0 {
		// A call that ran out of gas need not have paid for all that it touched, so its profile
		// cannot be corrected.
		correct = false
		if a.out.outcome.Status.Kind != primitives.StatusFailure {
			profile, correct = c.retouched(m.Profile, more)
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

// moved is Retouched of work that came to its end.
func (c *chunk) moved(a *ahead) int64 {
	if !a.ok {
		return 0
	}
	return c.u.Retouched(&a.span)
}

// retouched is a gas profile in which some looks at the trie are for the first time in the chunk
// that were not before, or, with a negative number, the reverse; false if it does not have that
// many.
func (c *chunk) retouched(p []primitives.CostEntry, more int64) ([]primitives.CostEntry, bool) {
	price := c.cfg.Wasm.Ext[parameters.ExtTouchingTrieNode].Gas
	gas := primitives.Gas(max(more, -more)) * price // as many as calls paid for
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
