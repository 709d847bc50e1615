package system

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/troupe-chain/troupe/engine/parallel"
)

// Answerable is a message whose sender waits for a reply. The mailbox calls Failed if no reply will
// come, because the handler panicked or the receiver has ended.
type Answerable interface{ Failed(error) }

// Crash is an actor's panic with the stack at its origin. The supervisor gets it as the failure's
// reason.
type Crash struct {
	Kind   string // kind of the actor
	Reason any
	Stack  []byte
}

// processStart is the origin of clock. time.Since reads only the monotonic clock, which takes half
// as long as time.Now.
var processStart = time.Now()

// clock returns the monotonic time since the process began, in ns. The result is odd, so never 0.
func clock() int64 { return int64(time.Since(processStart)) | 1 }

// item is a queued message.
type item struct {
	next    atomic.Pointer[item]
	message any
	at      int64 // value of clock() when the message was posted; 0: a system message
}

// queue is a linked list with many writers and one reader. A writer first swaps its item in as the
// end, and then links the previous end to the item. Between the two steps the reader does not see
// the item.
type queue struct {
	end   atomic.Pointer[item]
	first *item // last item that the reader has removed; used by the reader only
}

func (q *queue) init() {
	q.first = new(item)
	q.end.Store(q.first)
}

func (q *queue) put(x *item) { q.end.Swap(x).next.Store(x) }

// take returns the first item, or nil. Only the reader calls it.
func (q *queue) take() *item {
	x := q.first.next.Load()
	if x != nil {
		q.first = x
	}
	return x
}

// mailbox is the mailbox of one actor, and measures the actor.
//
// Problem: protoactor's mailboxes do not know how long a message has waited or how long the current
// message has run, and protoactor's middleware misses a message if its handler panics. A stalled
// actor would be invisible, and a sender that waits for a reply would wait for its full timeout.
//
// Invariants:
//   - Messages are handled one at a time in the order of posting; system messages go first.
//   - At most one goroutine is the reader: the one that has set scheduled.
//   - A posted message is handled, or answered with Failed if it is Answerable. This holds when
//     the handler panics, and after the actor has ended (dead).
//   - Posting never waits. The mailbox is unbounded: bounds are at the edges of the node, where
//     clients and peers take permits before anything is sent.
//
// Outline:
//
//	post: append to users or system; add 1 to waiting or sys; schedule unless scheduled
//	process: run until empty; clear scheduled; if something came meanwhile, set it and run again
//	run: take system messages, then users' ones; record waiting and handling time of each
//	panic: Failed to the sender, Crash to the supervisor, which suspends the mailbox and decides
//	end: mark dead, unregister from the meter, answer for what is left
//
// After timeSlice a reader lets other actors run. timeSlice is a time and not a number of messages,
// because the time for a hundred small messages would be too small a share among thousands of
// runnable goroutines. On the process-wide Dispatcher the reader yields the processor. On a
// BoundedDispatcher the mailbox goes to the end of the queue of ready mailboxes.
//
// Rejected: bounded mailboxes. They spin when full, and can deadlock actors that send to each
// other. Rejected: channels. Each of thousands of waiters would allocate its channel's full
// capacity, and a channel shows neither age nor order of its contents.
type mailbox struct {
	kind  string
	id    string // id of the mailbox's actor; set when the actor starts, under Meter.mu
	meter *Meter
	count *Counter     // counter of the actor's kind; set when the actor starts
	done  atomic.Int64 // number of handled messages

	users, system queue
	waiting, sys  atomic.Int64
	started       atomic.Bool // true: Start was called, so the actor has a name and the message Started is queued
	scheduled     atomic.Bool
	suspended     bool // true: the actor has failed, and the supervisor has not decided yet what happens to it
	ending        bool // true: the actor is stopping and handles no user message any more
	// true: the actor has ended; the mailbox drops messages and calls Failed on those that are
	// Answerable
	dead atomic.Bool

	oldest   atomic.Int64 // value of clock() when the oldest waiting message was posted; 0: none waits
	busy     atomic.Int64 // value of clock() when the handler began the current message; 0: none
	reported int64        // start of the last stall that Stalls returned; used by Stalls only

	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher
	// true: the actor runs on a BoundedDispatcher, so the mailbox is scheduled anew after a time
	// slice
	bounded bool
	work    func() // the method value of process
}

