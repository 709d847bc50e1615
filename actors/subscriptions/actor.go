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

// Name is that of the actor above all subscribers.
const Name = "streams"

// Request is a subscription on its way to its actor, and what is known of it from outside.
type Request struct {
	ID     messages.SubscriberID
	Query  *view.Subscription
	Begin  view.Cursor
	Chain  Chain
	Ledger waiter.Ledger
	Sink   view.Sink
	Wants  func(bool) // told when final blocks are waited for, and when no more
	Gone   func()     // called once, when no actor works for it any more, or will; nil: nobody asks

	next atomic.Bool // it has been told of all blocks that are on disk, and wants the text of the next one at once

	mu    sync.Mutex
	at    *view.Cursor // behind what was told; nil: nothing was
	wants bool
	ended bool
}

// Offer tells the subscriber, unless it has ended: an actor that is about to end may still be at work.
func (r *Request) Offer(n *view.Notice) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || !r.Sink.Offer(n) {
		return false
	}
	r.at = &n.Cursor
	return true
}

// passed notes how far the walk has come.
func (r *Request) passed(at view.Cursor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.at = &at
	}
}

// want passes on whether final blocks are waited for, until the end.
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

// End tells the subscriber why no more comes; only the first counts.
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

// Failed answers for an actor that will not: link.Answerable.
func (r *Request) Failed(error) {
	r.End(view.EndFailed)
	r.Leave()
}

// hasEnded tells whether it has ended.
func (r *Request) hasEnded() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// Leave says that no actor works for it.
func (r *Request) Leave() {
	r.mu.Lock()
	gone := r.Gone
	r.Gone = nil
	r.mu.Unlock()
	if gone != nil {
		gone()
	}
}

// Options are what the actors work with.
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
		if m.hasEnded() { // its client has changed his mind before its turn came
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
		for _, pid := range a.open { // each on its own, so the order does not matter
			c.Send(pid, m)
		}
	case messages.BlockImported:
		for _, r := range a.byPID { // all follow the node's chain: any of those who want it does
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
	case *actor.Terminated: // it has ended, was told to, or failed
		if r, ok := a.byPID[m.Who.GetId()]; ok {
			delete(a.byPID, m.Who.GetId())
			delete(a.open, r.ID)
			r.Failed(nil) // lost if it has said another reason
		}
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("streams actor: no case for %T", m))
	}
}

type (
	goOn struct{} // to itself: there is more to do
	room struct{} // the sink has some
)

// offers is a request's sink as its walk sees it.
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
	poked bool // a goOn, or a room, is on its way
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
		if a.state == rests || a.state == full && a.w.live { // who reads the past waits for room alone
			a.run(c)
		}
	case goOn, room: // what the walk waits for may have changed meanwhile, and this is all that is on its way
		a.poked = false
		a.run(c)
	case *actor.Stopping:
		a.w.end()
	}
}

// run goes on, and sees to it that it is woken when it can go on again.
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
