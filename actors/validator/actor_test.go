package validator

import (
	"slices"
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

// TestOptimisticJobDelaysNoOtherJob: an optimistic job takes only a worker that is idle, and while
// it runs, other jobs begin as if it did not. The actor waits for it when it ends.
func TestOptimisticJobDelaysNoOtherJob(t *testing.T) {
	a := New(Options{Life: new(Life), Workers: 2})
	begun, goOn := make(chan uint64, 8), make(chan struct{})
	job := func(id uint64, optimistic bool) consensus.Job {
		return consensus.Job{ID: id, Optimistic: optimistic, Run: func() { begun <- id; <-goOn }}
	}
	next := func(want int) (list []uint64) {
		for len(list) < want {
			list = append(list, <-begun)
		}
		for {
			select {
			case id := <-begun:
				list = append(list, id)
			case <-time.After(50 * time.Millisecond): // absence cannot be waited for
				slices.Sort(list)
				return list
			}
		}
	}
	a.jobs, a.spare = []consensus.Job{job(1, false)}, []consensus.Job{job(11, true), job(12, true)}
	if a.run(); !slices.Equal(next(2), []uint64{1, 11}) || a.running != 1 || a.runningSpare != 1 {
		t.Errorf("%d jobs and %d optimistic ones run", a.running, a.runningSpare)
	}
	a.jobs = []consensus.Job{job(2, false), job(3, false)}
	if a.run(); !slices.Equal(next(1), []uint64{2}) || len(a.jobs) != 1 || len(a.spare) != 1 {
		t.Errorf("%d jobs and %d optimistic ones wait", len(a.jobs), len(a.spare))
	}
	a.jobs, a.spare = nil, nil
	close(goOn)
	if a.end(); a.running != 0 || a.runningSpare != 0 || len(a.ended) != 0 {
		t.Errorf("%d jobs and %d optimistic ones run after the end", a.running, a.runningSpare)
	}
}
