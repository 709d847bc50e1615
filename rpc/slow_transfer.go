package rpc

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// transfer is a large body that comes, or a large reply that goes: until it is over, what it takes
// in memory is not there for others, so who does neither send nor read has to give way to who does.
// A WebSocket may have several: replies that wait behind what its client has not read take no less
// memory than the one that is sent.
type transfer struct {
	began atomic.Int64 // by clock, or when one of several was over; 0: there is none
	last  atomic.Int64 // when bytes moved last
	moved atomic.Int64 // bytes since it began

	mu   sync.Mutex
	open int // transfers
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
		t.restart() // its client has read one
	}
}

// keeps says that a batch waits for the chain with large replies in memory: nothing of it moves, so
// it gives way like a transfer that stands still.
func (c *conn) holdReplies() {
	if c != nil {
		c.transfer.begin()
	}
}

// keepsNot ends what keeps began.
func (c *conn) releaseReplies() {
	if c != nil {
		c.transfer.end()
	}
}

// Of who waits for memory: how long it may take until a slow transfer has given up its own, and how
// often that is looked at.
const (
	slowGiveWayWait = 200 * time.Millisecond
	slowGiveWayPoll = time.Millisecond
)

// fits waits until n more bytes may be in memory; false if only those stand in the way who are not
// slow.
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

// closeSlowest closes the connection with a slow transfer whose address holds most, of such the slowest;
// false if none is slow.
func (d *connLimiter) closeSlowest() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out *conn
	var worst int64 // bytes a second
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
