package rpc

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// replyQueue is the queue of large replies that wait for memory.
//
// Problem: one block may end thousands of waits for the same transaction. All their replies are due
// at once. The replies are made from one text, but together they would exceed max_bytes_in_flight.
//
// Invariants: a queued reply holds no turn and no buffer. A queued reply holds only its view.Shown,
// which all replies about the same transaction share. The texts of all queued replies have at most
// maxTexts bytes. A reply of at most smallReply bytes is never queued.
//
// Outline: connLimiter.awaitMemory enqueues the reply. One goroutine (admitReplies) runs while the
// queue is not empty. This goroutine is notified when a large reply has been sent (conn.give), and
// polls for slow transfers to close. It admits replies first come, first served. If there is no
// memory for a reply, or its address has reached its limit, the goroutine skips the reply. So a
// client that needs most of the memory does not block the replies of other clients.
//
// Rejected: rejecting replies while memory is full. Clients would retry at once, although the
// transaction that they wait for has been executed.
type replyQueue struct {
	mu    sync.Mutex
	list  list.List             // queued replies (*queuedReply), oldest first
	texts map[*view.Shown]*text // data from which queued replies are made
	bytes int64                 // total size of texts in bytes
	freed chan struct{}         // signals that memory may be available
	runs  bool                  // the goroutine of admitReplies is running
}

// maxTexts is the maximum size of the data from which the queued replies are made, in bytes. If
// queueing a reply would exceed maxTexts and there is no memory for the reply, the node rejects the
// reply.
const maxTexts = 32 << 20

// slowTransferPoll is the interval at which admitReplies looks for slow transfers to close.
const slowTransferPoll = 100 * time.Millisecond

type text struct {
	users int
	bytes int64
}

// queuedReply is a reply that waits for memory.
type queuedReply struct {
	conn  *conn
	of    *client
	n     int64
	ready chan struct{}
}

// awaitMemory waits until n more bytes may be in memory, and counts these bytes. It waits at most
// until the context ends. full is the limit that has no space, or limits.Count if the bytes were
// counted. shown identifies the text that the reply shows; nil if no other reply shows it. While
// the reply waits, that text and the data behind it stay in memory and count as 2n bytes of
// maxTexts. awaitMemory does not wait if the reply can never fit or would exceed maxTexts.
func (d *connLimiter) awaitMemory(ctx context.Context, c *conn, of *client, n int64, shown *view.Shown) (full limits.ID) {
	r := &d.replies
	r.mu.Lock()
	if full = d.lacks(of, n); full == limits.Count && r.list.Len() == 0 {
		c.book(of, n)
		r.mu.Unlock()
		return full
	}
	if most, holds := of.most(d.live.Load().AddressInFlight); holds && n > most || n > int64(min(d.limits.InFlight, 1<<62)) ||
		!r.hold(shown, 2*n) {
		r.mu.Unlock() // the reply exceeds a limit by itself, or the queue is full
		return c.take(of, n)
	}
	g := &queuedReply{c, of, n, make(chan struct{})}
	at := r.list.PushBack(g)
	if !r.runs {
		r.runs = true
		go d.admitReplies()
	}
	r.mu.Unlock()
	r.notify() // this reply may fit although replies that were queued before it wait for the limit of their address
	select {
	case <-g.ready:
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release(shown)
	select {
	case <-g.ready:
		return limits.Count
	default:
	}
	r.list.Remove(at)
	if full = d.lacks(of, n); full == limits.Count {
		full = limits.MaxInFlight // the memory became available after the wait had ended
	}
	d.refused[full].Add(1)
	return full
}

// hold counts n bytes for the text that a queued reply shows. hold returns false if the queued
// replies would then exceed maxTexts.
func (r *replyQueue) hold(shown *view.Shown, n int64) bool {
	if shown == nil {
		return true
	}
	t := r.texts[shown]
	if t == nil {
		if r.bytes+n > maxTexts {
			return false
		}
		if r.texts == nil {
			r.texts = map[*view.Shown]*text{}
		}
		t = &text{bytes: n}
		r.texts[shown] = t
		r.bytes += n
	}
	t.users++
	return true
}

func (r *replyQueue) release(shown *view.Shown) {
	if shown == nil {
		return
	}
	t := r.texts[shown]
	if t.users--; t.users == 0 {
		delete(r.texts, shown)
		r.bytes -= t.bytes
	}
}

// notify makes admitReplies check the queue, because there may be memory now.
func (r *replyQueue) notify() {
	select {
	case r.freed <- struct{}{}:
	default: // a notification is pending already
	}
}

// waiting returns the number of queued replies, and the bytes of the data from which the queued
// replies are made.
func (r *replyQueue) waiting() (n int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list.Len(), r.bytes
}

// admitReplies admits queued replies until none is left.
func (d *connLimiter) admitReplies() {
	r := &d.replies
	tick := time.NewTicker(slowTransferPoll)
	defer tick.Stop()
	for {
		select {
		case <-r.freed:
		case <-tick.C:
		}
		r.mu.Lock()
		blocked, passed := false, false
		for at := r.list.Front(); at != nil; {
			if blocked = d.full(); blocked {
				break
			}
			g, next := at.Value.(*queuedReply), at.Next()
			switch d.lacks(g.of, g.n) {
			case limits.Count:
				r.list.Remove(at)
				g.conn.book(g.of, g.n)
				close(g.ready)
			case limits.MaxInFlight:
				passed = true // this reply stays queued while replies behind it may be admitted
			}
			at = next
		}
		if r.list.Len() == 0 {
			r.runs = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		if blocked || passed {
			d.closeSlowest()
		}
	}
}
