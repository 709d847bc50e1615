package bandwidth

import (
	"cmp"
	"slices"
)

// endpoint is a sending or receiving shard. left is the rest of the shard's budget in bytes. links
// is the number of the shard's open links that have not got a part of the rest yet.
type endpoint struct {
	left, links uint64
}

// share returns an equal part of left for each of the links.
func (e *endpoint) share() uint64 {
	if e.links == 0 {
		return 0
	}
	return e.left / e.links
}

// distributeRemaining grants the rest of the budgets to the open links.
func (s *scheduler) distributeRemaining() {
	for link, more := range distributeRemaining(s.sendBudget, s.receiveBudget, s.open) {
		s.granted[link] += more // at most MaxShard, the initial budget
	}
}

// distributeRemaining divides budgets among open links (nearcore distribute_remaining.rs). Senders
// and receivers with the least budget per link go first. The order is computed once, at the start;
// of endpoints with equal shares the lower index goes first. Each link gets the smaller of the
// shares of its two endpoints. Each endpoint then divides the rest of its budget among its
// remaining links.
func distributeRemaining(sendBudget, receiveBudget []uint64, open []bool) []uint64 {
	n := len(sendBudget)
	senders, receivers := make([]endpoint, n), make([]endpoint, n)
	for i := range n {
		senders[i].left, receivers[i].left = sendBudget[i], receiveBudget[i]
	}
	for link, ok := range open {
		if ok {
			senders[link/n].links++
			receivers[link%n].links++
		}
	}
	grants := make([]uint64, n*n)
	receiverOrder := byShare(receivers)
	for _, from := range byShare(senders) {
		for _, to := range receiverOrder {
			if link := from*n + to; open[link] {
				a, b := &senders[from], &receivers[to]
				grant := min(a.share(), b.share())
				grants[link] = grant
				a.left, b.left = a.left-grant, b.left-grant
				a.links, b.links = a.links-1, b.links-1
			}
		}
	}
	return grants
}

// byShare returns the indices of ends by rising share. Endpoints with equal shares keep their
// order.
func byShare(ends []endpoint) []int {
	order := make([]int, len(ends))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ends[a].share(), ends[b].share()) })
	return order
}
