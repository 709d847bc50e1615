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
// at once, and each would be refused or would exceed max_bytes_in_flight, although all are made
// from one text.
//
// Invariants: a queued reply holds no turn and no buffer, only its view.Shown, which all replies of
// the same transaction share. The texts of all queued replies are at most maxTexts. A reply of
// smallReply bytes or less is never queued.
//
// Outline: connLimiter.awaitMemory enqueues the reply. One goroutine (admitReplies) runs while the
// queue is not empty; it is notified when a large reply has left (conn.give), and polls for slow
// transfers to close. Replies are admitted first come, first served, but one for which there is no
// room, or whose address has none, is passed over, so that a client that wants most of the memory
// does not block the others.
//
// Rejected: refusing replies when memory is full. Clients would retry at once, and the transaction
// they wait for has been executed.
type replyQueue struct {
	mu    sync.Mutex
	list  list.List             // of *queuedReply, oldest first
	texts map[*view.Shown]*text // the texts that queued replies show
	bytes int64                 // of texts, with what they are made of
	freed chan struct{}         // notified when a large reply has left
	runs  bool                  // the goroutine runs
}

// maxTexts bounds the bytes of the data from which the queued replies are made. A reply that
// exceeds it is not queued, and is refused if there is no memory for it.
const maxTexts = 32 << 20

// slowTransferPoll is how long no reply may leave before slow transfers are looked for.
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

// awaitMemory waits until n more bytes may be in memory, at most until the context ends, and counts
// them. full is the limit that did not allow it, or limits.Count if there was room. shown
// identifies the text that the reply shows, nil if it shares none. While the reply waits, that text
// and its source stay in memory and count as 2n bytes of maxTexts. A reply that can never fit, or
// that exceeds maxTexts, does not wait.
func (d *connLimiter) awaitMemory(ctx context.Context, c *conn, of *client, n int64, shown *view.Shown) (full limits.ID) {
	r := &d.replies
	r.mu.Lock()
	if full = d.lacks(of, n); full == limits.Count && r.list.Len() == 0 {
		c.book(of, n)
		r.mu.Unlock()
		return full
	}
	if most, holds := of.most(d.live.Load().AddressInFlight); holds && n > most || n > int64(min(d.limits.InFlight, 1<<62)) || !r.hold(shown, 2*n) {
		r.mu.Unlock() // it can never fit, or too much is queued
		return c.take(of, n)
	}
	g := &queuedReply{c, of, n, make(chan struct{})}
	at := r.list.PushBack(g)
	if !r.runs {
		r.runs = true
		go d.admitReplies()
	}
	r.mu.Unlock()
	r.notify() // there may be room while earlier ones wait for their address's limit
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
		full = limits.MaxInFlight // freed since the wait ended
	}
	d.refused[full].Add(1)
	return full
}

// hold counts the text that a queued reply shows. It returns false if maxTexts would be exceeded.
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

// notify wakes the goroutine: there may be room.
func (r *replyQueue) notify() {
	select {
	case r.freed <- struct{}{}:
	default: // it is notified already, or does not run
	}
}

// waiting returns how many replies wait, and how many bytes the data has from which they are made.
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
				passed = true // by later replies
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