// timeSlice is how long an actor handles messages before it lets waiting actors run.
const timeSlice = 2 * time.Millisecond

func newBox(kind string, meter *Meter) *mailbox {
	b := &mailbox{kind: kind, meter: meter}
	b.users.init()
	b.system.init()
	b.work = b.process
	return b
}

// RegisterHandlers is part of actor.Mailbox.
func (b *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	b.invoker, b.dispatcher = invoker, dispatcher
	_, b.bounded = dispatcher.(*BoundedDispatcher)
}

// Start is part of actor.Mailbox. Senders that learned the actor's name early may have posted
// messages before Start.
func (b *mailbox) Start() {
	b.started.Store(true)
	b.schedule()
}

// UserMessageCount is part of actor.Mailbox.
func (b *mailbox) UserMessageCount() int { return int(b.waiting.Load()) }

// PostUserMessage queues a message. Safe for concurrent use.
func (b *mailbox) PostUserMessage(m any) {
	if b.dead.Load() {
		b.drop(m)
		return
	}
	now := clock()
	b.users.put(&item{message: m, at: now})
	b.waiting.Add(1)
	if b.oldest.Load() == 0 {
		b.oldest.CompareAndSwap(0, now)
	}
	b.schedule()
}

// PostSystemMessage queues a message of protoactor. Safe for concurrent use.
func (b *mailbox) PostSystemMessage(m any) {
	b.system.put(&item{message: m})
	b.sys.Add(1)
	b.schedule()
}

func (b *mailbox) schedule() {
	if b.started.Load() && b.scheduled.CompareAndSwap(false, true) {
		b.dispatcher.Schedule(b.work)
	}
}

// process handles queued messages until there are none. A writer that posts after the last check
// schedules process again.
func (b *mailbox) process() {
	for {
		some, over := b.run()
		if over { // the time slice is over; scheduled stays true
			b.dispatcher.Schedule(b.work)
			return
		}
		// If run found no message although waiting counts one, a writer has not linked its item
		// yet. Yield, so that the writer can link it.
		if !some {
			runtime.Gosched()
		}
		// Call systemOnly before scheduled is cleared. Afterwards another goroutine may become the
		// reader.
		held := b.systemOnly()
		b.scheduled.Store(false)
		if b.sys.Load() == 0 && (held || b.waiting.Load() == 0) || !b.scheduled.CompareAndSwap(false, true) {
			return
		}
	}
}

// systemOnly returns whether only system messages are handled.
func (b *mailbox) systemOnly() bool { return b.suspended || b.ending }

