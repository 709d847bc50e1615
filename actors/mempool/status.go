package mempool

import (
	"sync/atomic"

	"github.com/troupe-chain/troupe/messages"
)

// Status is the state of a pool that others read: counters, and whether it has something to
// offer. Safe for concurrent use.
type Status struct {
	wakeup *Wakeup
	walks  atomic.Uint64 // last walk id; it survives a restart of the actor
	offers atomic.Bool   // something came since the last walk, or the last walk left something
	count  atomic.Int64
	size   atomic.Int64 // bytes
	queued atomic.Int64

	held, heldBytes, compiling atomic.Int64 // parts of count, size
}

// NewStatus returns the status of an empty pool.
func NewStatus(f *Wakeup) *Status { return &Status{wakeup: f} }

// Len is the number of transactions in the pool, Bytes the sum of their sizes, Queued the
// number of unchecked submissions.
func (f *Status) Len() int     { return int(f.count.Load()) }
func (f *Status) Bytes() int64 { return f.size.Load() }
func (f *Status) Queued() int  { return int(f.queued.Load()) }

// Held is the number of transactions in the pool that wait for compilation, HeldBytes the sum
// of their sizes, Compiling the number of codes with the compiler.
func (f *Status) Held() int        { return int(f.held.Load()) }
func (f *Status) HeldBytes() int64 { return f.heldBytes.Load() }
func (f *Status) Compiling() int   { return int(f.compiling.Load()) }

// Idle returns whether the pool is empty. If it is, a later transaction raises a new offer.
func (f *Status) Idle() bool {
	if f.count.Load() != 0 {
		return false
	}
	f.offers.Store(false)
	if f.count.Load() != 0 { // it came meanwhile and may have been offered before the flag was cleared
		f.offers.Store(true)
		return false
	}
	return true
}

// offer announces that the pool has something for a chunk.
func (f *Status) offer() {
	f.offers.Store(true)
	f.wakeup.ring()
}

// Wakeup tells the producer when one of the node's pools gets something to offer. It sends one
// message until the producer has asked HasOffers again. Safe for concurrent use.
type Wakeup struct {
	signalled atomic.Bool
	pools     atomic.Pointer[[]*Status]
	Notify    messages.Sender[messages.TransactionsWaiting]
}

// HasOffers returns whether a pool has something to offer. The next offer after it is
// signalled.
func (f *Wakeup) HasOffers() bool {
	f.signalled.Store(false) // before the check, so that a later offer is signalled
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
