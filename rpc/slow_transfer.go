package rpc

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// transfer measures a large body that is being received, or a large reply that is being sent. The
// memory of the body or reply is unavailable to other requests until the transfer ends.
//
// Problem: max_bytes_in_flight bounds the memory of all bodies and replies. A few clients could
// hold all of that memory: each announces a large body and does not send it, or does not read a
// large reply.
//
// Invariant: a transfer that is slower than SlowRate never holds memory that another request needs
// for longer than SlowAfter.
//
// Outline: a connection counts the bytes that it receives and sends. When memory is short
// (makeRoom), closeSlowest closes the connection of a slow transfer. Nothing is closed while there
// is enough memory. A batch that waits for the chain with replies in memory counts as a transfer
// without progress (holdReplies). A WebSocket may have several transfers: replies that are queued
// for a client that does not read take as much memory as the reply that is being sent.
//
// Rejected: a minimum rate for all transfers. It would cut off clients on slow links that harm no
// other client.
type transfer struct {
	began atomic.Int64 // value of clock() at the start of the oldest transfer under way; 0: none
	last  atomic.Int64 // value of clock() when bytes were last transferred
	moved atomic.Int64 // number of bytes transferred since began

	mu   sync.Mutex
	open int // number of transfers under way
}

func (t *transfer) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open++; t.open == 1 {
		t.restart()
	}
}

func (t *transfer) restart() {
	now := clock()
	t.moved.Store(0)
	t.last.Store(now)
	t.began.Store(now)
}

func (t *transfer) move(n int) {
	if n > 0 && t.began.Load() != 0 {
		t.moved.Add(int64(n))
		t.last.Store(clock())
	}
}

func (t *transfer) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open--; t.open == 0 {
		t.began.Store(0)
	} else {
		t.restart() // the end of one reply shows that the client reads
	}
}

// holdReplies is called when a batch begins to wait for the chain while large replies of the batch
// are in memory. Until releaseReplies, the connection counts as a slow transfer. c may be nil.
func (c *conn) holdReplies() {
	if c != nil {
		c.transfer.begin()
	}
}

// releaseReplies ends the transfer that holdReplies began.
func (c *conn) releaseReplies() {
	if c != nil {
		c.transfer.end()
	}
}

// slowGiveWayWait is how long a request that needs memory waits until a closed transfer has
// released its memory. slowGiveWayPoll is the interval at which the request checks.
const (
	slowGiveWayWait = 200 * time.Millisecond
	slowGiveWayPoll = time.Millisecond
)

// makeRoom returns whether n more bytes may be in memory. makeRoom closes slow transfers until the
// bytes fit. It returns false if the bytes do not fit and no slow transfer is left.
func (d *connLimiter) makeRoom(n int64) bool {
	most := int64(min(d.limits.InFlight, 1<<62))
	for d.inFlight.Load()+n > most {
		if !d.closeSlowest() {
			return false
		}
		for end := time.Now().Add(slowGiveWayWait); d.inFlight.Load()+n > most && time.Now().Before(end); {
			time.Sleep(slowGiveWayPoll)
		}
	}
	return true
}

// closeSlowest closes the connection of a slow transfer. Among the slow transfers, it chooses the
// address that holds most memory, and of that address the slowest transfer. closeSlowest returns
// false if no transfer is slow.
func (d *connLimiter) closeSlowest() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out *conn
	var worst int64 // bytes per second of the slowest transfer
	now, after := clock(), int64(d.limits.SlowAfter)
	for c := range d.conns {
		began := c.transfer.began.Load()
		took := now - began
		if began == 0 || took < after {
			continue
		}
		rate := int64(float64(c.transfer.moved.Load()) / (float64(took) / 1e9))
		if now-c.transfer.last.Load() >= after {
			rate = 0
		}
		if rate >= int64(d.limits.SlowRate) {
			continue
		}
		if out == nil || c.client.inFlight.Load() > out.client.inFlight.Load() ||
			c.client == out.client && rate < worst {
			out, worst = c, rate
		}
	}
	if out == nil {
		return false
	}
	d.refused[limits.MaxInFlight].Add(1)
	if worst == 0 {
		d.refused[limits.SlowTime].Add(1)
	} else {
		d.refused[limits.SlowRate].Add(1)
	}
	d.remove(out)
	hangUp(out.Conn)
	return true
}
