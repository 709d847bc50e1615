package rpc

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/rpc/limits"
)

// replies are large replies that wait until there is room for them in memory: a block ends thousands
// of waits for one transaction at the same moment, and what it takes to make all their replies is
// one text, so that none need be refused who can be told a moment later. First come, first served,
// but for those for whom there is no room, or whose address has none: of those the next ones do not
// wait, so that one who wants most of the memory keeps nobody else from the rest.
type replyQueue struct {
	mu    sync.Mutex
	list  list.List             // of *guest
	texts map[*view.Shown]*text // that they are to show
	bytes int64                 // of those, with what they are made of
	freed chan struct{}         // rung when a large reply has gone
	runs  bool                  // there is a goroutine
}

// maxTexts bounds what replies are made of that wait for room, bytes. Whose is not among it is
// refused where there is none.
const maxTexts = 32 << 20

// slowTransferPoll is how long nothing need go until it is looked whether somebody slow stands in the way.
const slowTransferPoll = 100 * time.Millisecond

type text struct {
	users int
	bytes int64
}

// queuedReply is a reply that waits.
type queuedReply struct {
	conn  *conn
	of    *client
	n     int64
	ready chan struct{}
}

// await waits until there is room for n more bytes, at most until the context ends; full is the
// limit that has not allowed it till then. shown is what they are to show, twice as many bytes that
// are there already; nil: nothing is.
func (d *connLimiter) awaitMemory(ctx context.Context, c *conn, of *client, n int64, shown *view.Shown) (full limits.ID) {
	r := &d.replies
	r.mu.Lock()
	if full = d.lacks(of, n); full == limits.Count && r.list.Len() == 0 {
		c.book(of, n)
		r.mu.Unlock()
		return full
	}
	if most, holds := of.most(d.live.Load().AddressInFlight); holds && n > most || n > int64(min(d.limits.InFlight, 1<<62)) || !r.hold(shown, 2*n) {
		r.mu.Unlock() // there never is, or too much waits
		return c.take(of, n)
	}
	g := &queuedReply{c, of, n, make(chan struct{})}
	at := r.list.PushBack(g)
	if !r.runs {
		r.runs = true
		go d.admitReplies()
	}
	r.mu.Unlock()
	r.notify() // there may be room behind those whose address has none
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
		full = limits.MaxInFlight // it has just become free
	}
	d.refused[full].Add(1)
	return full
}

// hold counts what a reply is made of; false: it is more than may wait.
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

// ring says that there may be room.
func (r *replyQueue) notify() {
	select {
	case r.freed <- struct{}{}:
	default: // it is known, or nobody waits
	}
}

// waiting is how many wait, and the bytes of what they are made of.
func (r *replyQueue) waiting() (n int, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list.Len(), r.bytes
}

// letIn lets in who waits, until nobody does.
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
				passed = true // by those behind him
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
