package node

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/actors/mempool"
	"github.com/troupe-chain/troupe/actors/session"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/chain/txpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/engine/parallel"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// ErrStopped is the error of requests when the node stops.
var ErrStopped = errors.New("node: the node is stopping")

// Submit sends a transaction to the mempool, which checks it against the head and adds it to its
// signer's pool. pooled is true if and only if err is nil. Errors: *primitives.InvalidTxError,
// view.ErrNoRoom, ErrStopped, *HaltedError.
func (n *Node) Submit(tx *primitives.SignedTransaction) (pooled bool, err error) {
	out, err := n.submitAll([]*primitives.SignedTransaction{tx})
	if err != nil {
		return false, err
	}
	return out[0].Pooled, out[0].Err
}

// SubmitAll submits many transactions at once. errs[i] is the error of txs[i]; nil: txs[i] is in
// the pool.
func (n *Node) SubmitAll(txs []*primitives.SignedTransaction) (errs []error) {
	errs = make([]error, len(txs))
	out, err := n.submitAll(txs)
	for i := range txs {
		if errs[i] = err; err == nil {
			errs[i] = out[i].Err
		}
	}
	return errs
}

// submitAll sends each transaction to the mempool of its shard and waits for all results.
func (n *Node) submitAll(txs []*primitives.SignedTransaction) ([]messages.Submitted, error) {
	if err := n.refuseRequests(); err != nil {
		return nil, err
	}
	type part struct {
		of  *shardActors
		txs []*primitives.SignedTransaction
		at  []int
		r   mempool.Request
	}
	var parts []*part // submissions by shard
	set := n.shards.set.Load()
next:
	for i, tx := range txs {
		t := set.of(tx.SignerID)
		for _, p := range parts {
			if p.of == t {
				p.txs, p.at = append(p.txs, tx), append(p.at, i)
				continue next
			}
		}
		parts = append(parts, &part{of: t, txs: []*primitives.SignedTransaction{tx}, at: []int{i}})
	}
	for _, tx := range txs {
		n.drops.sent(tx.Hash())
	}
	for _, p := range parts {
		p.r = mempool.NewRequest("", p.txs)
		n.tell(p.of.mempool, p.r)
	}
	lost := time.NewTimer(n.o.Limits.Wait)
	defer lost.Stop()
	out := make([]messages.Submitted, len(txs))
	for _, p := range parts {
		select {
		case <-p.r.Done():
		case <-p.r.Lost():
			return nil, mempool.ErrRestarted
		case <-n.ended:
			return nil, ErrStopped
		case <-lost.C:
			return nil, fmt.Errorf("node: the mempool of shard %d does not answer", p.of.id)
		}
		for k, i := range p.at {
			out[i] = p.r.Answers()[k]
		}
	}
	return out, nil
}

// SendTxAsync submits a transaction without waiting for its check. While the session has too many
// unchecked submissions, SendTxAsync waits until ctx ends or for Limits.Wait. An error means that
// the node has not accepted the transaction: view.ErrNoRoom, ErrStopped, *HaltedError or
// session.ErrNoSession. After nil, the client can query the result with Tx.
func (n *Node) SendTxAsync(ctx context.Context, tx *primitives.SignedTransaction) error {
	if err := n.refuseRequests(); err != nil {
		return err
	}
	h := n.sessionHandles.of(messages.SessionOf(ctx))
	if h == nil {
		return session.ErrNoSession
	}
	full := func() error {
		n.tally.Overrun.Add(1)
		return &view.LookupError{Kind: view.ErrNoRoom,
			Reason: fmt.Sprintf("%d submissions of this connection are not checked yet", cap(h.slots))}
	}
	select {
	case h.slots <- struct{}{}:
	default:
		patience := time.NewTimer(n.o.Limits.Wait)
		defer patience.Stop()
		select {
		case h.slots <- struct{}{}:
		case <-ctx.Done():
			return full()
		case <-patience.C:
			return full()
		case <-n.ended:
			return ErrStopped
		}
	}
	select {
	case <-n.ended:
		return ErrStopped
	default:
	}
	n.tracer.begin(tx, false)
	n.route(messages.SubmitTransactions{From: messages.Address{Session: h.id}, Client: messages.ClientOf(ctx),
		Transactions: []*primitives.SignedTransaction{tx}})
	return nil
}

// route sends submissions of one signer to the mempool of the signer's shard.
func (n *Node) route(m messages.SubmitTransactions) {
	n.tracer.mark(m.Transactions, routed)
	for _, tx := range m.Transactions {
		n.drops.sent(tx.Hash())
	}
	n.tell(n.shards.set.Load().of(m.Transactions[0].SignerID).mempool, m)
}

// mempool returns the options of a shard's mempool.
func (n *Node) mempool(t *shardActors, again bool, started func()) mempool.Options {
	return mempool.Options{
		Shard: t.id, Pool: txpool.New(n.o.Mempool, n.engine.Chain().ValidityPeriod, n.o.Seed),
		Queue:  txpool.QueueLimits{Items: n.o.Limits.Queue, Bytes: n.o.Limits.QueueBytes},
		Hold:   txpool.QueueLimits{Items: n.o.Limits.Held, Bytes: n.o.Limits.HeldBytes},
		Status: t.pool, Tally: &n.tally, Checkers: runtime.GOMAXPROCS(0) + 1, Again: again, Started: started,
		Chain: poolChain{n},
		Check: func(txs []*primitives.SignedTransaction) []mempool.Verdict {
			return n.checkAll(txs, poolChain{n}.IsAhead)
		},
		Route: n.network != nil, // as neard does, even with disable_tx_routing
		Out: mempool.Out{
			ActorSender: shardSender{n, t}, ClientSender: submissionSender{n}, DropRecorder: submissionSender{n}, Pooled: n.pooled(),
		},
	}
}

