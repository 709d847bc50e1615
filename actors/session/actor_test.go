package session

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives/view"
)

// delayedWaiter is a waiter that answers after a while. alive counts its running instances.
type delayedWaiter struct {
	m     Request
	after time.Duration
	alive *atomic.Int64
	timer *time.Timer
}

type due struct{}

// slowWaiter is the ID of a waiter whose start keeps its session busy for a minute.
const slowWaiter messages.WaiterID = 777

func (l *delayedWaiter) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		l.alive.Add(1)
		root, self := c.ActorSystem().Root, c.Self()
		l.timer = time.AfterFunc(l.after, func() { root.Send(self, due{}) })
	case *actor.Stopping:
		l.alive.Add(-1)
		l.timer.Stop()
	case due:
		if l.m.Until == 1 {
			panic("a waiter that fails")
		}
		l.m.Reply(messages.Awaited{Level: 5})
		c.Stop(c.Self())
	}
}

// world starts the rpc actor with mailboxes that run in the test's synctest bubble. rpc sends it a
// message; alive counts waiters.
func world(t *testing.T) (rpc func(any), alive *atomic.Int64, seen *record) {
	t.Helper()
	seen = &record{}
	d, meter := system.NewDispatcher(), system.NewMeter()
	sys := system.NewSystem()
	alive = new(atomic.Int64)
	alone := stopAlone{}
	props := func(name string, f func() actor.Actor) *actor.Props {
		return system.Props(name, meter, f, actor.WithDispatcher(d), actor.WithSupervisor(alone))
	}
	pid := sys.Root.Spawn(props("rpc", func() actor.Actor {
		return NewSupervisor(Options{Owner: &owner{record: seen, session: func() *actor.Props {
			return props("session", func() actor.Actor {
				seen.add(func() { seen.made++ })
				return NewSession(SessionOptions{
					Waiter: func(r Request) *actor.Props {
						if r.Waiter.Waiter == slowWaiter {
							time.Sleep(time.Minute)
						}
						if r.Waiter.Waiter == 666 {
							panic("a session that fails")
						}
						return props("waiter", func() actor.Actor { return &delayedWaiter{m: r, after: 10 * time.Second, alive: alive} })
					},
				})
			})
		}}})
	}))
	t.Cleanup(func() {
		if err := sys.Root.StopFuture(pid).Wait(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute) // until the dispatcher's idle goroutines end
	})
	return func(m any) { sys.Root.Send(pid, m) }, alive, seen
}

// owner implements Owner.
type owner struct {
	*record
	session func() *actor.Props
}

func (o *owner) Session(messages.SessionID) *actor.Props { return o.session() }

func (o *owner) Started(id messages.SessionID, _ *actor.PID) {
	o.add(func() { o.started = append(o.started, id) })
}

func (o *owner) Failed(id messages.SessionID) { o.add(func() { o.failed = append(o.failed, id) }) }

// record is what the actors report.
type record struct {
	mu              sync.Mutex
	made            int // sessions
	started, failed []messages.SessionID
}

func (r *record) add(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// stopAlone is a supervisor strategy that stops the failed actor alone.
type stopAlone struct{}

func (stopAlone) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, _, _ any) {
	sup.StopChildren(child)
}

func wait(s messages.SessionID, w messages.WaiterID, until view.ExecutionLevel) Request {
	return NewRequest(messages.AwaitTransaction{Waiter: messages.Address{Session: s, Waiter: w}, Until: until},
		time.Now().Add(time.Minute), 0)
}

// answered returns the answer of a request; ok is false if there is none yet.
func answered(r Request) (a messages.Awaited, ok bool) {
	select {
	case a = <-r.Answer():
		return a, true
	default:
		return a, false
	}
}

func TestEveryWaitEndsWithAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send, alive, seen := world(t)
		requests := map[messages.WaiterID]Request{}
		await := func(s messages.SessionID, w messages.WaiterID, until view.ExecutionLevel) {
			requests[w] = wait(s, w, until)
			send(requests[w])
		}
		send(messages.OpenSession{Session: 1})
		send(messages.OpenSession{Session: 1}) // again
		send(messages.OpenSession{Session: 2})
		synctest.Wait()
		if seen.made != 0 {
			t.Errorf("%d sessions exist before the first request, want none", seen.made)
		}
		await(1, 10, 5) // gets an answer
		await(1, 11, 1) // its waiter fails
		await(1, 12, 5) // gets a ForgetTransaction
		await(2, 20, 5) // its session is closed
		await(3, 30, 5) // its session was never opened
		synctest.Wait()
		if n := alive.Load(); n != 4 {
			t.Errorf("%d waiters, want 4", n)
		}
		send(messages.ForgetTransaction{Waiter: messages.Address{Session: 1, Waiter: 12}})
		send(messages.ForgetTransaction{Waiter: messages.Address{Session: 1, Waiter: 99}})
		send(messages.CloseSession{Session: 2})
		synctest.Wait()
		if n := alive.Load(); n != 2 {
			t.Errorf("%d waiters after two clients gave up, want 2", n)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if n := alive.Load(); n != 0 {
			t.Errorf("%d waiters exist, want none", n)
		}
		if got, ok := answered(requests[10]); !ok || got.Err != nil || got.Level != 5 {
			t.Errorf("the answer of a good waiter: %+v", got)
		}
		if got, ok := answered(requests[11]); !ok || got.Err != ErrFailed {
			t.Errorf("the answer for one that fails: %+v, want %v", got, ErrFailed)
		}
		if got, ok := answered(requests[30]); !ok || got.Err != ErrNoSession {
			t.Errorf("the answer without a session: %+v, want %v", got, ErrNoSession)
		}
	})
}

