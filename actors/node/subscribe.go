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

// subscriber is a subscription of the node's.
type subscriber struct {
	n       *Node
	r       *subscriptions.Request
	started atomic.Bool // or ended before it was
}

// maxLingering is how many subscriptions may have ended while their actors have not yet: who subscribes and unsubscribes without end, faster than
// actors come and go, is not let in meanwhile.
const maxLingering = 1024

// Subscribe admits a subscription that begins at a cursor. chain is what it follows. view.ErrLingering.
func (n *Node) Subscribe(q *view.Subscription, begin view.Cursor, chain subscriptions.Chain, sink view.Sink) (view.Subscriber, error) {
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

// countedSink is a sink whose end is counted.
type countedSink struct {
	view.Sink
	n    *Node
	done func() // of Followed
}

// End is part of view.Sink.
func (c *countedSink) End(why view.EndReason, at *view.Cursor) {
	c.n.subscribed.Add(-1)
	c.done()
	c.Sink.End(why, at)
}

// At is where it begins.
func (s *subscriber) At() view.Cursor { return s.r.Begin }

// Start begins to tell.
func (s *subscriber) Start() {
	if s.started.CompareAndSwap(false, true) {
		s.n.tell(s.n.subscriptions, s.r)
	}
}

// Cancel ends it.
func (s *subscriber) Cancel() { s.stop(view.EndCancelled) }

// Stop ends it as the node goes away.
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

// subscriberProps returns the properties of the actor of a subscription.
func (n *Node) subscriberProps(r *subscriptions.Request) *actor.Props {
	return n.spawner.props("subscriber", func() actor.Actor { return subscriptions.NewSubscriber(r, n.o.Log) })
}

// Moves returns a channel that is closed when the chain has another head than when it was asked for.
func (n *Node) Moves() <-chan struct{} {
	n.moves.Lock()
	defer n.moves.Unlock()
	if n.moves.next == nil {
		n.moves.next = make(chan struct{})
	}
	return n.moves.next
}

// moves is what those wait for who want to know that the chain has moved, and are no subscribers.
type moves struct {
	sync.Mutex
	next chan struct{} // nil: nobody waits
}

// flatHeadPause is how long a fold waits where blocks are told of: that is what telling one takes, text and all, on a busy machine.
const flatHeadPause = 10 * time.Millisecond

func (n *Node) pauseBeforeFlatHead() time.Duration {
	if n.followed.Load() > 0 {
		return flatHeadPause
	}
	return 0
}

// Followed says that blocks are told of, to a subscriber or otherwise, until done is called: a fold waits for that, and there is a thread for it.
func (n *Node) Followed() (done func()) {
	n.followed.Add(1)
	thread := n.o.Thread()
	return sync.OnceFunc(func() {
		n.followed.Add(-1)
		thread()
	})
}

// lastMove tells subscribers that the chain has.
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
