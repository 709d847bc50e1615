package sim

import (
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// twinWait is the number of heights for which the second node of Scenario.Twin signs nothing.
const twinWait = 8

// move is the move of a validator to another node. The first node signs for no height above the end
// of the wait there, as an operator must ensure (package consensus, KeyWait).
type move struct {
	first, next *node
	start       uint64 // time at which next starts, in ns since 1970; 0: next has not started
	// end is the end of the wait of next: twinWait heights above the lowest block that was made after
	// start. 0: no such block was imported by any node.
	end primitives.Height
}

// moveValidator moves the last validator to a second node, which begins with an empty disk and the
// same key. The first node stops for good, either before the second one starts, or at some time
// while the key waits there.
func (w *World) moveValidator() {
	v := &w.move
	v.first, v.next = w.nodes[w.s.Nodes-1], w.nodes[w.s.Nodes]
	start := begin + w.between(3*second, 10*second)
	left := 1 + w.rng.Uint64N(twinWait)
	if w.chance(400) {
		w.at(start-w.between(0, 2*second), w.retire)
	}
	w.at(start, func() {
		v.start = uint64(w.now)
		if err := v.next.start(); err != nil {
			w.check.fail("%s: the start failed: %v", v.next.name, err)
			return
		}
		w.retireAt(primitives.Height(left))
	})
}

// retireAt retires the first node when at most left heights remain until the wait ends.
func (w *World) retireAt(left primitives.Height) {
	head := primitives.Height(0)
	for _, n := range w.nodes {
		if n.core != nil {
			head = max(head, n.engine.Head().Height())
		}
	}
	switch end := w.move.end; {
	case w.move.first.retired:
	case end != 0 && head+left >= end:
		w.retire()
	default:
		w.after(20*ms, func() { w.retireAt(left) })
	}
}

// note updates the end of the wait after a node has imported a block.
func (v *move) note(h *primitives.BlockHeader) {
	if v.start != 0 && h.Timestamp >= v.start && (v.end == 0 || h.Height+twinWait < v.end) {
		v.end = h.Height + twinWait
	}
}

// tooLate returns whether a message of the first node is about a height above the end of the wait.
// The chain skips heights, so this can happen although some heights remained a moment before.
func (v *move) tooLate(from *node, m consensus.Message) bool {
	if from != v.first || v.end == 0 {
		return false
	}
	height := primitives.Height(0)
	switch m := m.(type) {
	case *primitives.Block:
		height = m.Header.Height
	case *primitives.OptimisticBlock:
		height = m.Height
	case *primitives.PartialChunk:
		height = m.Header.HeightCreated
	case *primitives.ChunkEndorsement:
		height = m.Metadata.HeightCreated
	case *primitives.Approval:
		height = m.Target
	}
	return height > v.end
}

// waiting returns how long the node's key waits. A node that is down has the zero value.
func (n *node) waiting() consensus.KeyWaiting {
	if n.core == nil {
		return consensus.KeyWaiting{}
	}
	return n.core.KeyWaiting()
}

// retire stops the first node for good. Messages to its account go to the next node from then on.
func (w *World) retire() {
	first, next := w.move.first, w.move.next
	if first.retired {
		return
	}
	if first.core != nil {
		first.crash()
	}
	first.retired = true
	w.byName[first.account] = next
	w.say(first.name, "is retired; the wait of %s is %d and ends at %d", next.name, next.waiting().Left, w.move.end)
}
