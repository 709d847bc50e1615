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

// TestKeyWaitsAfterPause: a process that was stopped for long, or whose machine was suspended, does not
// sign when it goes on, because its key may have signed elsewhere meanwhile, and the pause does not mean
// that the chain stands still. The monotonic clock of a suspended machine stands still. After a short
// pause, a key that has signed signs.
func TestKeyWaitsAfterPause(t *testing.T) {
	for _, x := range []struct {
		name      string
		fresh     bool // the key waits before the pause
		suspended bool
		short     bool // the pause is shorter than the rule's
	}{
		{name: "stopped"}, {name: "stopped, waits", fresh: true}, {name: "suspended", suspended: true},
		{name: "suspended, waits", suspended: true, fresh: true},
		{name: "suspended for a shorter time", suspended: true, short: true},
	} {
		t.Run(x.name, func(t *testing.T) {
			w := newFaultlessWorld(t, 3, func(s *Scenario) { s.Load = 0 })
			paused := w.nodes[3]
			paused.renew(t)
			if !x.fresh {
				w.reach(t, 4+3*twinWait)
			}
			if (paused.waiting().Key != "") != x.fresh {
				t.Fatalf("before the pause: wait %+v", paused.waiting())
			}
			core, began := paused.core, w.now
			paused.core = nil
			w.pass(t, 20*second)
			grown := w.nodes[0].engine.Head().Height()
			for _, n := range w.nodes[:3] { // three nodes that do not run save time
				n.stop()
			}
			rest := 590 * second
			if x.short {
				rest = 400 * second
			}
			w.after(rest, func() {})
			w.pass(t, rest)
			if x.suspended {
				paused.lag = w.now - began
			}
			paused.core = core
			paused.step(paused.life, consensus.Tick{})
			if x.short {
				if paused.waiting().Key != "" {
					t.Errorf("waits: %+v", paused.waiting())
				}
				return
			}
			if at := paused.engine.Head().Height(); at+twinWait > grown || paused.waiting().Key == "" {
				t.Errorf("after the pause: head %d of %d, wait %+v", at, grown, paused.waiting())
			}
			if w.pass(t, 580*second); paused.waiting().Key == "" {
				t.Error("the pause counts as a standstill")
			}
			for _, n := range w.nodes[:3] {
				if err := n.start(); err != nil {
					t.Fatal(err)
				}
			}
			w.pass(t, 4*second)
			if paused.waiting().Key == "" {
				t.Errorf("signs at head %d of %d", paused.engine.Head().Height(), grown)
			}
			w.reach(t, grown+3*twinWait)
			if paused.waiting().Key != "" {
				t.Errorf("still waits: %+v", paused.waiting())
			}
		})
	}
}
