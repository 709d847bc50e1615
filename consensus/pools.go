package consensus

import (
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// submit handles a transaction from a client: it adds the transaction to this node's pool and sends
// it to the chunk producers of the signer's shard (nearcore chain/client/src/rpc_handler.rs
// forward_tx).
func (n *Node) submit(tx *primitives.SignedTransaction) {
	if n.head == nil {
		return
	}
	n.transaction(tx)
	list, err := n.e.Validation().Producers(n.head.epoch, n.head.layout.ShardOf(tx.SignerID))
	if err != nil {
		n.fail(err)
		return
	}
	for _, to := range list {
		if to != n.me {
			n.sendTo(to, tx)
		}
	}
}

// transaction adds a transaction to the pool of the signer's shard if this validator produces
// chunks of that shard now or in the next epoch. If this validator holds the shard but does not
// produce its chunks, transaction only records activity. If this validator does not hold the shard,
// transaction ignores the transaction.
//
// The core reports a refusal by transaction at most as a note, and reports no transaction that leaves
// a pool later (choose, redistributePools, expiry). The mempool's pool still has such a transaction.
// Its waiter gets a reason if the mempool drops it because it has expired or its nonce is used.
// Otherwise the wait times out.
func (n *Node) transaction(tx *primitives.SignedTransaction) {
	if n.head == nil || n.me == "" {
		return
	}
	base, err := n.e.Header(tx.BlockHash)
	if err != nil {
		n.note(err, "transaction %v on an unknown block", short(tx.Hash()))
		return
	}
	d, shard := n.e.ChunkPartsView(n.storedChunk), n.head.layout.ShardOf(tx.SignerID)
	cares := d.Cares(n.me, n.head.hash, shard)
	if !cares {
		if held, err := d.Holds(n.head.hash, shard); err != nil || !held {
			return // neither a producer nor a holder of the shard: nothing to do
		}
	}
	if hash := tx.Hash(); (n.o.Known == nil || !n.o.Known(tx)) && !n.o.Verifier.Verify(tx.Signature, hash[:], tx.PublicKey) {
		n.note(nil, "transaction %v has a wrong signature", short(hash))
		return
	}
	if cares {
		if _, err := n.poolOf(shard).Add(tx, base.Height); err != nil {
			n.note(err, "transaction %v", short(tx.Hash()))
			return
		}
	}
	n.noteActivity(n.head.height + 1)
}

func (n *Node) poolOf(id primitives.ShardID) *txpool.Pool {
	p := n.pools[id]
	if p == nil {
		p = txpool.New(txpool.Limits{Transactions: MaxWaiting, Bytes: maxPoolBytes}, n.e.Chain().ValidityPeriod, n.o.Seed)
		p.Advance(n.head.height)
		n.pools[id] = p
	}
	return p
}

// redistributePools moves the transactions of a split shard to the pools of its children.
func (n *Node) redistributePools(at *engine.BlockNode) {
	for _, id := range slices.Sorted(maps.Keys(n.pools)) {
		if n.head.layout.Has(id) {
			continue
		}
		p := n.pools[id]
		delete(n.pools, id)
		p.Drain(func(tx *primitives.SignedTransaction, base primitives.Height) {
			// If the pool is full, the transaction is lost, and the client must send it again.
			_, _ = n.poolOf(n.head.layout.ShardOf(tx.SignerID)).Add(tx, base)
		})
	}
	for _, p := range n.pools {
		p.Advance(at.Height())
	}
}

// updatePools removes the transactions of a new head from the pools. updatePools adds the
// transactions that were only on the branch of the previous head.
func (n *Node) updatePools(acc *engine.Imported) {
	if !acc.IsHead {
		return
	}
	for i := range acc.Entry.Shards {
		c := acc.Entry.Shards[i].Chunk
		if c == nil {
			continue
		}
		for _, tx := range c.Transactions {
			for _, p := range n.pools {
				p.Remove(tx.Hash())
			}
		}
	}
	for _, tx := range acc.Returned {
		n.transaction(tx)
	}
}

// choose returns the transactions for the next chunk of a shard on the head.
func (n *Node) choose(i primitives.ShardIndex, id primitives.ShardID) ([]*primitives.SignedTransaction, error) {
	p := n.pools[id]
	if p == nil || p.Len() == 0 {
		return nil, nil
	}
	w := &roundCandidates{round: p.Round()}
	var over func() bool
	if n.o.ChooseTimer != nil {
		over = n.o.ChooseTimer()
	}
	out, err := n.e.Prepare(n.head.hash, i, w, over)
	w.round.End()
	if err != nil {
		return nil, err
	}
	for k := range out.Dropped {
		p.Remove(out.Dropped[k].Hash())
	}
	return out.Transactions, nil
}

// roundCandidates implements apply.Candidates for a round of a transaction pool.
type roundCandidates struct{ round *txpool.Round }

// NextGroup implements apply.Candidates.
func (w *roundCandidates) NextGroup() apply.Group {
	if !w.round.Next() {
		return nil
	}
	return w
}

// Peek implements apply.Group.
func (w *roundCandidates) Peek() *primitives.SignedTransaction { return w.round.Peek() }

// Pop implements apply.Group.
func (w *roundCandidates) Pop() { w.round.Keep(w.round.Peek()) }
