// Package mempool is the shell of package chain/mempool: a pool behind a lock, and the actor that keeps it in step with the
// chain.
//
//	in      Add, Find, Choose: from any goroutine, no mailbox; BlockAdopted, ProduceChunk: messages
//	out     TransactionsWaiting to the producer, TransactionsDropped to milestones, ProduceChunk to the chunk-producer
//	state   Pool
//	units   as chain/mempool has them
//	bound   chain/mempool's Limits; no lock is held longer than one step of a choice
//	errors  chain/mempool's
//	source  our own; nearcore's pool lies behind one mutex too
package mempool

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	core "github.com/troupe-chain/troupe/chain/mempool"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// Pool is one shard's pool, safe for concurrent use.
type Pool struct {
	mu     sync.Mutex
	core   *core.Pool
	closed bool // its shard is gone, or not there yet on this branch
	// chosen is what the last chunk took: it is offered again if the next block does not include it.
	chosen []primitives.Hash

	early early

	fresh  *Fresh
	offers atomic.Bool // something came since the last choice, or the last choice left something that may be taken
	count  atomic.Int64
	size   atomic.Int64 // bytes
}

// Fresh tells the producer when one of a node's pools gets something to offer.
type Fresh struct {
	told  atomic.Bool
	pools atomic.Pointer[[]*Pool]
	Tell  messages.Sender[messages.TransactionsWaiting]
}

// Any tells whether a pool has something to offer; from now on the next that gets something says so.
func (f *Fresh) Any() bool {
	f.told.Store(false) // before the look, so that what comes after it is told
	if list := f.pools.Load(); list != nil {
		for _, p := range *list {
			if p.offers.Load() {
				return true
			}
		}
	}
	return false
}

// SetPools replaces the pools.
func (f *Fresh) SetPools(list []*Pool) { f.pools.Store(&list) }

func (f *Fresh) ring() {
	if f.told.CompareAndSwap(false, true) && f.Tell != nil {
		f.Tell(messages.TransactionsWaiting{})
	}
}

// New wraps a pool. overtook tells by the head's state whether a transaction's nonce is ahead of its key's next; nil: none
// waits for its turn.
func New(p *core.Pool, fresh *Fresh, overtook func(*primitives.SignedTransaction) bool) *Pool {
	return &Pool{core: p, fresh: fresh, early: early{overtook: overtook, until: map[primitives.Hash]time.Time{}}}
}

// Len is the number of transactions, Bytes the sum of their sizes. They take no lock.
func (p *Pool) Len() int     { return int(p.count.Load()) }
func (p *Pool) Bytes() int64 { return p.size.Load() }

// counted notes the sizes; the caller holds the lock.
func (p *Pool) counted() {
	p.count.Store(int64(p.core.Len()))
	p.size.Store(int64(p.core.Bytes()))
}

// ErrMoved says that a pool's shard has been split: its transactions are in other pools now.
var ErrMoved = errors.New("mempool: the shard has been split")

// Add takes a transaction that has been checked; base is the height of the block it refers to. ErrMoved.
func (p *Pool) Add(tx *primitives.SignedTransaction, base primitives.Height) (added bool, err error) {
	overtook := p.early.overtook != nil && p.early.overtook(tx)
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return false, ErrMoved
	}
	if added, err = p.core.Add(tx, base); added {
		p.counted()
	}
	held := added && overtook && p.hold(tx)
	p.mu.Unlock()
	if added && !held {
		p.offer()
	}
	return added, err
}

// offer says that the pool has something for a chunk.
func (p *Pool) offer() {
	p.offers.Store(true)
	p.fresh.ring()
}

// Find returns a waiting transaction, or nil.
func (p *Pool) Find(hash primitives.Hash) *primitives.SignedTransaction {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.Find(hash)
}

// Choice is one walk over the pool, as apply.Candidates.
type Choice struct {
	p *Pool
	r *core.Round
}

