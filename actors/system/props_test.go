package system

import (
	"errors"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

type double int

type doubler struct{ seen int }

func (d *doubler) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case Request[double, int]:
		d.seen++
		if m.Question == 13 {
			return // never replies
		}
		m.Reply(int(m.Question)*2, nil)
		m.Reply(-1, nil) // a second reply has no effect
	case string:
		panic(m)
	}
}

func TestRequestIsAnsweredOrTimesOut(t *testing.T) {
	sys := NewSystem()
	meter := NewMeter()
	pid := sys.Root.Spawn(Props("doubler", meter, func() actor.Actor { return &doubler{} }))
	ask := Ask[double, int](sys.Root, pid, time.Second)
	for i := range 100 {
		if got, err := ask(t.Context(), double(i+100)); err != nil || got != 2*(i+100) {
			t.Fatalf("ask(%d) = %d, %v", i+100, got, err)
		}
	}
	if _, err := Ask[double, int](sys.Root, pid, time.Millisecond)(t.Context(), 13); !errors.Is(err, ErrTimeout) {
		t.Errorf("a request to a silent actor got %v, want ErrTimeout", err)
	}
	until(t, "the mute actor has had the question", func() bool { return meter.Samples()[0].Messages == 101 })
	s := meter.Samples()
	if len(s) != 1 || s[0].Messages != 101 || s[0].Mailbox != 0 || s[0].Alive != 1 {
		t.Errorf("samples = %+v", s)
	}
}

func BenchmarkAsk(b *testing.B) {
	sys := NewSystem()
	pid := sys.Root.Spawn(Props("doubler", NewMeter(), func() actor.Actor { return &doubler{} }))
	ask := Ask[double, int](sys.Root, pid, time.Second)
	for b.Loop() {
		if _, err := ask(b.Context(), 1); err != nil {
			b.Fatal(err)
		}
	}
}
