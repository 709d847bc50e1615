package rpc

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// frame is a message on its way to a client: its pieces, of which the middle one may be that of
// many clients.
type frame struct {
	head, body, tail []byte
	kind             frameKind
	sent             func() // called when it has left, or will not; nil: nobody asks
}

type frameKind byte

const (
	textFrame frameKind = iota
	pingFrame
	pongFrame  // head is its payload
	closeFrame // the last one; head is its payload
)

func (f *frame) size() int { return len(f.head) + len(f.body) + len(f.tail) }

// outbox is what is to be sent on one WebSocket. One goroutine sends, which is there as long as
// there is something.
type outbox struct {
	send        func(f *frame, more bool) error // more: another one follows at once
	broken      func()                          // called once: nothing can be sent any more
	refused     func(limits.ID)
	pay         func(work int64) // of many messages in a row, ns; nil: nobody has to
	queued      *atomic.Int64    // bytes, of all outboxes
	maxMessages int
	maxBytes    int
	maxQueued   int64

	mu      sync.Mutex
	frames  []frame
	bytes   int // of frames, and of the one that is being sent
	count   int // the same
	writing bool
	ended   bool // no more is taken
	waiting []func()
	room    sync.Cond // of replies that wait
}

// payFrames is how many messages are sent in a row before their work is paid.
const payFrames = 64

func newOutbox(send func(f *frame, more bool) error, broken func(), queued *atomic.Int64) *outbox {
	o := &outbox{send: send, broken: broken, queued: queued}
	o.room.L = &o.mu
	return o
}

// lacks is the limit by which there is no room for a message of n bytes, limits.Count if there is.
// An empty queue takes any, and where all queues together are full, one takes as much as a small
// reply. The lock is held.
func (o *outbox) lacks(n int) limits.ID {
	switch {
	case o.count == 0:
	case o.count >= o.maxMessages:
		return limits.MaxQueueMessages
	case o.bytes+n > o.maxBytes:
		return limits.MaxQueueBytes
	case o.bytes+n > smallReply && o.queued.Load()+int64(n) > o.maxQueued:
		return limits.MaxQueuedBytes
	}
	return limits.Count
}

func (o *outbox) makeRoom(n int) bool { return o.lacks(n) == limits.Count }

// offer takes a message if there is room; it never waits.
func (o *outbox) offer(f frame) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return false
	}
	if why := o.lacks(f.size()); why != limits.Count {
		o.refused(why)
		return false
	}
	o.push(f)
	return true
}

// put waits until there is room for a message; false: the connection is gone.
func (o *outbox) put(f frame) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for !o.ended && !o.makeRoom(f.size()) {
		o.room.Wait()
	}
	if o.ended {
		return false
	}
	o.push(f)
	return true
}

// must takes a small message that always has room: a ping, the end of a subscription, of which
// there are so many as subscriptions.
func (o *outbox) must(f frame) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ended {
		o.push(f)
		if f.kind == closeFrame {
			o.ended, o.waiting = true, nil
		}
	}
}

func (o *outbox) push(f frame) {
	o.frames = append(o.frames, f)
	o.bytes += f.size()
	o.count++
	o.queued.Add(int64(f.size()))
	if !o.writing {
		o.writing = true
		go o.write()
	}
}

// whenRoom calls f once, when something has left and half of the queue is free again; at once if
// there is nothing in it, since an empty queue takes anything. What was refused may be larger than
// that half, so that it is free already says nothing. One that has ended never has room again, and
// says nothing: who is told of room and refused, and told again, would go round for as long as the
// last words take. f must not wait.
func (o *outbox) whenRoom(f func()) {
	o.mu.Lock()
	switch {
	case o.ended:
	case o.count > 0:
		o.waiting = append(o.waiting, f)
	default:
		o.mu.Unlock()
		f()
		return
	}
	o.mu.Unlock()
}

func (o *outbox) roomy() bool {
	return o.count == 0 || o.count <= o.maxMessages/2 && o.bytes <= o.maxBytes/2 && (o.bytes <= smallReply/2 || o.queued.Load() <= o.maxQueued/2)
}

// flush waits until all has been sent, so long at most.
func (o *outbox) flush(most time.Duration) {
	late := false
	timer := time.AfterFunc(most, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		late = true
		o.room.Broadcast()
	})
	defer timer.Stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.count > 0 && !late {
		o.room.Wait()
	}
}

// idle tells whether all has been sent.
func (o *outbox) idle() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count == 0
}

// write sends until there is nothing more.
func (o *outbox) write() {
	began := clock()
	for n := 1; ; n++ {
		if n%payFrames == 0 && o.pay != nil { // where the socket has room for all, one writer would run for long
			o.pay(clock() - began)
			began = clock()
		}
		o.mu.Lock()
		if len(o.frames) == 0 {
			o.frames, o.writing = nil, false
			o.room.Broadcast()
			o.mu.Unlock()
			return
		}
		f := o.frames[0]
		o.frames[0] = frame{}
		o.frames = o.frames[1:]
		more := len(o.frames) > 0
		o.mu.Unlock()
		err := o.send(&f, more)
		f.done()
		o.left(&f)
		if err != nil {
			o.fail()
			return
		}
	}
}

// endSessions counts a message that has been sent.
func (o *outbox) left(f *frame) {
	o.mu.Lock()
	o.bytes -= f.size()
	o.count--
	o.queued.Add(-int64(f.size()))
	var calls []func()
	if o.roomy() {
		calls, o.waiting = o.waiting, nil
	}
	o.room.Broadcast()
	o.mu.Unlock()
	for _, call := range calls {
		call()
	}
}

// fail drops what can't be sent any more. There is no other writer after it.
func (o *outbox) fail() {
	o.mu.Lock()
	o.ended = true
	dropped := o.frames
	o.frames = nil
	o.queued.Add(-int64(o.bytes))
	o.bytes, o.count = 0, 0
	o.mu.Unlock()
	for i := range dropped {
		dropped[i].done()
	}
	o.end()
	o.broken()
	o.mu.Lock()
	o.writing = false
	o.room.Broadcast()
	o.mu.Unlock()
}

// settle waits until nobody sends any more: the connection is cut, and what it is made of is about
// to be another's.
func (o *outbox) settle() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.writing {
		o.room.Wait()
	}
}

func (f *frame) done() {
	if f.sent != nil {
		f.sent()
		f.sent = nil
	}
}

// end takes no more and lets the replies go that wait. Who waits to be told of room is not: there
// will be none.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended, o.waiting = true, nil
	o.room.Broadcast()
}
