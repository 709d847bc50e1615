package node

import (
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// A client that sends ten transactions of one key at once does so over ten connections, and they arrive in any order. In
// neard the next block is far enough away that all of them meet in the pool, which sorts them. In instant mode a block would
// take the first to arrive, and with the highest nonce at its front refuse all others for ever. So a transaction whose nonce
// is a little ahead of its key waits a moment for those before it; one that is next, as a client that waits for each of its
// transactions sends them, loses no time.
const (
	// turnWait is the longest wait: several times what ten requests of one client are apart.
	turnWait = 10 * time.Millisecond
	// turnLook is the time between looks.
	turnLook = 250 * time.Microsecond
	// turnGap is the widest gap that is taken for a race; clients that count by the clock leave wider ones.
	turnGap = 1024
	// turnLate bounds the goroutines of transactions that nobody waits for; beyond it they take what turn they get.
	turnLate = 4096
)

// awaitTurn returns when the transaction before tx waits in the pool or is in a block, or when it has waited long enough.
func (n *Node) awaitTurn(tx *primitives.SignedTransaction) {
	for deadline := time.Now().Add(turnWait); n.early(tx) && time.Now().Before(deadline); {
		select {
		case <-time.After(turnLook):
		case <-n.ended:
			return
		}
	}
}

// early tells whether transactions of the same key seem to be on their way that have to come before tx.
func (n *Node) early(tx *primitives.SignedTransaction) bool {
	if n.shards.set.Load().of(tx.SignerID).pool.HasPredecessor(tx) {
		return false
	}
	nonce, ok, err := n.engine.KeyNonce(tx)
	return err == nil && ok && tx.Nonce.Nonce > nonce+1 && tx.Nonce.Nonce-nonce <= turnGap
}

// submitAsync submits what nobody waits to be told of; what is early does not hold up the others.
func (n *Node) submitAsync(txs []*primitives.SignedTransaction) {
	n.signatures.CheckAll(txs) // what is good is remembered
	for _, tx := range txs {
		base, err := n.check(tx)
		if err != nil {
			continue
		}
		if !n.early(tx) {
			n.pool(tx, base)
			continue
		}
		if n.late.Add(1) > turnLate {
			n.late.Add(-1)
			n.pool(tx, base)
			continue
		}
		n.asyncEnd.Add(1)
		go func() {
			defer n.asyncEnd.Done()
			defer n.late.Add(-1)
			n.awaitTurn(tx)
			n.pool(tx, base)
		}()
	}
}