// Idle tells whether nothing waits at all; what comes after that is offered again.
func (p *Pool) Idle() bool {
	if p.count.Load() != 0 {
		return false
	}
	p.offers.Store(false)
	if p.count.Load() != 0 { // it came meanwhile, and may have been offered before that
		p.offers.Store(true)
		return false
	}
	return true
}

// Choose begins a walk for a new chunk; Done must follow. It is nil if the pool is empty.
func (p *Pool) Choose() *Choice {
	p.offers.Store(false) // before the walk, so that what comes during it counts
	if p.count.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &Choice{p: p, r: p.core.Round()}
}

// NextGroup is part of apply.Candidates.
func (c *Choice) NextGroup() apply.Group {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if !c.r.Next() {
		return nil
	}
	return c
}

// Peek is part of apply.Group.
func (c *Choice) Peek() *primitives.SignedTransaction {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	tx := c.r.Peek()
	if tx != nil && c.p.held(tx) {
		return nil
	}
	return tx
}

// Pop is part of apply.Group.
func (c *Choice) Pop() {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	if tx := c.r.Peek(); tx != nil {
		c.r.Keep(tx)
	}
}

// Done ends the walk: what was dropped leaves the pool, the rest stays until a block includes it. It returns the hashes of
// what was dropped.
func (c *Choice) Done(out *apply.Prepared) (dropped []primitives.Hash) {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	c.r.End()
	p.chosen = p.chosen[:0]
	if out == nil {
		p.offers.Store(p.core.Len() > 0)
		return nil
	}
	for i := range out.Dropped {
		hash := out.Dropped[i].Hash()
		if p.core.Remove(hash) {
			dropped = append(dropped, hash)
		}
	}
	for _, tx := range out.Transactions {
		p.chosen = append(p.chosen, tx.Hash())
	}
	if out.Limit != apply.LimitNone {
		p.offers.Store(true)
	}
	p.counted()
	return dropped
}

// accept brings the pool in step with a new head: what it included and what has expired leaves, what a branch that lost had
// comes back. mine tells which returned transactions belong here, base the height of a block. It returns what has expired.
func (p *Pool) accept(height primitives.Height, chunk *primitives.Chunk, returned []*primitives.SignedTransaction, base func(primitives.Hash) (primitives.Height, bool)) (expired []primitives.Hash) {
	p.mu.Lock()
	if chunk != nil {
		for _, tx := range chunk.Transactions {
			p.core.Remove(tx.Hash())
		}
	}
	for _, tx := range p.core.Advance(height) {
		expired = append(expired, tx.Hash())
	}
	again := false
	for _, tx := range returned {
		if at, ok := base(tx.BlockHash); ok && !p.closed {
			added, _ := p.core.Add(tx, at) // full, or its nonce is taken: the pool's other transactions were first
			again = again || added
		}
	}
	for _, hash := range p.chosen {
		if p.core.Find(hash) != nil {
			again = true
			break
		}
	}
	p.chosen = p.chosen[:0]
	p.counted()
	p.mu.Unlock()
	if again {
		p.offer()
	}
	return expired
}

// remove takes out what a branch that has won included.
func (p *Pool) remove(txs []*primitives.SignedTransaction) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tx := range txs {
		p.core.Remove(tx.Hash())
	}
	p.counted()
}

// Open lets the pool take transactions again, after a Drain that closed it.
func (p *Pool) Open() {
	p.mu.Lock()
	p.closed = false
	p.mu.Unlock()
}

// Drain empties the pool for the shards that follow it; last: it takes no more.
func (p *Pool) Drain(last bool, each func(tx *primitives.SignedTransaction, base primitives.Height)) {
	type item struct {
		tx   *primitives.SignedTransaction
		base primitives.Height
	}
	var all []item
	p.mu.Lock()
	p.closed = last
	p.core.Drain(func(tx *primitives.SignedTransaction, base primitives.Height) { all = append(all, item{tx, base}) })
	p.chosen = p.chosen[:0]
	p.counted()
	p.offers.Store(false)
	p.mu.Unlock()
	for _, x := range all {
		each(x.tx, x.base)
	}
}