// checksPerGoroutine is how many transactions one goroutine of checkAll checks.
const checksPerGoroutine = 16

// checkAll checks transactions against the state of the head. checkAll uses several goroutines,
// because it may have to read accounts from disk. It checks signatures on all cores. If a check
// panics, checkAll panics too.
func (n *Node) checkAll(txs []*primitives.SignedTransaction,
	isAhead func(*primitives.SignedTransaction) bool) []mempool.Verdict {
	n.tracer.mark(txs, checkBegun)
	defer n.tracer.mark(txs, checkEnded)
	n.signatures.CheckAll(txs) // n.signatures remembers the valid signatures
	out := make([]mempool.Verdict, len(txs))
	// All parts run at the same time. A panic is raised on this goroutine, so that mempool.check finds
	// the transaction that causes the panic.
	parts := (len(txs) + checksPerGoroutine - 1) / checksPerGoroutine
	parallel.Until(parts, parts, func(k int) bool {
		for i := k * checksPerGoroutine; i < min((k+1)*checksPerGoroutine, len(txs)); i++ {
			out[i] = n.checkOne(txs[i], isAhead)
		}
		return true
	})
	return out
}

// checkOne checks a transaction whose signature was checked.
func (n *Node) checkOne(tx *primitives.SignedTransaction,
	isAhead func(*primitives.SignedTransaction) bool) (v mempool.Verdict) {
	if v.Invalid, v.Err = n.engine.Check(tx, n.signatures.CheckNew); v.Invalid != nil || v.Err != nil {
		if errors.Is(v.Err, engine.ErrUntracked) {
			v.Err = &view.LookupError{Kind: view.ErrShardNotTracked}
		}
		return v
	}
	var ok bool
	if v.Base, ok = n.baseHeight(tx.BlockHash); !ok {
		v.Invalid = &primitives.InvalidTxError{Tag: primitives.TxExpired}
		return v
	}
	v.Ahead = isAhead(tx)
	switch u := n.engine.PendingCompilation(tx); {
	case u == nil:
	// In manual mode the client decides when to request blocks, so do not hold the transaction. A
	// validator among others and a replica make no chunks from this pool. They forward the
	// transaction at once, and a block may include the transaction even if the mempool held it.
	case n.Mode() == production.Manual,
		!n.hasProducer():
		u.Warm()
	default:
		v.Code = u.Compile
		v.CodeName, v.CodeBytes = u.Code()
	}
	return v
}

// poolChain implements mempool.Chain.
type poolChain struct{ n *Node }

// Home implements mempool.Chain.
func (c poolChain) Home(id primitives.AccountID) primitives.ShardID {
	return c.n.shards.set.Load().layout.ShardOf(id)
}

// Base implements mempool.Chain.
func (c poolChain) Base(block primitives.Hash) (primitives.Height, bool) {
	return c.n.baseHeight(block)
}

// IsAhead implements mempool.Chain. Only in instant mode may a block be made before transactions
// with smaller nonces arrive. In every other mode, the pool sorts transactions by nonce before the
// next block.
func (c poolChain) IsAhead(tx *primitives.SignedTransaction) bool {
	if c.n.Mode() != production.Instant {
		return false
	}
	nonce, ok, err := c.n.engine.KeyNonce(tx)
	return err == nil && ok && tx.Nonce.Nonce > nonce+1 && tx.Nonce.Nonce-nonce <= mempool.EarlyGap
}

// NonceUsed implements mempool.Chain.
func (c poolChain) NonceUsed(tx *primitives.SignedTransaction) (current primitives.Nonce, used bool) {
	nonce, ok, err := c.n.engine.KeyNonce(tx)
	return nonce, err == nil && ok && tx.Nonce.Nonce <= nonce
}

// heightCache caches the heights of the transactions' base blocks.
type heightCache struct {
	mu sync.RWMutex
	m  map[primitives.Hash]primitives.Height
}

// maxHeights is the maximum number of entries. A full cache is emptied.
const maxHeights = 8192

// forget empties the cache after a rollback, which may have removed blocks.
func (h *heightCache) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.m = nil
}

// baseHeight returns the height of a block. baseHeight returns false if the block is unknown.
func (n *Node) baseHeight(hash primitives.Hash) (primitives.Height, bool) {
	n.heightCache.mu.RLock()
	h, ok := n.heightCache.m[hash]
	n.heightCache.mu.RUnlock()
	if ok {
		return h, true
	}
	ref, err := n.engine.Ref(hash)
	if base := n.engine.Fork(); err != nil && base != nil { // the base block may be a block of the remote chain
		var known bool
		if ref.Height, known, err = base.Height(hash); !known && err == nil {
			return 0, false
		}
	}
	if err != nil {
		return 0, false
	}
	n.heightCache.mu.Lock()
	if n.heightCache.m == nil || len(n.heightCache.m) >= maxHeights {
		n.heightCache.m = make(map[primitives.Hash]primitives.Height, 256)
	}
	n.heightCache.m[hash] = ref.Height
	n.heightCache.mu.Unlock()
	return ref.Height, true
}
