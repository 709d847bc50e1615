package historyimport

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-chain/troupe/actors/system"
)

// job is a Job that calls a function with the number of the run.
type job struct {
	runs atomic.Int64
	f    func(ctx context.Context, n int64) time.Duration
}

func (j *job) Run(ctx context.Context) time.Duration { return j.f(ctx, j.runs.Add(1)) }

// guardian stops failed actors and reports why they failed.
type guardian chan any

func (g guardian) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	g <- reason
	sup.StopChildren(child)
}

func spawn(t *testing.T, j *job) (*actor.RootContext, *actor.PID, guardian) {
	t.Helper()
	sys, g := system.NewSystem(), make(guardian, 1)
	root := sys.Root.WithGuardian(g)
	pid := root.Spawn(system.Props(Name, system.NewMeter(), func() actor.Actor { return New(j) }))
	return root, pid, g
}

func within[T any](t *testing.T, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(time.Minute):
		t.Fatal("nothing came")
	}
	return v
}

// TestJobRunsUntilItIsDone: the job runs again after each pause, and not after a negative one.
func TestJobRunsUntilItIsDone(t *testing.T) {
	done := make(chan int64, 10)
	j := &job{f: func(_ context.Context, n int64) time.Duration {
		if n < 4 {
			return time.Millisecond
		}
		done <- n
		return -1
	}}
	root, pid, _ := spawn(t, j)
	if n := within(t, done); n != 4 {
		t.Errorf("done in run %d", n)
	}
	if err := root.StopFuture(pid).Wait(); err != nil || j.runs.Load() != 4 {
		t.Errorf("%d runs, %v", j.runs.Load(), err)
	}
}

// TestStopEndsTheJob: a stop cancels the running job and waits for its end. In a pause nothing runs any
// more.
func TestStopEndsTheJob(t *testing.T) {
	began, ended := make(chan bool, 1), new(atomic.Bool)
	j := &job{f: func(ctx context.Context, _ int64) time.Duration {
		began <- true
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond)
		ended.Store(true)
		return 0
	}}
	root, pid, _ := spawn(t, j)
	within(t, began)
	if err := root.StopFuture(pid).Wait(); err != nil || !ended.Load() || j.runs.Load() != 1 {
		t.Errorf("%d runs, ended %v, %v", j.runs.Load(), ended.Load(), err)
	}
	j = &job{f: func(context.Context, int64) time.Duration { began <- true; return time.Hour }}
	root, pid, _ = spawn(t, j)
	within(t, began)
	if err := root.StopFuture(pid).Wait(); err != nil || j.runs.Load() != 1 {
		t.Errorf("%d runs, %v", j.runs.Load(), err)
	}
}

// TestPanicOfTheJobFailsTheActor: supervision gets a panic of the job with its stack.
func TestPanicOfTheJobFailsTheActor(t *testing.T) {
	_, _, g := spawn(t, &job{f: func(context.Context, int64) time.Duration { panic("broken") }})
	c, is := within(t, g).(*system.Crash)
	if !is || len(c.Stack) == 0 {
		t.Fatalf("%+v", c)
	}
	if c.Reason != "broken" {
		t.Errorf("%v", c.Reason)
	}
}
