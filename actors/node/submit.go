package node

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/actors/mempool"
	core "github.com/troupe-chain/troupe/chain/mempool"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// ErrStopped says that the node is ending.
var ErrStopped = errors.New("node: stopped")

// Submit checks a transaction against the head and puts it into its signer's pool. pooled is false if the pool is full:
// like neard the node keeps that to itself. Refused: *primitives.InvalidTxError.
func (n *Node) Submit(tx *primitives.SignedTransaction) (pooled bool, err error) {
	if n.checks.Add(1) > int64(n.o.Limits.Checks) {
		n.checks.Add(-1)
		return false, &view.LookupError{Kind: view.ErrTooManyRequests}
	}
	defer n.checks.Add(-1)
	return n.submit(tx)
}

// A transaction that deploys code waits at the door until the code is compiled: a block that calls it would have to wait else, and
// all others with it. Only so many wait, and only so long.
const (
	maxAwaiting = 16
	awaitCode   = 2 * time.Second
)

func (n *Node) awaitCode(tx *primitives.SignedTransaction) {
	done := n.engine.Compile(tx)
	if done == nil {
		return
	}
	defer n.awaiting.Add(-1)
	if n.awaiting.Add(1) > maxAwaiting {
		return
	}
	select {
	case <-done:
	case <-n.ended:
	case <-time.After(awaitCode):
	}
}

func (n *Node) submit(tx *primitives.SignedTransaction) (pooled bool, err error) {
	if err := n.refusal(); err != nil {
		return false, err
	}
	n.stats.submitted.Add(1)
	invalid, err := n.engine.Check(tx, n.signatures.Check)
	if err != nil {
		return false, fmt.Errorf("node: check transaction %v: %w", tx.Hash(), err)
	}
	if invalid != nil {
		n.stats.refused.Add(1)
		return false, invalid
	}
	n.awaitCode(tx)
	base, ok := n.baseHeight(tx.BlockHash)
	if !ok {
		return false, &primitives.InvalidTxError{Tag: primitives.TxExpired}
	}
	for err = error(mempool.ErrMoved); errors.Is(err, mempool.ErrMoved); { // the layout has changed between the two looks
		_, err = n.shards.set.Load().of(tx.SignerID).pool.Add(tx, base)
	}
	var taken *core.NonceTaken
	switch {
	case err == nil:
		return true, nil
	case errors.As(err, &taken): // what it would be told once the other is in a block
		n.stats.refused.Add(1)
		return false, &primitives.InvalidTxError{Tag: primitives.TxInvalidNonce, TxNonce: taken.Nonce, KeyNonce: taken.Nonce}
	case errors.Is(err, core.ErrExpired):
		n.stats.refused.Add(1)
		return false, &primitives.InvalidTxError{Tag: primitives.TxExpired}
	}
	return false, nil
}

// overtook tells whether a transaction's nonce is so little ahead of its key's next that those between are likely on their
// way.
func (n *Node) overtook(tx *primitives.SignedTransaction) bool {
	nonce, ok, err := n.engine.KeyNonce(tx)
	return err == nil && ok && tx.Nonce.Nonce > nonce+1 && tx.Nonce.Nonce-nonce <= mempool.EarlyGap
}

// SubmitAll submits many at once; errs[i] is nil if txs[i] was taken. Signatures are checked on all cores.
func (n *Node) SubmitAll(txs []*primitives.SignedTransaction) (errs []error) {
	n.signatures.CheckAll(txs) // what is good is remembered
	errs = make([]error, len(txs))
	for i, tx := range txs {
		_, errs[i] = n.submit(tx)
	}
	return errs
}

// SendTxAsync passes a transaction on without looking at it. Beyond the limit it is dropped, as a full pool drops it.
func (n *Node) SendTxAsync(tx *primitives.SignedTransaction) {
	n.gate.RLock()
	defer n.gate.RUnlock()
	if n.stopped {
		return
	}
	select {
	case n.async <- tx:
	default:
		n.stats.overrun.Add(1)
	}
}

// asyncBatch is how many transactions one goroutine takes off the queue at a time.
const asyncBatch = 64

func (n *Node) startAsync() {
	for range runtime.GOMAXPROCS(0) {
		n.asyncEnd.Add(1)
		go func() {
			defer n.asyncEnd.Done()
			batch := make([]*primitives.SignedTransaction, 0, asyncBatch)
			for tx := range n.async {
				batch = append(batch[:0], tx)
			more:
				for len(batch) < asyncBatch {
					select {
					case tx, ok := <-n.async:
						if !ok {
							break more
						}
						batch = append(batch, tx)
					default:
						break more
					}
				}
				n.SubmitAll(batch) // nobody waits to be told
			}
		}()
	}
}

// heights remembers the heights of blocks that transactions refer to. A block's height never changes.
type heights struct {
	mu sync.RWMutex
	m  map[primitives.Hash]primitives.Height
}

// maxHeights bounds the memory; it is emptied when full.
const maxHeights = 8192

// baseHeight returns the height of a known block.
func (n *Node) baseHeight(hash primitives.Hash) (primitives.Height, bool) {
	n.heights.mu.RLock()
	h, ok := n.heights.m[hash]
	n.heights.mu.RUnlock()
	if ok {
		return h, true
	}
	ref, err := n.engine.Ref(hash)
	if err != nil {
		return 0, false
	}
	n.heights.mu.Lock()
	if n.heights.m == nil || len(n.heights.m) >= maxHeights {
		n.heights.m = make(map[primitives.Hash]primitives.Height, 256)
	}
	n.heights.m[hash] = ref.Height
	n.heights.mu.Unlock()
	return ref.Height, true
}

func isNotFound(err error) bool { return errors.Is(err, storage.ErrNotFound) }

func encodeHeight(h primitives.Height) storage.Raw {
	return binary.LittleEndian.AppendUint64(nil, uint64(h))
}

func decodeHeight(raw storage.Raw) (primitives.Height, error) {
	if len(raw) != 8 {
		return 0, fmt.Errorf("node: %s has %d bytes, not 8", targetKey, len(raw))
	}
	return primitives.Height(binary.LittleEndian.Uint64(raw)), nil
}
