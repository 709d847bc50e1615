package system

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// parent spawns a child for each message. If breaks is set, it panics when a child ends.
type parent struct {
	child  *actor.Props
	ended  chan struct{}
	breaks atomic.Bool
	made   atomic.Int64
}

func (p *parent) Receive(c actor.Context) {
	switch c.Message().(type) {
	case fail:
		c.Spawn(p.child)
		p.made.Add(1)
	case *actor.Terminated:
		if p.breaks.Load() {
			panic("broken at the end of a child")
		}
	case *actor.Stopped:
		close(p.ended)
	}
}

// slow is an actor whose stop waits for let.
type slow struct{ let chan struct{} }

func (s *slow) Receive(c actor.Context) {
	if _, ok := c.Message().(*actor.Stopping); ok {
		<-s.let
	}
}

func newParent(m *Meter) (p *parent, let chan struct{}) {
	let = make(chan struct{})
	p = &parent{ended: make(chan struct{})}
	p.child = Props("child", m, func() actor.Actor { return &slow{let} })
	return p, let
}

// TestStoppingActorHandlesNoMessages: an actor that waits for its children to end handles no
// further messages, because a child spawned now would never be stopped. Senders of requests get an
// answer.
func TestStoppingActorHandlesNoMessages(t *testing.T) {
	sys, m := NewSystem(), NewMeter()
	p, let := newParent(m)
	pid := sys.Root.Spawn(Props("parent", m, func() actor.Actor { return p }))
	sys.Root.Send(pid, fail{make(chan error, 1)})
	until(t, "a child is made", func() bool { return p.made.Load() == 1 })
	sys.Root.Stop(pid)
	late := fail{make(chan error, 1)}
	sys.Root.Send(pid, late)
	until(t, "both are being handled", func() bool {
		for _, s := range m.Samples() {
			if s.Name == "child" && s.Since > 0 {
				return true
			}
		}
		return false
	})
	close(let)
	until(t, "it ends", func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
	if err := <-late.answered; !errors.Is(err, ErrFailed) {
		t.Errorf("the late request got %v, want %v", err, ErrFailed)
	}
	if n := p.made.Load(); n != 1 {
		t.Errorf("%d children were made, want 1", n)
	}
}

// TestActorPanickingAtChildEndStillEnds: if an actor panics at the end of a child while it is
// itself ending, it still ends. Otherwise the panic is handled like that of a message.
func TestActorPanickingAtChildEndStillEnds(t *testing.T) {
	sys, m := NewSystem(), NewMeter()
	var said atomic.Int64
	m.Crashed = func(string, *Crash) { said.Add(1) }
	p, let := newParent(m)
	close(let)
	p.breaks.Store(true)
	pid := sys.Root.Spawn(Props("parent", m, func() actor.Actor { return p }))
	sys.Root.Send(pid, fail{make(chan error, 1)})
	sys.Root.Send(pid, &actor.PoisonPill{})
	until(t, "it ends", func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
	if said.Load() != 1 {
		t.Errorf("%d failures are reported, want 1", said.Load())
	}

	crashes := make(chan *Crash, 1)
	root := sys.Root.WithGuardian(&decide{func(sup actor.Supervisor, child *actor.PID, c *Crash) {
		crashes <- c
		sup.StopChildren(child)
	}})
	p, let = newParent(m)
	close(let)
	p.breaks.Store(true)
	child := make(chan *actor.PID, 1)
	p.child = Props("child", m, func() actor.Actor {
		return actor.ReceiveFunc(func(c actor.Context) {
			if _, ok := c.Message().(*actor.Started); ok {
				child <- c.Self()
			}
		})
	})
	pid = root.Spawn(Props("parent", m, func() actor.Actor { return p }))
	sys.Root.Send(pid, fail{make(chan error, 1)})
	sys.Root.Stop(<-child)
	if c := <-crashes; c.Kind != "parent" || c.Reason != "broken at the end of a child" {
		t.Errorf("failed with %+v", c)
	}
}

// TestMessagesBeforeStartAreHandled: messages that arrive after an actor got its name and before it
// started are handled after the start.
func TestMessagesBeforeStartAreHandled(t *testing.T) {
	sys, m, r := NewSystem(), NewMeter(), new(recorder)
	sys.Root.Spawn(Props("x", m, func() actor.Actor { return r }, actor.WithOnInit(func(c actor.Context) {
		sys.Root.Send(c.Self(), note(1))
	})))
	until(t, "it is handled", func() bool { seen, starts := r.count(); return seen == 1 && starts == 1 })
}
