package system

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// TestListReturnsEachLiveActorOnce: List returns each live actor once, with its waiting and handled
// messages. If it may not return all, it prefers busy actors. Ended actors are not listed.
func TestListReturnsEachLiveActorOnce(t *testing.T) {
	sys, meter := NewSystem(), NewMeter()
	var pids []*actor.PID
	for i := range 20 {
		pid, err := sys.Root.SpawnNamed(Props("recorder", meter, func() actor.Actor { return new(recorder) }),
			fmt.Sprintf("shards/%d", i))
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	until(t, "all live", func() bool { _, all := meter.List(0); return all == 20 })
	m := stall{make(chan struct{}), make(chan struct{})}
	sys.Root.Send(pids[7], m)
	<-m.begun
	sys.Root.Send(pids[7], note(1))
	for range 3 {
		sys.Root.Send(pids[3], note(1))
	}
	find := func(list []Instance, id string) (out Instance) {
		for _, x := range list {
			if x.ID == id {
				out = x
			}
		}
		return out
	}
	until(t, "the notes", func() bool { list, _ := meter.List(100); return find(list, "shards/3").Messages == 3 })
	list, all := meter.List(100)
	if len(list) != 20 || all != 20 {
		t.Fatalf("%d of %d", len(list), all)
	}
	for i := 1; i < len(list); i++ {
		if list[i-1].ID >= list[i].ID {
			t.Errorf("%s before %s", list[i-1].ID, list[i].ID)
		}
	}
	if x := find(list, "shards/7"); x.Shard != "7" || x.Name != "recorder" || x.Mailbox != 1 || x.Since <= 0 ||
		x.Oldest <= 0 || x.Messages != 0 {
		t.Errorf("at work: %+v", x)
	}
	if x := find(list, "shards/3"); x.Mailbox != 0 || x.Since != 0 || x.Oldest != 0 {
		t.Errorf("at rest: %+v", x)
	}
	for range 20 {
		if few, all := meter.List(4); len(few) != 4 || all != 20 || find(few, "shards/7").ID == "" {
			t.Fatalf("four of them: %+v", few)
		}
	}
	close(m.end)
	if err := sys.Root.StopFuture(pids[7]).Wait(); err != nil {
		t.Fatal(err)
	}
	until(t, "one has ended", func() bool {
		list, all := meter.List(100)
		return all == 19 &&
			find(list, "shards/7").ID == ""
	})
}