// TestFailedSessionIsReplaced: when a session fails, its waits fail with it, which is reported. The
// next request starts a new session actor.
func TestFailedSessionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send, alive, seen := world(t)
		send(messages.OpenSession{Session: 1})
		send(messages.OpenSession{Session: 2})
		other := wait(2, 20, 5)
		send(other)
		send(wait(1, 10, 5))
		synctest.Wait()
		send(wait(1, 666, 5))
		synctest.Wait()
		if !slices.Equal(seen.failed, []messages.SessionID{1}) || alive.Load() != 1 {
			t.Fatalf("failed %v, %d waiters, want session 1, and the waiter of session 2 alone", seen.failed, alive.Load())
		}
		again := wait(1, 11, 5)
		send(again)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		for name, r := range map[string]Request{"the next wait of the session that failed": again,
			"another session's wait": other} {
			if got, ok := answered(r); !ok || got.Err != nil || got.Level != 5 {
				t.Errorf("%s: %+v, %v", name, got, ok)
			}
		}
		if seen.made != 3 || !slices.Equal(seen.started, []messages.SessionID{2, 1, 1}) {
			t.Errorf("%d sessions were made, want 3; started %v", seen.made, seen.started)
		}
		send(messages.CloseSession{Session: 1})
		synctest.Wait()
		if len(seen.failed) != 1 {
			t.Errorf("failed %v: a session that was closed has not", seen.failed)
		}
	})
}

// TestTimedOutRequestStartsNoSession: a request that times out, or whose caller gives up, before
// the session handles it starts no session and no waiter.
func TestTimedOutRequestStartsNoSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send, alive, seen := world(t)
		send(messages.OpenSession{Session: 1})
		late := NewRequest(messages.AwaitTransaction{Waiter: messages.Address{Session: 1, Waiter: 1}, Until: 5},
			time.Now(), 0)
		gone := wait(1, 2, 5)
		if !gone.GiveUp() || gone.GiveUp() {
			t.Error("a request on its way is given up once")
		}
		send(late)
		send(gone)
		synctest.Wait()
		if seen.made != 0 || alive.Load() != 0 {
			t.Errorf("%d sessions and %d waiters were made for abandoned requests", seen.made, alive.Load())
		}
		var e *view.LookupError
		if got, ok := answered(late); !ok || !errors.As(got.Err, &e) || e.Kind != view.ErrTimeout {
			t.Errorf("the one whose time is over: %+v, %v, want %v", got, ok, view.ErrTimeout)
		}
		if got, ok := answered(gone); ok {
			t.Errorf("the abandoned request got %+v", got)
		}

		busy := wait(1, slowWaiter, 5) // keeps its session busy for a minute
		behind := NewRequest(messages.AwaitTransaction{Waiter: messages.Address{Session: 1, Waiter: 3}, Until: 5},
			time.Now().Add(10*time.Second), 0)
		left, stays := wait(1, 4, 5), NewRequest(messages.AwaitTransaction{Waiter: messages.Address{Session: 1,
			Waiter: 5}, Until: 5}, time.Now().Add(time.Hour), 0)
		for _, r := range []Request{busy, behind, left, stays} {
			send(r)
		}
		time.Sleep(20 * time.Second)
		if !left.GiveUp() {
			t.Error("a request in a session's mailbox is on its way")
		}
		time.Sleep(45 * time.Second)
		synctest.Wait()
		if n := alive.Load(); n != 2 {
			t.Errorf("%d waiters, want those of the first and the last", n)
		}
		if busy.GiveUp() || stays.GiveUp() {
			t.Error("what has a waiter is not on its way")
		}
		if got, ok := answered(behind); !ok || !errors.As(got.Err, &e) || e.Kind != view.ErrTimeout {
			t.Errorf("the one whose time ended in the session's mailbox: %+v, %v", got, ok)
		}
		if got, ok := answered(left); ok {
			t.Errorf("the one that was given up there: %+v", got)
		}
	})
}
