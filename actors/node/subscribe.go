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
	started atomic.Bool // also set if it ended before its start
}

// maxLingering bounds ended subscriptions with an actor that has not ended. A client that
// subscribes and unsubscribes faster than actors come and go is refused meanwhile.
const maxLingering = 1024

// Subscribe admits a subscription that begins at a cursor of chain. It starts with Start.
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

// countedSink counts the end of its subscription.
type countedSink struct {
	view.Sink
	n    *Node
	done func() // returned by Followed
}

// End is part of view.Sink.
func (c *countedSink) End(why view.EndReason, at *view.Cursor) {
	c.n.subscribed.Add(-1)
	c.done()
	c.Sink.End(why, at)
}

// At returns the cursor at which it begins.
func (s *subscriber) At() view.Cursor { return s.r.Begin }

// Start begins the notices.
func (s *subscriber) Start() {
	if s.started.CompareAndSwap(false, true) {
		s.n.tell(s.n.subscriptions, s.r)
	}
}

// Cancel ends the subscription for its client.
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

// wantFinal counts subscriptions to transactions that are not final.
func (n *Node) wantFinal(yes bool) {
	if !yes {
		n.finalityWaits.done()
	} else if n.finalityWaits.add() {
		n.tell(n.producer, messages.FinalityWanted{})
	}
}

// subscriberProps returns the properties of a subscription's actor.
func (n *Node) subscriberProps(r *subscriptions.Request) *actor.Props {
	return n.spawner.props("subscriber", func() actor.Actor { return subscriptions.NewSubscriber(r, n.o.Log) })
}

// Moves returns a channel that is closed when the chain has a new head.
func (n *Node) Moves() <-chan struct{} {
	n.moves.Lock()
	defer n.moves.Unlock()
	if n.moves.next == nil {
		n.moves.next = make(chan struct{})
	}
	return n.moves.next
}

// moves wakes readers that follow the chain and are no subscribers.
type moves struct {
	sync.Mutex
	next chan struct{} // nil: no reader waits
}

// flatHeadPause is how long an advance of the flat head waits while blocks are followed: the
// time to deliver a block, its text included, on a busy machine.
const flatHeadPause = 10 * time.Millisecond

func (n *Node) pauseBeforeFlatHead() time.Duration {
	if n.followed.Load() > 0 {
		return flatHeadPause
	}
	return 0
}

// Followed marks that blocks are followed, by a subscriber or otherwise, until done is called.
// Meanwhile the flat head advances with a delay, and Options.Thread's thread runs.
func (n *Node) Followed() (done func()) {
	n.followed.Add(1)
	thread := n.o.Thread()
	return sync.OnceFunc(func() {
		n.followed.Add(-1)
		thread()
	})
}

// notifyMoved tells subscribers that the chain has a new head.
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
