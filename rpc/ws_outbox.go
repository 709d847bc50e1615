package rpc

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// frame is an outgoing message: head, body and tail. Several clients may share the memory of body.
type frame struct {
	head, body, tail []byte
	kind             frameKind
	sent             func() // called when the frame has been sent or discarded; nil: no function
}

type frameKind byte

const (
	textFrame frameKind = iota
	pingFrame
	pongFrame  // head is the payload of the pong
	closeFrame // closeFrame is the last frame; head is its payload
)

func (f *frame) size() int { return len(f.head) + len(f.body) + len(f.tail) }

// outbox is the send queue of one WebSocket. One goroutine sends while the queue is not empty. Safe
// for concurrent use.
type outbox struct {
	send        func(f *frame, more bool) error // writes a frame; more: another frame follows at once
	broken      func()                          // called once, after the first failed write
	refused     func(limits.ID)
	pay         func(work int64) // charges the client for ns of work and may block; nil: no charge
	spent       func(work int64) // adds ns of work that pay did not charge; nil: the work is not counted
	queued      *atomic.Int64    // number of bytes in the queues of all WebSockets
	maxMessages int
	maxBytes    int
	maxQueued   int64

	mu      sync.Mutex
	frames  []frame
	bytes   int // bytes of all queued frames, including the frame being sent
	count   int // number of queued frames, including the frame being sent
	writing bool
	ended   bool // true: the queue accepts no more messages
	waiting []func()
	room    sync.Cond // signalled when put may append a reply again
}

// payFrames is the number of consecutive messages that are charged together.
const payFrames = 64

func newOutbox(send func(f *frame, more bool) error, broken func(), queued *atomic.Int64) *outbox {
	o := &outbox{send: send, broken: broken, queued: queued}
	o.room.L = &o.mu
	return o
}

// lacks returns the limit that has no space for a message of n bytes; limits.Count if there is
// space. An empty queue takes any message. If the queues of all WebSockets together are full, each
// queue still takes as much as a small reply. The caller holds mu.
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

// offer queues a message if there is space, and returns whether there was space. offer never waits.
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

// put waits for space and queues a message. put returns false if the connection is closed.
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

// must queues a small message even if there is no space. Only pings and the ends of subscriptions
// are queued by must; the limits on subscriptions bound their number.
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

// whenRoom calls f once, when a frame has been sent and half of the queue is free. If the queue is
// empty, it calls f at once, because an empty queue takes any message. If half of the queue is
// already free, whenRoom still waits for a frame to be sent: the message that offer rejected may be
// larger than the free half. After end, whenRoom never calls f, because each call would lead to
// another rejected message. f must not wait.
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
	return o.count == 0 ||
		o.count <= o.maxMessages/2 && o.bytes <= o.maxBytes/2 && (o.bytes <= smallReply/2 || o.queued.Load() <= o.maxQueued/2)
}

// flush waits until everything has been sent, at most for most.
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

// idle returns whether everything has been sent.
func (o *outbox) idle() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count == 0
}

// write sends frames until the queue is empty.
func (o *outbox) write() {
	began := clock()
	for n := 1; ; n++ {
		// pay may block, so that one WebSocket with many messages does not keep a core for long.
		if n%payFrames == 0 && o.pay != nil {
			o.pay(clock() - began)
			began = clock()
		}
		o.mu.Lock()
		if len(o.frames) == 0 {
			o.frames, o.writing = nil, false
			o.room.Broadcast()
			o.mu.Unlock()
			if o.spent != nil {
				o.spent(clock() - began)
			}
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

// left counts a frame that has been sent.
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

// fail drops all frames, after a write has failed. No writer starts after fail.
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

// settle waits until the writer has stopped. The caller has closed the connection and is about to
// reuse the connection's buffers.
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

// end makes the queue reject further messages and releases the replies that wait in put. end drops
// the callbacks of whenRoom, because the queue takes no message any more.
func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended, o.waiting = true, nil
	o.room.Broadcast()
}
