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

// Request is a subscription. The fields above the field next describe the subscription. The
// remaining fields are its state, which the actor of the subscription, its client and the
// supervisor share.
type Request struct {
	ID     messages.SubscriberID
	Query  *view.Subscription
	Begin  view.Cursor
	Chain  Chain
	Ledger waiter.Ledger
	Sink   view.Sink
	// the actor calls Wants with true when the subscription begins to need final blocks, and with
	// false when it no longer needs them
	Wants func(bool)
	Gone  func() // called once when the subscription's actor has ended or will not start; may be nil

	// true: all blocks were sent, and the message text of the next block should be prepared early
	next atomic.Bool

	mu    sync.Mutex
	at    *view.Cursor // cursor after the last sent notice; nil: none was sent
	wants bool
	ended bool
}

// Offer passes a notice to the sink and returns whether the sink took it. After End, Offer returns
// false.
func (r *Request) Offer(n *view.Notice) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || !r.Sink.Offer(n) {
		return false
	}
	r.at = &n.Cursor
	return true
}

// passed records the cursor up to which the actor has read the chain. After End, passed has no
// effect.
func (r *Request) passed(at view.Cursor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.at = &at
	}
}

// want calls Wants if yes differs from the last value. After End, want has no effect.
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

// End informs the client why no more notices will come. Only the first call has an effect.
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

// Failed ends the subscription after its actor has failed or ended. Failed implements
// system.Answerable.
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

// Leave calls Gone, once.
func (r *Request) Leave() {
	r.mu.Lock()
	gone := r.Gone
	r.Gone = nil
	r.mu.Unlock()
	if gone != nil {
		gone()
	}
}

// Options configure the Supervisor.
type Options struct {
	// Subscriber returns the Props of a subscription's actor. Required.
	Subscriber func(*Request) *actor.Props
}

// Supervisor is the parent of the actors of all subscriptions.
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
		if m.hasEnded() { // the client ended the subscription before its actor was started
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
		for _, pid := range a.open { // in any order, because the subscriptions are independent
			c.Send(pid, m)
		}
	case messages.BlockImported:
		for _, r := range a.byPID { // all subscriptions read the same chain, so one Ahead call is enough
			if m.IsHead && r.next.Load() {
				r.Chain.Soon(m.Hash)
				break
			}
		}
	case *actor.Restarting: // all subscribers end with this actor
		for _, r := range a.byPID {
			r.Failed(nil)
		}
		clear(a.byPID)
		clear(a.open)
	case *actor.Terminated: // the subscriber ended, was stopped, or failed
		if r, ok := a.byPID[m.Who.GetId()]; ok {
			delete(a.byPID, m.Who.GetId())
			delete(a.open, r.ID)
			r.Failed(nil) // no effect if the subscription has already ended
		}
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default:
		panic(fmt.Sprintf("streams actor: no case for %T", m))
	}
}

type (
	goOn struct{} // message to self: more blocks can be read
	room struct{} // message to self: the sink may accept notices again
)

// offers implements view.Sink for a Request. It is the sink of the Request's reader.
type offers struct{ r *Request }

func (o offers) Offer(n *view.Notice) bool              { return o.r.Offer(n) }
func (o offers) WhenRoom(f func())                      { o.r.Sink.WhenRoom(f) }
func (o offers) End(why view.EndReason, _ *view.Cursor) { o.r.End(why) }

// Subscriber is the actor of one subscription. A Subscriber reads the chain with a chainReader.
type Subscriber struct {
	r     *Request
	w     chainReader
	log   *logrus.Logger
	state readState
	poked bool // true: a goOn or room message is queued, or WhenRoom will send one
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
		// full and not live: the reader still reads old blocks and waits only for the sink
		if a.state == rests || a.state == full && a.w.live {
			a.run(c)
		}
	case goOn, room: // what the reader waits for may have happened
		a.poked = false
		a.run(c)
	case *actor.Stopping:
		a.w.end()
	}
}

// run lets the reader read. Afterwards it arranges for the message on which the actor continues to
// read.
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
			a.log.WithError(err).WithField("cursor", a.w.at.At).Error("a subscription was ended by an error")
		}
		a.r.End(end)
		c.Stop(c.Self())
	}
}
