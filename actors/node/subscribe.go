package node

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/subscriptions"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives/view"
)

// subscriber implements view.Subscriber.
type subscriber struct {
	n       *Node
	r       *subscriptions.Request
	started atomic.Bool // Start was called, or the subscription ended before
}

// maxLingering is the maximum number of ended subscriptions whose actors are still alive. At this
// number, the node refuses new subscriptions, so that a client cannot create actors faster than
// actors end.
const maxLingering = 1024

// Subscribe admits a subscription to chain that begins at a cursor. Notices begin with Start.
// Errors: view.ErrLingering, ErrStopped.
func (n *Node) Subscribe(q *view.Subscription, begin view.Cursor, chain subscriptions.Chain,
	sink view.Sink) (view.Subscriber, error) {
	select {
	case <-n.ended:
		return nil, ErrStopped
	default:
	}
	if n.streamed.Load()-n.subscribed.Load() >= maxLingering {
		return nil, view.ErrLingering
	}
	s := &subscriber{n: n, r: &subscriptions.Request{
		ID: messages.SubscriberID(n.ids.Add(1)), Query: q, Begin: begin, Chain: chain, Ledger: outcomeLedger{n.engine}, Wants: n.wantFinal,
	}}
	s.r.Sink, s.r.Gone = &countedSink{sink, n, n.Followed()}, func() { n.streamed.Add(-1) }
	n.subscribed.Add(1)
	n.streamed.Add(1)
	return s, nil
}

// countedSink is a sink that counts the end of its subscription.
type countedSink struct {
	view.Sink
	n    *Node
	done func() // returned by Followed
}

// End implements view.Sink.
func (c *countedSink) End(why view.EndReason, at *view.Cursor) {
	c.n.subscribed.Add(-1)
	c.done()
	c.Sink.End(why, at)
}

// At returns the cursor at which the subscription begins.
func (s *subscriber) At() view.Cursor { return s.r.Begin }

// Start makes the subscription's actor send notices.
func (s *subscriber) Start() {
	if s.started.CompareAndSwap(false, true) {
		s.n.tell(s.n.subscriptions, s.r)
	}
}

// Cancel ends the subscription at the request of its client.
func (s *subscriber) Cancel() { s.stop(view.EndCancelled) }

// Stop ends the subscription because the node stops.
func (s *subscriber) Stop() { s.stop(view.EndStopping) }

func (s *subscriber) stop(why view.EndReason) {
	began := !s.started.CompareAndSwap(false, true)
	if began {
		s.n.tell(s.n.subscriptions, messages.Unsubscribe{Subscriber: s.r.ID})
	}
	if s.r.End(why); !began {
		s.r.Leave()
	}
}

// wantFinal counts subscriptions that need final blocks. A subscription calls wantFinal with true
// when it begins to need final blocks, and with false when it no longer needs them.
func (n *Node) wantFinal(yes bool) {
	if !yes {
		n.finalityWaits.done()
	} else if n.finalityWaits.add() {
		n.tell(n.producer, messages.FinalityWanted{})
	}
}

// subscriberProps returns the Props of a subscription's actor.
func (n *Node) subscriberProps(r *subscriptions.Request) *actor.Props {
	return n.spawner.props("subscriber", func() actor.Actor { return subscriptions.NewSubscriber(r, n.o.Log) })
}

// Moves returns a channel that is closed at the next new head.
func (n *Node) Moves() <-chan struct{} {
	n.moves.Lock()
	defer n.moves.Unlock()
	if n.moves.next == nil {
		n.moves.next = make(chan struct{})
	}
	return n.moves.next
}

// moves wakes readers of new heads that are not subscriptions.
type moves struct {
	sync.Mutex
	next chan struct{} // nil: no reader waits
}

// flatHeadPause is the pause before an advance of the flat head while clients follow blocks. In
// this time, a block with its text can be delivered even on a busy machine.
const flatHeadPause = 10 * time.Millisecond

func (n *Node) pauseBeforeFlatHead() time.Duration {
	if n.followed.Load() > 0 {
		return flatHeadPause
	}
	return 0
}

// Followed records that a client follows blocks, until done is called. In between, each advance of
// the flat head waits for flatHeadPause, and the thread of Options.Thread runs.
func (n *Node) Followed() (done func()) {
	n.followed.Add(1)
	thread := n.o.Thread()
	return sync.OnceFunc(func() {
		n.followed.Add(-1)
		thread()
	})
}

// notifyMoved informs subscriptions and readers that the chain has a new head.
func (n *Node) notifyMoved() {
	n.moves.Lock()
	if n.moves.next != nil {
		close(n.moves.next)
		n.moves.next = nil
	}
	n.moves.Unlock()
	if n.subscribed.Load() > 0 {
		n.tell(n.subscriptions, messages.ChainMoved{})
	}
}
