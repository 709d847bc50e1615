package network

import (
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/net/near"
)

// idlePeriod is the period of ticks of a node without peers. It is a multiple of the periods of
// a tick's tasks.
const idlePeriod = 5 * time.Second

// idleTicker slows the ticks down while the node has no peers, and speeds them up when a
// connection opens. Sandboxes never have peers, and hundreds of them run in one machine.
type idleTicker struct {
	on   atomic.Bool // the goroutine that clears it must wake the actor
	wake func()
}

// begin is called before the peers are read, so that a connection that opens after the read
// wakes the actor.
func (r *idleTicker) begin() { r.on.Store(true) }

// end makes the ticks frequent.
func (r *idleTicker) end() { r.on.Store(false) }

// opened is called for each new connection. Safe for concurrent use.
func (r *idleTicker) opened() {
	if r.on.CompareAndSwap(true, false) {
		r.wake()
	}
}

// period returns the time until the next tick.
func (r *idleTicker) period() time.Duration {
	if r.on.Load() {
		return idlePeriod
	}
	return tickPeriod
}

// isIdle returns whether ticks have nothing to do: there are no peers, none can be dialled, and
// nothing waits for one.
func (a *Actor) isIdle(info *near.Info) bool {
	return info.Alone && !a.o.Status.Awaits && a.o.Receive == nil && a.o.Shards == nil && !a.headersApart &&
		a.bootstrap == nil &&
		!a.sync.Syncing() && len(a.waiting) == 0 && len(a.txs.out) == 0
}
