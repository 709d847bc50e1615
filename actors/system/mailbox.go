package system

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Answerable is a message whose sender waits for an answer. Failed answers it when nobody else will.
type Answerable interface{ Failed(error) }

// Crash is a panic of an actor, with the stack of where it happened: what its supervisor gets as the reason.
type Crash struct {
	Kind   string // of the actor
	Reason any
	Stack  []byte
}

// processStart is what times count from: a look at the monotonic clock alone takes half as long as one at both.
var processStart = time.Now()

// clock is the time in ns, never 0.
func clock() int64 { return int64(time.Since(processStart)) | 1 }

// item is a message on its way.
type item struct {
	next    atomic.Pointer[item]
	message any
	at      int64 // when it was posted; 0: a system message
}

// queue is a list with many writers and one reader: a writer takes the end, and then links what was the end to what it brings.
type queue struct {
	end   atomic.Pointer[item]
	first *item // the reader's: what was taken last
}

func (q *queue) init() {
	q.first = new(item)
	q.end.Store(q.first)
}

func (q *queue) put(x *item) { q.end.Swap(x).next.Store(x) }

// take returns the first item, nil if there is none.
func (q *queue) take() *item {
	x := q.first.next.Load()
	if x != nil {
		q.first = x
	}
	return x
}

// mailbox is the mailbox of one actor, and keeps account of it. The actor's messages are handled one after the other, in the order in
// which they came, system messages first.
type mailbox struct {
	kind  string
	id    string // of its actor, from whose start on it is in the meter; under the meter's mu
	meter *Meter
	count *Counter     // from the actor's start on
	done  atomic.Int64 // messages that were handled

	users, system queue
	waiting, sys  atomic.Int64
	started       atomic.Bool // its actor has its name, and the message that it has been started is in here
	scheduled     atomic.Bool
	suspended     bool        // by the supervisor, until it has decided
	ending        bool        // the actor stops: it may wait for its children, and handles nothing of what comes meanwhile
	dead          atomic.Bool // the actor has ended: what comes is answered for and dropped

	oldest atomic.Int64 // when the first of those that wait was posted; 0: none
	busy   atomic.Int64 // since when a message is being handled; 0: none is
	reported   int64        // the watchdog's: of what it has spoken

	invoker    actor.MessageInvoker
	dispatcher actor.Dispatcher
	bounded        bool   // its dispatcher is one for many: who has had his time goes to the end of what is woken
	work       func() // process
}

// timeSlice is how long an actor works through its mailbox before it gives way to others. It is a time and not a number of messages: where thousands of goroutines want the
// processor, who takes messages of all of them gets so much of it at a time, and some hundred small messages would be next to nothing.
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

// Start is part of actor.Mailbox. Who knows the actor's name may have sent it messages since it has that, before it could take any.
func (b *mailbox) Start() {
	b.started.Store(true)
	b.schedule()
}

// UserMessageCount is part of actor.Mailbox.
func (b *mailbox) UserMessageCount() int { return int(b.waiting.Load()) }

// PostUserMessage takes a message, from any goroutine.
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

// PostSystemMessage takes a message of protoactor's own, from any goroutine.
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

// process handles what there is. Whoever posts after it has looked for the last time schedules it again.
func (b *mailbox) process() {
	for {
		some, over := b.run()
		if over { // it stays scheduled
			b.dispatcher.Schedule(b.work)
			return
		}
		if !some { // a writer has taken its place and not put its message there yet: it needs the processor more than this
			runtime.Gosched()
		}
		held := b.systemOnly() // scheduled is false from here on: another goroutine may be the reader
		b.scheduled.Store(false)
		if b.sys.Load() == 0 && (held || b.waiting.Load() == 0) || !b.scheduled.CompareAndSwap(false, true) {
			return
		}
	}
}

// systemOnly tells whether only system messages are handled.
func (b *mailbox) systemOnly() bool { return b.suspended || b.ending }

// run handles messages until there are none, or until one of them panics, and tells whether there were any; over: its time is, on a goroutine that others wait for.
func (b *mailbox) run() (some, over bool) {
	var m any
	defer func() {
		if r := recover(); r != nil {
			some = true
			b.end(clock())
			c, ok := r.(*Crash)
			if !ok {
				c = &Crash{Kind: b.kind, Reason: r, Stack: debug.Stack()}
			}
			if q, ok := m.(Answerable); ok {
				q.Failed(ErrFailed)
			}
			b.invoker.EscalateFailure(c, m)
		}
	}()
	now, from := int64(0), clock() // 0: it must be looked at
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
		if next := x.next.Load(); next != nil { // a writer that comes later than this look sees the 0
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

// end notes that a message is done with.
func (b *mailbox) end(now int64) int64 {
	if from := b.busy.Swap(0); from != 0 && b.count != nil {
		b.count.handled.add(now - from)
		b.done.Add(1)
	}
	return now
}

// drop answers for a message that nobody will handle.
func (b *mailbox) drop(m any) {
	b.meter.Dropped(b.kind, b.count, m)
}

// meteredActor is an actor with its account.
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
	case *actor.Stopping: // a child that is made from here on would not be stopped
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

// deferredCrash is a note to self: the actor has failed at what was no message of ours.
type deferredCrash struct{ crash *Crash }

// recoverLifecycle ends a panic at what protoactor says of an actor's life, as protoactor goes on behind that: an actor that is ending would
// stay for ever, and its parent with it. then decides what becomes of one that is not ending.
func (s *meteredActor) recoverLifecycle(c actor.Context, then func(*Crash)) {
	r := recover()
	if r == nil {
		return
	}
	crash := &Crash{Kind: s.box.kind, Reason: r, Stack: debug.Stack()}
	if then != nil && !s.box.ending {
		then(crash)
		return
	}
	if say := s.box.meter.Crashed; say != nil {
		say(c.Self().GetId(), crash)
	}
}

// retire ends the account of an actor that has ended.
func (b *mailbox) retire() {
	b.dead.Store(true)
	b.suspended, b.ending = false, false // what comes yet is dropped
	b.meter.unregister(b)
	for x := b.users.take(); x != nil; x = b.users.take() {
		b.waiting.Add(-1)
		b.drop(x.message)
	}
	b.oldest.Store(0)
}
