package mempool

import (
	"sync/atomic"

	"github.com/troupe-chain/troupe/messages"
)

// Status publishes a pool's counters and whether the pool has transactions for a chunk. The actor
// writes the Status; any goroutine may read it.
type Status struct {
	wakeup *Wakeup
	// lastWalk is the id of the last walk (one choice of transactions for a chunk). lastWalk keeps
	// its value when the actor restarts.
	lastWalk atomic.Uint64
	// offers is whether the pool has transactions for the next chunk. These transactions arrived
	// after the last walk began, or that walk left them in the pool.
	offers    atomic.Bool
	count     atomic.Int64 // number of pooled transactions
	unchosen  atomic.Int64 // number of pooled transactions that the chunk for the next block has not taken
	size      atomic.Int64 // total size of pooled transactions in bytes
	queued    atomic.Int64 // number of unchecked submissions
	held      atomic.Int64 // number of pooled transactions that wait for compilation
	heldBytes atomic.Int64 // total size of the transactions that wait for compilation
	compiling atomic.Int64 // number of running compilations
}

// NewStatus returns the status of an empty pool.
func NewStatus(f *Wakeup) *Status { return &Status{wakeup: f} }

// Len returns the number of pooled transactions, Bytes the sum of the pooled transactions' sizes,
// Queued the number of unchecked submissions.
func (f *Status) Len() int     { return int(f.count.Load()) }
func (f *Status) Bytes() int64 { return f.size.Load() }
func (f *Status) Queued() int  { return int(f.queued.Load()) }

// Held returns the number of pooled transactions that wait for compilation, HeldBytes the sum of
// the held transactions' sizes, Compiling the number of running compilations.
func (f *Status) Held() int        { return int(f.held.Load()) }
func (f *Status) HeldBytes() int64 { return f.heldBytes.Load() }
func (f *Status) Compiling() int   { return int(f.compiling.Load()) }

// Idle returns whether the pool has no transactions except those that a chunk has taken and that
// the next block includes. If the result is true, Idle has cleared offers, so that the next
// transaction signals the producer again. The pool may not have handled that block yet.
func (f *Status) Idle() bool {
	if f.unchosen.Load() != 0 {
		return false
	}
	f.offers.Store(false)
	// a transaction arrived just now; Idle may have cleared offers after that transaction had set
	// it
	if f.unchosen.Load() != 0 {
		f.offers.Store(true)
		return false
	}
	return true
}

// offer signals that the pool has transactions for a chunk.
func (f *Status) offer() {
	f.offers.Store(true)
	f.wakeup.ring()
}

// Wakeup signals the producer when one of the node's pools has transactions for a chunk. After a
// signal, it sends no further signal until HasOffers is called. Safe for concurrent use.
type Wakeup struct {
	signalled atomic.Bool
	pools     atomic.Pointer[[]*Status]
	Notify    messages.Sender[messages.TransactionsWaiting]
}

// HasOffers returns whether a pool has transactions for a chunk. The next offer after the call is
// signalled again.
func (f *Wakeup) HasOffers() bool {
	// cleared before the check, so that a transaction that arrives after the check is signalled
	f.signalled.Store(false)
	if list := f.pools.Load(); list != nil {
		for _, p := range *list {
			if p.offers.Load() {
				return true
			}
		}
	}
	return false
}

// SetPools replaces the set of pools.
func (f *Wakeup) SetPools(list []*Status) { f.pools.Store(&list) }

func (f *Wakeup) ring() {
	if f.signalled.CompareAndSwap(false, true) && f.Notify != nil {
		f.Notify(messages.TransactionsWaiting{})
	}
}
