package sim

import (
	"testing"

	"github.com/troupe-chain/troupe/consensus"
)

// pass runs the world for d ns of virtual time.
func (w *World) pass(t *testing.T, d int64) {
	t.Helper()
	for end := w.now + d; len(w.agenda) > 0 && w.agenda[0].at <= end; {
		if w.check.violation != nil {
			t.Fatal(w.check.violation)
		}
		w.next()
	}
}

// renew restarts a node without its record of signatures, and with a wait for its key.
func (n *node) renew(t *testing.T) {
	t.Helper()
	n.stop()
	n.signed, n.wait = nil, twinWait
	if err := n.start(); err != nil {
		t.Fatal(err)
	}
}

// TestChainOfWaitingKeysBegins: a chain whose validators all wait makes no block for ten minutes, and
// then begins. The keys do not wait again after a restart.
func TestChainOfWaitingKeysBegins(t *testing.T) {
	w := newFaultlessWorld(t, 0, func(s *Scenario) { s.Load = 0 })
	for _, n := range w.nodes {
		n.renew(t)
	}
	w.pass(t, 590*second)
	for _, n := range w.nodes {
		if at := n.engine.Head().Height(); at != 0 || n.waiting().Key == "" {
			t.Fatalf("%s has head %d, wait %+v", n.name, at, n.waiting())
		}
	}
	w.reach(t, 5)
	for _, n := range w.nodes {
		n.stop()
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
		if n.waiting() != (consensus.KeyWaiting{}) {
			t.Errorf("%s waits again: %+v", n.name, n.waiting())
		}
	}
	w.reach(t, 10)
}

// TestKeyOfCutOffNodeWaitsAgain: to a node without connections, the chain seems to stand still, and its
// key begins to sign. When the node gets blocks that were made meanwhile, the key waits again.
func TestKeyOfCutOffNodeWaitsAgain(t *testing.T) {
	w := newFaultlessWorld(t, 3, func(s *Scenario) { s.Load = 0 })
	alone := w.nodes[3]
	alone.renew(t)
	cut := true
	w.net.drop = func(from, to *node, _ consensus.Message) bool { return cut && (from == alone || to == alone) }
	w.pass(t, 20*second)
	grown := w.nodes[0].engine.Head().Height()
	for _, n := range w.nodes[:3] { // three nodes that do not run save time
		n.stop()
	}
	w.pass(t, 590*second)
	if at := alone.engine.Head().Height(); at+4 > grown || alone.waiting().Key != "" {
		t.Fatalf("head %d of %d, wait %+v", at, grown, alone.waiting())
	}
	cut = false
	for _, n := range w.nodes[:3] {
		if err := n.start(); err != nil {
			t.Fatal(err)
		}
	}
	w.pass(t, 4*second)
	if at := alone.engine.Head().Height(); at < grown || alone.waiting().Key == "" {
		t.Errorf("head %d of %d, wait %+v", at, grown, alone.waiting())
	}
	w.reach(t, grown+3*twinWait)
	if alone.waiting().Key != "" {
		t.Errorf("still waits: %+v", alone.waiting())
	}
}

// TestKeyWaitsAfterPause: a process that was paused for long does not sign when it goes on, because its
// key may have signed elsewhere meanwhile, and the pause does not mean that the chain stands still.
func TestKeyWaitsAfterPause(t *testing.T) {
	for _, fresh := range []bool{false, true} { // whether the key waits before the pause
		w := newFaultlessWorld(t, 3, func(s *Scenario) { s.Load = 0 })
		paused := w.nodes[3]
		paused.renew(t)
		if !fresh {
			w.reach(t, 4+3*twinWait)
		}
		if (paused.waiting().Key != "") != fresh {
			t.Fatalf("before the pause: wait %+v", paused.waiting())
		}
		core := paused.core
		paused.core = nil
		w.pass(t, 20*second)
		grown := w.nodes[0].engine.Head().Height()
		for _, n := range w.nodes[:3] { // three nodes that do not run save time
			n.stop()
		}
		w.after(590*second, func() {})
		w.pass(t, 590*second)
		paused.core = core
		paused.step(paused.life, consensus.Tick{})
		if at := paused.engine.Head().Height(); at+twinWait > grown || paused.waiting().Key == "" {
			t.Errorf("waited before: %v; after the pause: head %d of %d, wait %+v", fresh, at, grown, paused.waiting())
		}
		for _, n := range w.nodes[:3] {
			if err := n.start(); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(t, 4*second)
		if at := paused.engine.Head().Height(); at < grown || paused.waiting().Key == "" {
			t.Errorf("waited before: %v; head %d of %d, wait %+v", fresh, at, grown, paused.waiting())
		}
		w.reach(t, grown+3*twinWait)
		if paused.waiting().Key != "" {
			t.Errorf("waited before: %v; still waits: %+v", fresh, paused.waiting())
		}
	}
}
