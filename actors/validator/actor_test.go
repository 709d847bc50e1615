package validator

import (
	"testing"
	"time"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/messages"
)

type abandoned struct{ times *int }

func (x abandoned) Abandon() { *x.times++ }

// TestStoppedImportIsReleasedAfterItsJobs: if the core was stopped during an import, the import is
// released when the actor ends, after its jobs.
func TestStoppedImportIsReleasedAfterItsJobs(t *testing.T) {
	a := New(Options{Life: new(Life), Workers: 1})
	a.core, a.timer = new(consensus.Node), time.AfterFunc(time.Hour, func() {})
	core := a.core
	goOn := make(chan struct{})
	a.jobs = []consensus.Job{{ID: 1, Run: func() { <-goOn }}, {ID: 2,
		Run: func() { t.Error("a job that had not begun is run") }}}
	a.run()
	a.Handle(messages.ChainHalted{})
	if a.core != nil || len(a.jobs) > 0 || a.retired != importAbandoner(core) {
		t.Fatalf("at rest: %v %v", a.core, a.retired)
	}
	times := 0
	a.retired = abandoned{&times}
	go close(goOn)
	a.end()
	if times != 1 || a.running != 0 || a.retired != nil {
		t.Errorf("abandoned %d times, %d jobs run", times, a.running)
	}
}
