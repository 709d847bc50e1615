package mempool

import (
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
)

// capture returns the pooled transactions. Unchecked submissions are not included.
func (a *Actor) capture() (out messages.PoolCaptured) {
	a.pool.Each(func(tx *primitives.SignedTransaction, base primitives.Height) {
		out.Transactions, out.Bases = append(out.Transactions, tx), append(out.Bases, base)
	})
	return out
}

// restore replaces the pooled transactions by captured ones. The walk in progress gets no further
// candidates, and the actor ignores the result of that walk.
func (a *Actor) restore(m *messages.RestorePool) {
	var before []*primitives.SignedTransaction
	var gone []messages.DroppedTransaction
	a.pool.Drain(func(tx *primitives.SignedTransaction, _ primitives.Height) { before = append(before, tx) })
	a.walk, a.minWalk = walk{}, a.o.Status.lastWalk.Load()+1
	a.chose = a.chose[:0]
	clear(a.side)
	a.reorgs++
	a.pool.Advance(m.Head)
	for i, tx := range m.Transactions {
		if a.o.Chain.Home(tx.SignerID) == a.o.Shard {
			_, _ = a.pool.Add(tx, m.Bases[i]) // cannot fail, because the transaction was in the pool
			a.markPooled(tx)
		}
	}
	for _, tx := range before {
		if a.pool.Find(tx.Hash()) == nil {
			gone = append(gone, newDrop(tx, ErrRolledBack))
		}
	}
	a.drop(gone)
	a.publishCounts()
	a.o.Status.offers.Store(false)
	if a.pool.Len() > 0 {
		a.o.Status.offer()
	}
}
