package system

import (
	"errors"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// TestSmallSystemsDoNotShareActors: two small systems do not share actors of the same name.
// Requests, failures, stops and later messages work as in a regular system.
func TestSmallSystemsDoNotShareActors(t *testing.T) {
	whole := NewSystem()
	systems := []*actor.ActorSystem{NewSmallSystem(), NewSmallSystem(), whole}
	var pids []*actor.PID
	var asks []func(double) (int, error)
	crashes := make(chan *Crash, 1)
	for _, sys := range systems {
		root := sys.Root.WithGuardian(&decide{func(sup actor.Supervisor, child *actor.PID, c *Crash) {
			crashes <- c
			sup.StopChildren(child)
		}})
		m := NewMeter()
		m.Listen(sys, func(string) string { return "doubler" })
		pid, err := root.SpawnNamed(Props("doubler", m, func() actor.Actor { return &doubler{} }), "the/same")
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
		ask := Ask[double, int](sys.Root, pid, time.Second)
		asks = append(asks, func(q double) (int, error) { return ask(t.Context(), q) })
	}
	if n := len(systems[0].ProcessRegistry.LocalPIDs.LocalPIDs); n != smallRegistryMaps ||
		len(whole.ProcessRegistry.LocalPIDs.LocalPIDs) <= n {
		t.Errorf("%d maps", n)
	}
	for i, sys := range systems {
		if got, err := asks[i](double(i + 100)); err != nil || got != 2*(i+100) {
			t.Errorf("system %d answers %d, %v", i, got, err)
		}
		if _, err := sys.Root.SpawnNamed(actor.PropsFromFunc(func(actor.Context) {}), "the/same"); !errors.Is(err,
			actor.ErrNameExists) {
			t.Errorf("system %d has two of one name: %v", i, err)
		}
		sys.Root.Send(pids[i], "it fails")
		if c := <-crashes; c.Kind != "doubler" || c.Reason != "it fails" {
			t.Errorf("system %d: %+v", i, c)
		}
		until(t, "it has ended", func() bool { _, there := sys.ProcessRegistry.GetLocal("the/same"); return !there })
		if _, err := asks[i](double(1)); !errors.Is(err, ErrUnhandled) {
			t.Errorf("system %d, request after its end: %v, want ErrUnhandled", i, err)
		}
		for k := i + 1; k < len(systems); k++ {
			if got, err := asks[k](double(7)); err != nil || got != 14 {
				t.Errorf("system %d, when that of %d has ended: %d, %v", k, i, got, err)
			}
		}
	}
}
