package network

import (
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/net/near"
)

// idlePeriod is the time between ticks of a node without peers. idlePeriod is a multiple of the
// periods of all tasks of a tick.
const idlePeriod = 5 * time.Second

// idleTicker makes ticks rare while the node has no peers. A new connection causes a tick at once.
// Sandboxes never have peers, and hundreds of them may run on one machine.
type idleTicker struct {
	on   atomic.Bool // ticks are rare; the goroutine that clears on must call wake
	wake func()
}

// begin makes ticks rare. The actor must call begin before it reads the peers, so that a connection
// that opens after that read causes a tick.
func (r *idleTicker) begin() { r.on.Store(true) }

// end makes ticks frequent again.
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

// isIdle returns whether ticks have no work: there are no peers, there is no peer to dial, and no
// task waits for a peer.
func (a *Actor) isIdle(info *near.Info) bool {
	return info.Alone && !a.o.Status.Awaits && a.o.Validator == nil && a.o.Shards == nil && !a.headersApart &&
		a.bootstrap == nil &&
		!a.sync.Syncing() && len(a.waiting) == 0 && len(a.txs.out) == 0
}
