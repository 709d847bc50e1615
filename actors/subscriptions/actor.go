package subscriptions

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/actors/waiter"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Name is the name of the parent of all subscribers.
const Name = "streams"

// Request is a subscription: what was asked for, and its state as seen from outside its actor.
type Request struct {
	ID     messages.SubscriberID
	Query  *view.Subscription
	Begin  view.Cursor
	Chain  Chain
	Ledger waiter.Ledger
	Sink   view.Sink
	Wants  func(bool) // called when final blocks are needed, and when no longer
	Gone   func()     // called once when no actor works for it or will; may be nil

	next atomic.Bool // it is up to date and wants the text of the next block at once

	mu    sync.Mutex
	at    *view.Cursor // after the last notice; nil: there was none
	wants bool
	ended bool
}

// Offer passes a notice to the subscriber unless the subscription has ended, and returns
// whether it was taken.
func (r *Request) Offer(n *view.Notice) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || !r.Sink.Offer(n) {
		return false
	}
	r.at = &n.Cursor
	return true
}

// passed records how far the reader has come.
func (r *Request) passed(at view.Cursor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.at = &at
	}
}

// want passes on whether final blocks are needed, until the end.
func (r *Request) want(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.setWants(yes)
	}
}

func (r *Request) setWants(yes bool) {
	if r.Wants != nil && yes != r.wants {
		r.wants = yes
		r.Wants(yes)
	}
}

// End tells the subscriber why no more notices come. Only the first call counts.
func (r *Request) End(why view.EndReason) {
	r.mu.Lock()
	if r.ended {
		r.mu.Unlock()
		return
	}
	r.setWants(false)
	r.ended = true
	at := r.Begin
	if r.at != nil {
		at = *r.at
	}
	r.mu.Unlock()
	r.Sink.End(why, &at)
}

// Failed ends the subscription for an actor that will not. It implements system.Answerable.
func (r *Request) Failed(error) {
	r.End(view.EndFailed)
	r.Leave()
}

// hasEnded returns whether the subscription has ended.
func (r *Request) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// Leave reports that no actor works for it.
func (r *Request) Leave() {
	r.mu.Lock()
	gone := r.Gone
	r.Gone = nil
	r.mu.Unlock()
	if gone != nil {
		gone()
	}
}

// Options configure the supervisor.
type Options struct {
	Subscriber func(*Request) *actor.Props
}

// Supervisor is the parent of all subscribers.
type Supervisor struct {
	o     Options
	open  map[messages.SubscriberID]*actor.PID
	byPID map[string]*Request
}

// New returns the actor.
func New(o Options) *Supervisor {
	return &Supervisor{o: o, open: map[messages.SubscriberID]*actor.PID{}, byPID: map[string]*Request{}}
}

// Receive handles one message.
func (a *Supervisor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *Request:
		if m.hasEnded() { // cancelled before its turn
			m.Leave()
			return
		}
		pid, err := c.SpawnNamed(a.o.Subscriber(m), "subscriber-"+strconv.FormatUint(uint64(m.ID), 10))
		if err != nil {
			m.Failed(err)
			return
		}
		a.open[m.ID], a.byPID[pid.GetId()] = pid, m
	case messages.Unsubscribe:
		if pid := a.open[m.Subscriber]; pid != nil {
			c.Stop(pid)
		}
	case messages.ChainMoved:
		for _, pid := range a.open { // independent of each other, so the order does not matter
			c.Send(pid, m)
		}
	case messages.BlockImported:
		for _, r := range a.byPID { // all follow the node's chain, so one that wants it suffices
			if m.IsHead && r.next.Load() {
				r.Chain.Soon(m.Hash)
				break
			}
		}
	case *actor.Restarting: // all subscribers end now
		for _, r := range a.byPID {
			r.Failed(nil)
		}
		clear(a.byPID)
		clear(a.open)
	case *actor.Terminated: // it has ended, was stopped, or failed
		if r, ok := a.byPID[m.Who.GetId()]; ok {
			delete(a.byPID, m.Who.GetId())
			delete(a.open, r.ID)
			r.Failed(nil) // ignored if it has ended for another reason
		}
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("streams actor: no case for %T", m))
	}
}

type (
	goOn struct{} // to self: there is more to do
	room struct{} // the sink has room
)

// offers is a request's sink as its reader sees it.
type offers struct{ r *Request }

func (o offers) Offer(n *view.Notice) bool              { return o.r.Offer(n) }
func (o offers) WhenRoom(f func())                      { o.r.Sink.WhenRoom(f) }
func (o offers) End(why view.EndReason, _ *view.Cursor) { o.r.End(why) }

// Subscriber is the actor of one subscription.
type Subscriber struct {
	r     *Request
	w     chainReader
	log   *logrus.Logger
	state readState
	poked bool // a goOn or a room is on its way
}

// NewSubscriber returns the actor.
func NewSubscriber(r *Request, log *logrus.Logger) *Subscriber {
	return &Subscriber{r: r, log: log, w: chainReader{
		q: r.Query, chain: r.Chain, ledger: r.Ledger, sink: offers{r}, wants: r.want, at: r.Begin,
	}}
}

// Receive handles one message.
func (a *Subscriber) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		root, self := c.ActorSystem().Root, c.Self()
		a.w.wake = func() { root.Send(self, goOn{}) }
		a.run(c)
	case messages.ChainMoved:
		if a.state == rests || a.state == full && a.w.live { // a reader of the past waits for room only
			a.run(c)
		}
	case goOn, room: // what the reader waits for may have changed meanwhile
		a.poked = false
		a.run(c)
	case *actor.Stopping:
		a.w.end()
	}
}

// run reads on, and arranges to be woken when it can read more.
func (a *Subscriber) run(c actor.Context) {
	if a.state == over {
		return
	}
	v, end, err := a.w.run()
	a.state = v
	a.r.passed(a.w.at)
	a.r.next.Store(v == rests && a.r.Query.Finality == view.RefOptimistic && wantsTexts(a.r.Query))
	switch v {
	case again:
		if !a.poked {
			a.poked = true
			c.Send(c.Self(), goOn{})
		}
	case full:
		if !a.poked {
			a.poked = true
			root, self := c.ActorSystem().Root, c.Self()
			a.r.Sink.WhenRoom(func() { root.Send(self, room{}) })
		}
	case over:
		if err != nil {
			a.log.WithError(err).WithField("cursor", a.w.at.At).Error("a subscription ended")
		}
		a.r.End(end)
		c.Stop(c.Self())
	}
}
