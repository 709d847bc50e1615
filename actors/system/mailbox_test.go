package system

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// recorder is an actor that records int messages and obeys other ones, for example by panicking.
type recorder struct {
	mu     sync.Mutex
	seen   []int
	starts int
}

type (
	note  int
	stall struct{ begun, end chan struct{} }
	fail  struct{ answered chan error }
)

func (f fail) Failed(err error) { f.answered <- err }

func (r *recorder) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		r.mu.Lock()
		r.starts++
		r.mu.Unlock()
	case note:
		r.mu.Lock()
		r.seen = append(r.seen, int(m))
		r.mu.Unlock()
	case stall:
		close(m.begun)
		<-m.end
	case fail:
		panic("broken")
	}
}

func (r *recorder) count() (seen, starts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen), r.starts
}

// decide is a supervisor strategy that calls do.
type decide struct {
	do func(sup actor.Supervisor, child *actor.PID, c *Crash)
}

func (d *decide) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, _ any) {
	d.do(sup, child, reason.(*Crash))
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("it does not happen: %s", what)
		}
	}
}

// onlySample returns the meter's only sample.
func onlySample(t *testing.T, m *Meter) Sample {
	t.Helper()
	all := m.Samples()
	if len(all) != 1 {
		t.Fatalf("samples %+v", all)
	}
	return all[0]
}

// TestMessagesOfSenderKeepOrder: messages of each sender are handled in order, none is lost, and
// the counters are exact.
func TestMessagesOfSenderKeepOrder(t *testing.T) {
	const senders, each = 8, 20_000
	sys, meter, r := NewSystem(), NewMeter(), new(recorder)
	pid := sys.Root.Spawn(Props("recorder", meter, func() actor.Actor { return r }))
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for i := range each {
				sys.Root.Send(pid, note(s*each+i))
			}
		})
	}
	all.Wait()
	// The test waits as long as there is progress, because the machine may be busy.
	for n, last := 0, time.Now(); n < senders*each; time.Sleep(time.Millisecond) {
		if now, _ := r.count(); now > n {
			n, last = now, time.Now()
		} else if time.Since(last) > time.Minute {
			t.Fatalf("it stands still at %d of %d messages", n, senders*each)
		}
	}
	next := make([]int, senders)
	for _, m := range r.seen {
		if s := m / each; m%each != next[s] {
			t.Fatalf("sender %d: message %d, want %d", s, m%each, next[s])
		}
		next[m/each]++
	}
	until(t, "the account of the last", func() bool { return onlySample(t, meter).Since == 0 })
	s := onlySample(t, meter)
	if s.Messages != senders*each || s.Waited.Count() != senders*each || s.Mailbox != 0 || s.Oldest != 0 ||
		s.Alive != 1 || s.Dead != 0 {
		t.Errorf("%+v", s)
	}
}

// TestStalledMessageIsReported: while a message is being handled, the samples show for how long,
// and the age of the next message. Stalls returns the actor once. Afterwards only the histograms
// show the stall.
func TestStalledMessageIsReported(t *testing.T) {
	sys, meter, r := NewSystem(), NewMeter(), new(recorder)
	pid, err := sys.Root.SpawnNamed(Props("recorder", meter, func() actor.Actor { return r }), "shards/7")
	if err != nil {
		t.Fatal(err)
	}
	m := stall{make(chan struct{}), make(chan struct{})}
	sys.Root.Send(pid, m)
	<-m.begun
	sys.Root.Send(pid, note(1))
	const long = 30 * time.Millisecond
	time.Sleep(long)
	s := onlySample(t, meter)
	if s.Shard != "7" || s.Since < long || s.Busy < long || s.Oldest < long || s.Mailbox != 1 || s.Messages != 0 {
		t.Errorf("while it stands still: %+v", s)
	}
	if got := meter.Stalls(time.Hour); len(got) != 0 {
		t.Errorf("an hour has not passed: %+v", got)
	}
	got := meter.Stalls(long)
	if len(got) != 1 || got[0].Kind != "recorder" || got[0].Shard != "7" || got[0].Busy < long ||
		got[0].Oldest < long || got[0].Mailbox != 1 {
		t.Errorf("stalls: %+v", got)
	}
	if got := meter.Stalls(long); len(got) != 0 {
		t.Errorf("the stall is reported twice: %+v", got)
	}
	close(m.end)
	until(t, "the next message", func() bool { n, _ := r.count(); return n == 1 && onlySample(t, meter).Messages == 2 })
	s = onlySample(t, meter)
	if s.Since != 0 || s.Oldest != 0 || s.Mailbox != 0 || s.Stalls != 1 || s.Waited.Sum < long || s.Handled.Sum < long {
		t.Errorf("afterwards: %+v", s)
	}
}

