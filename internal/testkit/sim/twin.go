package sim

import (
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// twinWait is the number of heights for which the second node of Scenario.Twin signs nothing.
const twinWait = 8

// moveValidator moves the last validator to a second node, which begins with an empty disk and the
// same key. The first node stops for good, either before the second one starts, or at some time
// while the key waits there.
func (w *World) moveValidator() {
	first, next := w.nodes[w.s.Nodes-1], w.nodes[w.s.Nodes]
	start := begin + w.between(3*second, 10*second)
	left := 1 + w.rng.Uint64N(twinWait)
	if w.chance(400) {
		w.at(start-w.between(0, 2*second), func() { w.retire(first, next) })
	}
	w.at(start, func() {
		if err := next.start(); err != nil {
			w.check.fail("%s: the start failed: %v", next.name, err)
			return
		}
		w.retireAt(first, next, 0, primitives.Height(left))
	})
}

// retireAt retires first when at most left heights remain until next signs. from is the height of
// the head at which next begins to sign; 0: unknown.
func (w *World) retireAt(first, next *node, from, left primitives.Height) {
	from = max(from, next.waiting().From)
	head := primitives.Height(0)
	for _, n := range w.nodes {
		if n.core != nil {
			head = max(head, n.engine.Head().Height())
		}
	}
	switch {
	case first.retired:
	case from != 0 && head+left >= from:
		w.retire(first, next)
	default:
		w.after(20*ms, func() { w.retireAt(first, next, from, left) })
	}
}

// waiting returns how long the node's key waits. A node that is down has the zero value.
func (n *node) waiting() consensus.KeyWaiting {
	if n.core == nil {
		return consensus.KeyWaiting{}
	}
	return n.core.KeyWaiting()
}

// retire stops first for good. Messages to its account go to next from then on.
func (w *World) retire(first, next *node) {
	if first.core != nil {
		first.crash()
	}
	first.retired = true
	w.byName[first.account] = next
	w.say(first.name, "is retired; the wait of %s is %d", next.name, next.waiting().Left)
}
