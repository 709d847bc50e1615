package node

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/system"
)

// fragile is an actor that panics on request and reports its lifecycle messages.
type fragile struct {
	says  chan string
	child *actor.Props // Props of a child that it spawns at its start
	kid   *actor.PID
}

func (f *fragile) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		f.says <- "started"
		if f.child != nil {
			f.kid = c.Spawn(f.child)
		}
	case *actor.Stopped:
		f.says <- "stopped"
	case string:
		if f.kid != nil {
			c.Send(f.kid, m)
			return
		}
		panic(m)
	}
}

// TestEachFailureRuleHasItsEffect checks the effect of each rule in failures, for top-level actors
// and for children.
func TestEachFailureRuleHasItsEffect(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	for kind, rule := range failures {
		for _, below := range []bool{false, true} {
			exits := make(chan string, 4)
			s := &supervisor{log: log, onHalt: func(_ string, reason any, stack []byte) {
				if !strings.Contains(string(stack), "fragile") {
					t.Errorf("%s: the stack does not show where it failed:\n%s", kind, stack)
				}
				exits <- reason.(string)
			}}
			sys := system.NewSystem()
			k := &spawner{root: sys.Root.WithGuardian(s), meter: system.NewMeter(), supervisor: s}
			says := make(chan string, 8)
			props := k.props(kind, func() actor.Actor { return &fragile{says: says} })
			if below {
				inner, quiet := props, make(chan string, 8)
				props = k.props("rpc", func() actor.Actor { return &fragile{says: quiet, child: inner} })
			}
			pid := k.root.Spawn(props)
			want := func(from chan string, text string) {
				t.Helper()
				select {
				case got := <-from:
					if got != text {
						t.Errorf("%s, below %v: %q, want %q", kind, below, got, text)
					}
				case <-time.After(time.Minute):
					t.Fatalf("%s, below %v: nothing, want %q", kind, below, text)
				}
			}
			want(says, "started")
			k.root.Send(pid, "broken")
			switch rule {
			case halts:
				want(exits, "broken")
			case stopsAlone:
				want(says, "stopped")
			case restarts:
				want(says, "started")
			}
			if len(exits) > 0 {
				t.Errorf("%s: halted", kind)
			}
		}
	}
}

func TestActorWithoutFailureRuleIsNotSpawned(t *testing.T) {
	s := start(t, 1, func(o *Options) { o.Summary = time.Hour })
	for _, x := range s.Meter() {
		if _, ok := failures[x.Name]; !ok {
			t.Errorf("no rule for %s", x.Name)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("an actor without a rule was spawned")
		}
	}()
	s.spawner.props("stranger", nil)
}
