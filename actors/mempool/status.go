package mempool

import (
	"sync/atomic"

	"github.com/troupe-chain/troupe/messages"
)

// Status is what others see of a pool: counters that its actor keeps, and whether it has something to offer.
type Status struct {
	wakeup  *Wakeup
	walks  atomic.Uint64 // names of choices, also of an actor that has failed
	offers atomic.Bool   // something came since the last choice, or the last choice left something that may be taken
	count  atomic.Int64
	size   atomic.Int64 // bytes
	queued atomic.Int64

	held, heldBytes, compiling atomic.Int64 // of the pool
}

// NewStatus returns the front of an empty pool.
func NewStatus(f *Wakeup) *Status { return &Status{wakeup: f} }

// Len is the number of transactions in the pool, Bytes the sum of their sizes, Queued the number of those that nobody has looked
// at.
func (f *Status) Len() int     { return int(f.count.Load()) }
func (f *Status) Bytes() int64 { return f.size.Load() }
func (f *Status) Queued() int  { return int(f.queued.Load()) }

// Held is the number of transactions in the pool whose code is not compiled, HeldBytes the sum of their sizes, Compiling the number
// of those of them that the compiler is at work for.
func (f *Status) Held() int        { return int(f.held.Load()) }
func (f *Status) HeldBytes() int64 { return f.heldBytes.Load() }
func (f *Status) Compiling() int   { return int(f.compiling.Load()) }

// Idle tells whether nothing waits at all; what comes after that is offered again.
func (f *Status) Idle() bool {
	if f.count.Load() != 0 {
		return false
	}
	f.offers.Store(false)
	if f.count.Load() != 0 { // it came meanwhile, and may have been offered before that
		f.offers.Store(true)
		return false
	}
	return true
}

// offer says that the pool has something for a chunk.
func (f *Status) offer() {
	f.offers.Store(true)
	f.wakeup.ring()
}

// Wakeup tells the producer when one of a node's pools gets something to offer.
type Wakeup struct {
	signalled   atomic.Bool
	pools atomic.Pointer[[]*Status]
	Notify   messages.Sender[messages.TransactionsWaiting]
}

// HasOffers tells whether a pool has something to offer; from now on the next that gets something says so.
func (f *Wakeup) HasOffers() bool {
	f.signalled.Store(false) // before the look, so that what comes after it is told
	if list := f.pools.Load(); list != nil {
		for _, p := range *list {
			if p.offers.Load() {
				return true
			}
		}
	}
	return false
}

// SetPools replaces the fronts.
func (f *Wakeup) SetPools(list []*Status) { f.pools.Store(&list) }

func (f *Wakeup) ring() {
	if f.signalled.CompareAndSwap(false, true) && f.Notify != nil {
		f.Notify(messages.TransactionsWaiting{})
	}
}
