package mempool

import (
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// A client that sends ten transactions of one key at once does so over ten connections, and they arrive in any order. In
// neard the next block is far enough away that all of them meet in the pool, which sorts them. In instant mode a block would
// take the first to arrive, and with a higher nonce at its front refuse all others for ever. So a transaction whose nonce is
// a little ahead waits a moment for those before it; one that is next, as a client that waits for each of its transactions
// sends them, loses no time.
const (
	// EarlyWait is how long a transaction waits for the one before it: several times what the requests of one client are
	// apart, also on a machine that is busy with the client itself, and less than a block takes in neard.
	EarlyWait = 200 * time.Millisecond
	// EarlyGap is the widest gap of nonces that is taken for a race; clients that count by the clock leave wider ones.
	EarlyGap = 1024
	// maxEarly bounds the number of those that wait in a pool; beyond it they take what turn they get.
	maxEarly = 10_000
)

// early are the transactions that have overtaken others.
type early struct {
	overtook func(*primitives.SignedTransaction) bool
	until    map[primitives.Hash]time.Time // when their wait ends
}

// hold lets a transaction wait for the one before it, if that is not here. The caller holds the lock.
func (p *Pool) hold(tx *primitives.SignedTransaction) bool {
	if len(p.early.until) >= maxEarly || p.core.HasPredecessor(tx) {
		return false
	}
	hash := tx.Hash()
	p.early.until[hash] = time.Now().Add(EarlyWait)
	time.AfterFunc(EarlyWait, func() {
		p.mu.Lock()
		delete(p.early.until, hash)
		waits := p.core.Find(hash) != nil
		p.mu.Unlock()
		if waits {
			p.offer()
		}
	})
	return true
}

// held tells whether a transaction at the front of its group still waits for the one before it: a predecessor that is in the
// pool is then in the chunk that is being chosen. The caller holds the lock.
func (p *Pool) held(tx *primitives.SignedTransaction) bool {
	if len(p.early.until) == 0 {
		return false
	}
	until, ok := p.early.until[tx.Hash()]
	return ok && time.Now().Before(until) && !p.core.HasPredecessor(tx) && p.early.overtook(tx)
}
