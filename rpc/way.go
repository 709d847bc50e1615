package rpc

import (
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// transfer is a large body that comes, or a large reply that goes: until it is over, what it takes in memory is not there for
// others, so who does neither send nor read has to give way to who does.
type transfer struct {
	began atomic.Int64 // ns; 0: there is none
	last  atomic.Int64 // ns, when bytes moved last
	moved atomic.Int64 // bytes since it began
}

func (t *transfer) begin() {
	now := time.Now().UnixNano()
	t.moved.Store(0)
	t.last.Store(now)
	t.began.Store(now)
}

func (t *transfer) move(n int) {
	if n > 0 && t.began.Load() != 0 {
		t.moved.Add(int64(n))
		t.last.Store(time.Now().UnixNano())
	}
}

func (t *transfer) end() { t.began.Store(0) }

// Of a transfer that others wait for: how long it may be slow, and what slow is.
const (
	slowAfter = time.Second
	slowRate  = 1 << 20 // bytes a second
	wayWait   = 200 * time.Millisecond
	wayLook   = time.Millisecond
)

// fits waits until n more bytes may be in memory; false if only those stand in the way who are not slow.
func (d *door) fits(n int64) bool {
	most := int64(min(d.limits.InFlight, 1<<62))
	for d.inFlight.Load()+n > most {
		if !d.giveWay() {
			return false
		}
		for end := time.Now().Add(wayWait); d.inFlight.Load()+n > most && time.Now().Before(end); {
			time.Sleep(wayLook)
		}
	}
	return true
}

// giveWay closes the connection with a slow transfer whose address holds most, of such the slowest; false if none is slow.
func (d *door) giveWay() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out *conn
	var worst int64 // bytes a second
	now := time.Now().UnixNano()
	for c := range d.conns {
		began := c.transfer.began.Load()
		took := now - began
		if began == 0 || took < int64(slowAfter) {
			continue
		}
		rate := int64(float64(c.transfer.moved.Load()) / (float64(took) / 1e9))
		if now-c.transfer.last.Load() >= int64(slowAfter) {
			rate = 0
		}
		if rate >= slowRate {
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
	d.strike(out)
	_ = out.Conn.Close()
	return true
}