// TestPanicReachesSenderAndSupervisor: if an actor panics, the sender of the message gets Failed,
// the supervisor gets the stack, and the counters are complete.
func TestPanicReachesSenderAndSupervisor(t *testing.T) {
	for _, restart := range []bool{true, false} {
		sys, meter, r := NewSystem(), NewMeter(), new(recorder)
		meter.Listen(sys, func(id string) string { return "recorder" })
		crashes := make(chan *Crash, 1)
		root := sys.Root.WithGuardian(&decide{func(sup actor.Supervisor, child *actor.PID, c *Crash) {
			if crashes <- c; restart {
				sup.RestartChildren(child)
			} else {
				sup.StopChildren(child)
			}
		}})
		pid := root.Spawn(Props("recorder", meter, func() actor.Actor { return r }))
		held := stall{make(chan struct{}), make(chan struct{})}
		root.Send(pid, held)
		<-held.begun
		first, later := fail{make(chan error, 1)}, fail{make(chan error, 1)}
		root.Send(pid, first)
		root.Send(pid, note(1))
		if !restart {
			root.Send(pid, later)
		}
		close(held.end)
		if err := <-first.answered; !errors.Is(err, ErrFailed) {
			t.Errorf("answered with %v", err)
		}
		if c := <-crashes; c.Kind != "recorder" || c.Reason != "broken" || !containsFrame(c.Stack, "recorder") {
			t.Errorf("crash of %s: %v\n%s", c.Kind, c.Reason, c.Stack)
		}
		if restart {
			until(t, "the message behind it", func() bool { n, starts := r.count(); return n == 1 && starts == 2 })
			if s := onlySample(t, meter); s.Restarts != 1 || s.Mailbox != 0 || s.Alive != 1 || s.Dead != 0 || s.Waited.Count() != 3 {
				t.Errorf("after a restart: %+v", s)
			}
			continue
		}
		if err := <-later.answered; !errors.Is(err, ErrFailed) {
			t.Errorf("a request after the failure got %v", err)
		}
		until(t, "the end", func() bool { s := onlySample(t, meter); return s.Alive == 0 && s.Dead == 2 })
		if _, err := Ask[double, int](root, pid, time.Minute)(t.Context(), 1); !errors.Is(err, ErrFailed) {
			t.Errorf("asking one that has ended: %v", err)
		}
		if s := onlySample(t, meter); s.Mailbox != 0 || s.Oldest != 0 || s.Since != 0 || s.Dead != 3 || s.Messages != 2 {
			t.Errorf("after the end: %+v", s)
		}
	}
}

func containsFrame(stack []byte, name string) bool {
	for i := range stack {
		if len(stack)-i >= len(name) && string(stack[i:i+len(name)]) == name {
			return true
		}
	}
	return false
}

// TestDurationIsCountedInItsBucket: each duration is counted in the first bucket whose bound is not
// below it.
func TestDurationIsCountedInItsBucket(t *testing.T) {
	var h histogram
	want := [buckets + 1]uint64{}
	sum := time.Duration(0)
	add := func(d time.Duration) {
		i := 0
		for i < buckets && d > Bounds[i] {
			i++
		}
		h.add(int64(d))
		want[i]++
		sum += d
	}
	add(0)
	for _, b := range Bounds {
		add(b - 1)
		add(b)
		add(b + 1)
	}
	add(time.Hour)
	if s := h.sample(); s.Counts != want || s.Sum != sum || s.Count() != uint64(2+3*buckets) {
		t.Errorf("%+v, want %v and %v", s, want, sum)
	}
	few := Histogram{Counts: [buckets + 1]uint64{98, 1, 0, 1}}
	if none := new(Histogram); none.Within(0.99) != 0 || few.Within(0.98) != Bounds[0] ||
		few.Within(0.99) != Bounds[1] || few.Within(1) != Bounds[3] {
		t.Errorf("within: %v, %v, %v", few.Within(0.98), few.Within(0.99), few.Within(1))
	}
	if Bounds[0] > 5*time.Microsecond || Bounds[buckets-1] < 10*time.Second {
		t.Errorf("bounds %v", Bounds)
	}
}

// BenchmarkMessage measures the cost of a message from sender to handler. "house" is this package's
// mailbox, "plain" is protoactor's.
func BenchmarkMessage(b *testing.B) {
	for name, props := range map[string]func(func() actor.Actor) *actor.Props{
		"house": func(p func() actor.Actor) *actor.Props { return Props("counter", NewMeter(), p) },
		"plain": func(p func() actor.Actor) *actor.Props { // without metering
			return actor.PropsFromProducer(p, actor.WithMailbox(actor.UnboundedLockfree()), actor.WithDispatcher(shared))
		},
	} {
		b.Run("mailbox="+name, func(b *testing.B) {
			sys, done := NewSystem(), make(chan struct{})
			n := 0
			pid := sys.Root.Spawn(props(func() actor.Actor {
				return actor.ReceiveFunc(func(c actor.Context) {
					if _, ok := c.Message().(note); ok {
						if n++; n == b.N {
							close(done)
						}
					}
				})
			}))
			b.ReportAllocs()
			b.ResetTimer()
			m := any(note(1))
			for range b.N {
				sys.Root.Send(pid, m)
			}
			<-done
		})
	}
}
