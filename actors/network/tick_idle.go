package network

import (
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/net/near"
)

// idlePeriod is between the ticks of a node on its own. It divides the periods of what a tick does now and then.
const idlePeriod = 5 * time.Second

// idleTicker tells whether the ticks come seldom, and has them come often again as soon as somebody is there. A sandbox has nobody all its life, and hundreds of
// them run side by side.
type idleTicker struct {
	on   atomic.Bool // whoever finds it on and turns it off owes a tick
	wake func()
}

// begin is called before it is asked who is there: who comes up after the answer was given wakes.
func (r *idleTicker) begin() { r.on.Store(true) }

// end says that the ticks come often.
func (r *idleTicker) end() { r.on.Store(false) }

// opened is told of each connection that comes up, by any goroutine.
func (r *idleTicker) opened() {
	if r.on.CompareAndSwap(true, false) {
		r.wake()
	}
}

// period is how long it is to the next tick.
func (r *idleTicker) period() time.Duration {
	if r.on.Load() {
		return idlePeriod
	}
	return tickPeriod
}

// isIdle tells whether there is nothing for the ticks to do: nobody is there, comes up or could be dialled, and nothing waits that began with somebody.
func (a *Actor) isIdle(info *near.Info) bool {
	return info.Alone && !a.o.Status.Awaits && a.o.Receive == nil && a.o.Shards == nil && !a.headersApart && a.bootstrap == nil &&
		!a.sync.Syncing() && len(a.waiting) == 0 && len(a.txs.out) == 0
}
