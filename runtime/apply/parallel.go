package apply

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/state"
)

// Receipts mostly touch one account. So the next ones are run ahead of their turn, those of one receiver one after the
// other on a fork of the state, different receivers at the same time. In their turn they are adopted if nothing that they
// read has changed since; else they run again. Limits, the order of commits, recorded reads and everything that receipts
// send are accounted for in their turn only, so the result is that of the serial order.

const (
	defaultWindow = 1024 // receipts that are run ahead
	defaultLeast  = 32   // fewer are not worth it
	batch         = 16   // about how many receipts one call of Par gets
)

// windowSizes are how many receipts are run ahead, and from how many on. Tests choose them; results do not depend on them.
type windowSizes struct{ most, least int }

func (w windowSizes) orDefault() windowSizes {
	if w.most == 0 {
		return windowSizes{defaultWindow, defaultLeast}
	}
	return w
}

// ahead is a receipt that ran before its turn.
type ahead struct {
	job  *job
	span state.Span
	out  executed
	err  error
}

// job is the receipts of one receiver in a window, in their order.
type job struct {
	receipts []*primitives.Receipt
	fork     *state.TrieUpdate
	broken   bool // one of them ran again, so what the later ones read of it is void
}

// speculation holds what ran ahead.
type speculation struct {
	done map[*primitives.Receipt]*ahead
	jobs int32 // made in this chunk
}

// runAhead runs the first receipts of the list before their turn.
func (c *chunk) runAhead(list []*primitives.Receipt) {
	list = list[:min(c.window.most, len(list))]
	if c.in.Par == nil || len(list) < c.window.least || c.full() {
		return
	}
	byReceiver := make(map[primitives.AccountID]*job)
	var jobs []*job
	for _, r := range list {
		j := byReceiver[r.ReceiverID]
		if j == nil {
			j = new(job)
			byReceiver[r.ReceiverID] = j
			jobs = append(jobs, j)
		}
		if j.broken || !independent(r) {
			j.broken = true // its later receipts wait for their turn
			continue
		}
		j.receipts = append(j.receipts, r)
	}
	c.spec.done = make(map[*primitives.Receipt]*ahead, len(list))
	slots := make([]ahead, 0, len(list)) // never grows, so that pointers stay good
	ranges := make([][]ahead, len(jobs))
	for i, j := range jobs {
		j.broken = false
		from := len(slots)
		for _, r := range j.receipts {
			slots = append(slots, ahead{job: j})
			c.spec.done[r] = &slots[len(slots)-1]
		}
		ranges[i] = slots[from:len(slots):len(slots)]
		c.spec.jobs++
		j.fork = c.u.Fork(c.spec.jobs)
	}
	calls := bounds(jobs)
	c.in.Par(len(calls)-1, func(call int) {
		var w worker
		for i := calls[call]; i < calls[call+1]; i++ {
			for k, r := range jobs[i].receipts {
				a := &ranges[i][k]
				w.out = executed{}
				a.span = jobs[i].fork.Begin()
				a.err = w.run(&c.in.Block, c.in.Layout, jobs[i].fork, r)
				if a.err != nil {
					break // the rest is not run ahead either
				}
				a.span.End()
				a.out = w.out
			}
		}
	})
}

// bounds cuts jobs into calls of about batch receipts each; the same for any number of workers.
func bounds(jobs []*job) []int {
	cuts, n := []int{0}, 0
	for i, j := range jobs {
		if n += len(j.receipts); n >= batch || i == len(jobs)-1 {
			cuts, n = append(cuts, i+1), 0
		}
	}
	return cuts
}

// independent tells whether a receipt is worth running ahead: those that are known to touch what all share are not.
func independent(r *primitives.Receipt) bool {
	switch body := r.Body.(type) {
	case *primitives.GlobalContractDistribution:
		return false
	case *primitives.ActionReceipt:
		for _, a := range body.Actions {
			switch a.Tag() {
			case primitives.TagDeleteAccount, primitives.TagDeployGlobalContract:
				return false
			}
		}
	}
	return true
}

// adopt takes over a receipt that ran ahead; false if it has to run now.
func (c *chunk) adopt(r *primitives.Receipt) (bool, error) {
	a := c.spec.done[r]
	if a == nil {
		return false, nil
	}
	delete(c.spec.done, r)
	if a.job.broken {
		c.res.Stats.RanAgain++
		return false, nil
	}
	if a.err != nil || a.span.Unused() || !c.u.Adopt(&a.span) {
		a.job.broken = true
		c.res.Stats.RanAgain++
		return false, nil
	}
	c.res.Stats.RanInParallel++
	return true, c.settle(&a.out)
}