// run handles messages until none is left or a handler panics. some says whether there were any.
// over means that the time slice on a bounded dispatcher is used up.
func (b *mailbox) run() (some, over bool) {
	var m any
	defer func() {
		if r := recover(); r != nil {
			some = true
			b.end(clock())
			c, ok := r.(*Crash)
			if !ok {
				p := parallel.Recovered(r)
				c = &Crash{Kind: b.kind, Reason: p.Reason, Stack: p.Stack}
			}
			if q, ok := m.(Answerable); ok {
				q.Failed(ErrFailed)
			}
			b.invoker.EscalateFailure(c, m)
		}
	}()
	now, from := int64(0), clock() // 0: read the clock again before the next message
	for i := 0; ; i++ {
		if i > b.dispatcher.Throughput() {
			if i = 0; clock()-from >= int64(timeSlice) {
				runtime.Gosched()
				now, from = 0, clock()
			}
		}
		if x := b.system.take(); x != nil {
			m, x.message, now, some = x.message, nil, 0, true
			b.sys.Add(-1)
			switch m.(type) {
			case *actor.SuspendMailbox:
				b.suspended = true
			case *actor.ResumeMailbox:
				b.suspended = false
			default:
				b.busy.Store(clock())
				b.invoker.InvokeSystemMessage(m)
				b.busy.Store(0)
			}
			continue
		}
		if b.systemOnly() {
			return some, false
		}
		x := b.users.take()
		if x == nil {
			return some, false
		}
		m, x.message, some = x.message, nil, true
		b.waiting.Add(-1)
		b.oldest.Store(0)
		// a writer that posts after this check finds oldest at 0 and sets oldest
		if next := x.next.Load(); next != nil {
			b.oldest.CompareAndSwap(0, next.at)
		}
		if b.dead.Load() {
			b.drop(m)
			continue
		}
		if now == 0 {
			now = clock()
		}
		b.busy.Store(now)
		b.count.waited.add(now - x.at)
		b.invoker.InvokeUserMessage(m)
		if now = b.end(clock()); b.bounded && now-from >= int64(timeSlice) {
			return some, true
		}
	}
}

// end records that the handler has finished the current message. It returns the argument now.
func (b *mailbox) end(now int64) int64 {
	if from := b.busy.Swap(0); from != 0 && b.count != nil {
		b.count.handled.add(now - from)
		b.done.Add(1)
	}
	return now
}

// drop counts a message that no actor will handle, and calls Failed if the message is Answerable.
func (b *mailbox) drop(m any) {
	b.meter.Dropped(b.kind, b.count, m)
}

// meteredActor wraps an actor to observe its lifecycle messages.
type meteredActor struct {
	actor.Actor
	box *mailbox
}

// Receive is part of actor.Actor.
func (s *meteredActor) Receive(c actor.Context) {
	switch c.Message().(type) {
	case *actor.Started:
		s.box.meter.register(s.box, c.Self().GetId())
	case *actor.Restarting:
		s.box.count.restarts.Add(1)
		defer s.recoverLifecycle(c, nil)
	case *actor.Stopping: // from now on this actor must spawn no child, because no one would stop that child
		s.box.ending = true
		defer s.recoverLifecycle(c, nil)
	case *actor.Stopped:
		defer s.box.retire()
		defer s.recoverLifecycle(c, nil)
	case *actor.Terminated:
		defer s.recoverLifecycle(c, func(crash *Crash) { c.Send(c.Self(), deferredCrash{crash}) })
	case deferredCrash:
		panic(c.Message().(deferredCrash).crash)
	}
	s.Actor.Receive(c)
}

// deferredCrash is a message to self: the actor panicked while it handled a Terminated message.
type deferredCrash struct{ crash *Crash }

// recoverLifecycle recovers a panic in the handler of a lifecycle message. Without this recovery,
// protoactor would skip the rest of its own handling of the message, and an ending actor and its
// parent would never end. recoverLifecycle passes the crash to then, if then is not nil and the
// actor is not ending. In all other cases it passes the crash to Meter.Crashed.
func (s *meteredActor) recoverLifecycle(c actor.Context, then func(*Crash)) {
	p := parallel.Recovered(recover())
	if p == nil {
		return
	}
	crash := &Crash{Kind: s.box.kind, Reason: p.Reason, Stack: p.Stack}
	if then != nil && !s.box.ending {
		then(crash)
		return
	}
	if say := s.box.meter.Crashed; say != nil {
		say(c.Self().GetId(), crash)
	}
}

// retire removes an ended actor's mailbox from the meter and drops the messages in that mailbox.
func (b *mailbox) retire() {
	b.dead.Store(true)
	b.suspended, b.ending = false, false // after this, run drops messages instead of keeping them
	b.meter.unregister(b)
	for x := b.users.take(); x != nil; x = b.users.take() {
		b.waiting.Add(-1)
		b.drop(x.message)
	}
	b.oldest.Store(0)
}
