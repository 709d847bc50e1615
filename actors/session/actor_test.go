package session

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/link"
	"github.com/troupe-chain/troupe/messages"
)

// lazy is a waiter that answers after a time, and counts how many of it there are.
type lazy struct {
	m     messages.AwaitTransaction
	after time.Duration
	alive *atomic.Int64
	timer *time.Timer
}

type due struct{}

func (l *lazy) Receive(c actor.Context) {
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

// world is a system whose mailboxes run in the test's bubble.
func world(t *testing.T) (rpc func(any), alive *atomic.Int64) {
	t.Helper()
	d, meter := link.NewDispatcher(), link.NewMeter()
	sys := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	alive = new(atomic.Int64)
	alone := &link.StopAlone{}
	props := func(name string, f func() actor.Actor) *actor.Props {
		return link.Props(name, meter, f, actor.WithDispatcher(d), actor.WithSupervisor(alone))
	}
	pid := sys.Root.Spawn(props("rpc", func() actor.Actor {
		return NewRPC(func() *actor.Props {
			return props("session", func() actor.Actor {
				return NewSession(func(m messages.AwaitTransaction) *actor.Props {
					return props("waiter", func() actor.Actor { return &lazy{m: m, after: 10 * time.Second, alive: alive} })
				})
			})
		})
	}))
	t.Cleanup(func() {
		if err := sys.Root.StopFuture(pid).Wait(); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Minute) // idle goroutines of the dispatcher end
	})
	return func(m any) { sys.Root.Send(pid, m) }, alive
}

func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		send, alive := world(t)
		var mu sync.Mutex
		answers := map[messages.WaiterID][]messages.Awaited{}
		await := func(s messages.SessionID, w messages.WaiterID, until int) {
			m := messages.AwaitTransaction{Session: s, Waiter: w, Reply: func(a messages.Awaited) {
				mu.Lock()
				defer mu.Unlock()
				answers[w] = append(answers[w], a)
			}}
			if until == 1 {
				m.Until = 1
			}
			send(m)
		}
		send(messages.OpenSession{Session: 1})
		send(messages.OpenSession{Session: 1}) // again
		send(messages.OpenSession{Session: 2})
		await(1, 10, 5) // is answered
		await(1, 11, 1) // fails
		await(1, 12, 5) // is forgotten
		await(2, 20, 5) // its client goes away
		await(3, 30, 5) // no such session
		synctest.Wait()
		if n := alive.Load(); n != 4 {
			t.Errorf("%d waiters, want 4", n)
		}
		send(messages.ForgetTransaction{Session: 1, Waiter: 12})
		send(messages.ForgetTransaction{Session: 1, Waiter: 99})
		send(messages.CloseSession{Session: 2})
		synctest.Wait()
		if n := alive.Load(); n != 2 {
			t.Errorf("%d waiters after two clients gave up, want 2", n)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if n := alive.Load(); n != 0 {
			t.Errorf("%d waiters are left", n)
		}
		mu.Lock()
		defer mu.Unlock()
		if got := answers[10]; len(got) == 0 || got[0].Err != nil || got[0].Level != 5 {
			t.Errorf("answers of a good waiter: %+v", got)
		}
		if got := answers[11]; len(got) != 1 || got[0].Err != ErrFailed {
			t.Errorf("answers for one that fails: %+v, want %v", got, ErrFailed)
		}
		if got := answers[30]; len(got) != 1 || got[0].Err != ErrNoSession {
			t.Errorf("answers without a session: %+v, want %v", got, ErrNoSession)
		}
	})
}
