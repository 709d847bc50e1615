package subscriptions

import (
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives/view"
)

// lockedSink is a sink with a lock.
type lockedSink struct {
	mu sync.Mutex
	s  sink
}

func (g *lockedSink) Offer(n *view.Notice) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.s.Offer(n)
}

func (g *lockedSink) WhenRoom(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.s.WhenRoom(f)
}

func (g *lockedSink) End(view.EndReason, *view.Cursor) {}

func (g *lockedSink) inspect(f func(*sink) bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return f(&g.s)
}

// TestSubscriberWithLateRoomReadsToTip: a subscriber waits for room, is run by a new block first,
// and gets the room message later. It still reads up to the tip.
func TestSubscriberWithLateRoomReadsToTip(t *testing.T) {
	const blocks = 3 * blocksPerRun
	tr := newTree()
	begin := view.Cursor{At: tr.head, Index: view.WholeBlock}
	for range blocks {
		tr.head = tr.add(tr.head, tr.head.Height+1, nil, nil)
	}
	g := &lockedSink{}
	log := logrus.New()
	log.SetOutput(io.Discard)
	r := &Request{Query: &view.Subscription{Topic: view.TopicBlocks, Lag: 1 << 40}, Begin: begin, Chain: tr,
		Ledger: tr, Sink: g}
	system := actor.NewActorSystem()
	defer system.Shutdown()
	pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return NewSubscriber(r, log) }))
	eventually := func(what string, ok func(*sink) bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !g.inspect(ok); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	eventually("it does not wait for room", func(s *sink) bool { return s.asked != nil })
	var asked func()
	g.inspect(func(s *sink) bool {
		s.room, asked = 1<<30, s.asked
		return true
	})
	system.Root.Send(pid, messages.ChainMoved{})
	asked()
	eventually("it has fallen silent", func(s *sink) bool { return len(s.got) == blocks })
}

// TestEarlyEndedSubscriptionGetsNoActor: a subscription that ends before the supervisor handles it
// gets no actor. Gone is called once.
func TestEarlyEndedSubscriptionGetsNoActor(t *testing.T) {
	tr := newTree()
	log := logrus.New()
	log.SetOutput(io.Discard)
	system := actor.NewActorSystem()
	defer system.Shutdown()
	var made, gone atomic.Int64
	pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
		return New(Options{Subscriber: func(r *Request) *actor.Props {
			made.Add(1)
			return actor.PropsFromProducer(func() actor.Actor { return NewSubscriber(r, log) })
		}})
	}))
	begin := view.Cursor{At: tr.head, Index: view.WholeBlock}
	for id := range messages.SubscriberID(10) {
		r := &Request{ID: id, Query: &view.Subscription{Topic: view.TopicBlocks}, Begin: begin, Chain: tr, Ledger: tr,
			Sink: &lockedSink{},
			Gone: func() { gone.Add(1) }}
		if id > 0 {
			r.End(view.EndCancelled)
		}
		system.Root.Send(pid, r)
	}
	until := time.Now().Add(time.Minute)
	for gone.Load() < 9 && time.Now().Before(until) {
		time.Sleep(time.Millisecond)
	}
	if made.Load() != 1 || gone.Load() != 9 {
		t.Errorf("%d have an actor, %d ended without one; want 1, 9", made.Load(), gone.Load())
	}
	system.Root.Send(pid, messages.Unsubscribe{Subscriber: 0})
	for gone.Load() < 10 && time.Now().Before(until) {
		time.Sleep(time.Millisecond)
	}
	if gone.Load() != 10 {
		t.Errorf("%d of 10 ended without an actor", gone.Load())
	}
}
