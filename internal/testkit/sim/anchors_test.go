package sim

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/runtime/parameters"
)

// TestFalseChunkMessagesCostNoChunk: no message about a chunk in the form of another protocol
// version, with a wrong anchor, early for ever, or of a chunk producer that is skipped, costs an
// honest producer a chunk: before version 87, after it, over the upgrade, and while validators
// catch up shards.
func TestFalseChunkMessagesCostNoChunk(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Scenario)
	}{
		{"86", func(s *Scenario) { s.Version = 86 }},
		{"88", func(*Scenario) {}},
		{"upgrade", func(s *Scenario) { s.Version, s.Blocks, s.Epoch = 86, 120, 20 }},
		{"skipped", func(s *Scenario) { s.Dead, s.Epoch = 1, 60 }},
		{"moves", func(s *Scenario) { s.Own, s.Shuffle, s.Fold = true, true, 4 }},
		{"calls", func(s *Scenario) { s.Blind, s.Idle, s.Calls, s.Each = 2, true, true, 2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "86" { // else it is voted up
				parameters.SupportForTest(t, 86)
			}
			for seed := range seeds(2) {
				s := scenario("anchors", "", func(s *Scenario) {
					s.Nodes, s.Shards, s.Each, s.Blocks, s.Byzantine, s.Anchors, s.Faults = 6, 2, 3, 90, true, true, 40*second
				})
				c.change(&s)
				r, err := Run(Options{Seed: seed, Scenario: s})
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("seed %d: height %d, %d epochs, %d false messages, %d heights missed, %d chunks missed, %d lists, %+v",
					seed, r.Height, r.Epochs, r.FalseMessages, r.Missed, r.Gaps, r.Lists, r.Anchored)
				if r.Violation != nil {
					t.Fatalf("seed %d: %v\n%s", seed, r.Violation, strings.Join(r.Tail, "\n"))
				}
				early := r.Anchored.Queued > 0 && r.Anchored.WrongPlace > 0
				if r.Anchored.WrongForm == 0 || early == (c.name == "86") || c.name == "skipped" && r.Lists == 0 {
					t.Errorf("seed %d: %d lists, %+v", seed, r.Lists, r.Anchored)
				}
			}
		})
	}
}

// TestUnsignedEarlyMessagesNeedReason: a node may drop an early message as unsigned only if the
// chunk's producer is not the canonical one, as after an early kickout. Other nodes' messages of that
// kind do not count.
func TestUnsignedEarlyMessagesNeedReason(t *testing.T) {
	w := newFaultlessWorld(t, 20, func(s *Scenario) { s.Dead, s.Nodes, s.Each, s.Shards, s.Epoch = 1, 6, 3, 2, 60 })
	reasons := 0
	for _, n := range w.nodes {
		reasons += n.displaced
	}
	if reasons == 0 || len(w.net.anchors.displaced) == 0 {
		t.Fatalf("%d messages about %d chunks of other producers", reasons, len(w.net.anchors.displaced))
	}
	n := w.nodes[1]
	dropped := &n.counters[0].Witnesses.Unsigned
	before := int(dropped.Load())
	w.nodes[2].displaced = 1000
	for _, c := range []struct{ reasons, dropped int }{{3, 3}, {0, 0}, {2, 3}} {
		dropped.Store(uint64(c.dropped))
		n.displaced, w.check.violation = c.reasons, nil
		if out := w.check.countAnchored(); (w.check.violation != nil) != (c.dropped > c.reasons) || out.Unsigned < c.dropped {
			t.Errorf("%d dropped with %d reasons: %v, %+v", c.dropped, c.reasons, w.check.violation, out)
		}
	}
	dropped.Store(uint64(before))
}
