package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// maxDropped is the maximum number of dropped transactions in the record. Each takes some 300
// bytes.
const maxDropped = 8192

// droppedLogged is the minimum time between two log lines about transactions that were dropped for
// a reason of the node.
const droppedLogged = time.Minute

// dropRecord records why transactions were dropped. A client that did not wait can query the reason
// by hash. The record keeps the newest maxDropped entries. When it is full, the oldest entries of
// the sources with most entries are evicted, so that one client cannot evict the entries of
// another. Safe for concurrent use.
type dropRecord struct {
	count atomic.Int64 // len(why)
	mu    sync.Mutex
	why   map[primitives.Hash]reason
	order []place // entries of why, oldest first; some are outdated
	next  uint64

	// Numbers of drops since the node started: because the transaction was invalid (invalid),
	// because of a limit (room), or because of the node itself (node).
	invalid, room, node atomic.Uint64
	logged              time.Time // time of the last log line about drops; guarded by mu
	unlogged            uint64    // number of drops since logged; guarded by mu
}

// reason is the reason for which a transaction was dropped.
type reason struct {
	err    error
	tip    primitives.Height // height of the in-memory head at the drop
	source string
	nth    uint64 // equals nth of the entry in dropRecord.order
	again  int    // number of copies that were submitted since the drop and are not checked yet
}

type place struct {
	hash primitives.Hash
	nth  uint64
}

// add records the drops of m and logs them.
func (d *dropRecord) add(m *messages.TransactionsDropped, log logrus.FieldLogger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.why == nil {
		d.why = map[primitives.Hash]reason{}
	}
	for _, x := range m.List {
		if !d.counted(x.Err) {
			d.unlogged++
		}
		d.next++
		d.why[x.Hash] = reason{err: x.Err, tip: m.Tip, source: x.Source, nth: d.next, again: d.why[x.Hash].again}
		if d.order = append(d.order, place{x.Hash, d.next}); len(d.why) > maxDropped || len(d.order) > 2*maxDropped {
			d.trim()
		}
		log.WithField("tx", x.Hash).WithError(x.Err).Debug("a transaction was dropped")
	}
	d.count.Store(int64(len(d.why)))
	if d.unlogged > 0 && time.Since(d.logged) > droppedLogged {
		log.WithError(m.List[len(m.List)-1].Err).Warnf("%d transactions that were accepted have been dropped; their "+
			"senders must send them again", d.unlogged)
		d.logged, d.unlogged = time.Now(), 0
	}
}

// trim removes stale entries from order. It evicts the oldest entries of the sources with most
// entries. After trim, an eighth of the capacity is free, so that trim runs rarely.
func (d *dropRecord) trim() {
	d.order = slices.DeleteFunc(d.order, func(p place) bool { return d.why[p.hash].nth != p.nth })
	const keep = maxDropped - maxDropped/8
	of := map[string]int{}
	for _, p := range d.order {
		of[d.why[p.hash].source]++
	}
	most := share(slices.Sorted(maps.Values(of)), keep)
	excess := len(d.order) - keep
	d.order = slices.DeleteFunc(d.order, func(p place) bool {
		source := d.why[p.hash].source
		if excess <= 0 || of[source] <= most {
			return false
		}
		excess--
		of[source]--
		delete(d.why, p.hash)
		return true
	})
}

// share returns how many entries each source may keep so that all sources together have at most
// keep entries. counts are the sources' numbers of entries in ascending order.
func share(counts []int, keep int) int {
	for i, n := range counts {
		if each := keep / (len(counts) - i); n > each {
			return each
		}
		keep -= n
	}
	return keep
}

// counted counts a drop by its reason, and returns whether the transaction itself is invalid.
func (d *dropRecord) counted(why error) bool {
	var invalid *primitives.InvalidTxError
	switch {
	case errors.As(why, &invalid):
		d.invalid.Add(1)
		return true
	case errors.Is(why, view.ErrNoRoom):
		d.room.Add(1)
	default:
		d.node.Add(1)
	}
	return false
}

// sent records that a copy of a transaction was submitted. Until the copy is checked, `of` does not
// report an earlier drop.
func (d *dropRecord) sent(hash primitives.Hash) {
	if d.count.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if r, ok := d.why[hash]; ok {
		r.again++
		d.why[hash] = r
	}
}

// settled records the result of a submitted copy. If the copy is in the pool, settled deletes the
// drop of an earlier copy. If the mempool rejected the last unchecked copy, the earlier drop is
// valid again, and settled returns it.
func (d *dropRecord) settled(hash primitives.Hash, pooled bool) (why reason) {
	if d.count.Load() == 0 {
		return why
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r, ok := d.why[hash]
	switch {
	case ok && pooled:
		delete(d.why, hash)
		d.count.Store(int64(len(d.why)))
	case ok && r.again > 0:
		if r.again--; r.again == 0 {
			why = r
		}
		d.why[hash] = r
	}
	return why
}

// reorganised adapts the record to another branch, whose head has the height tip. A transaction
// that was invalid on the previous branch may be valid on the new branch.
func (d *dropRecord) reorganised(tip primitives.Height) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var invalid *primitives.InvalidTxError
	for hash, r := range d.why { // the order does not matter, because the entries are independent
		if errors.As(r.err, &invalid) {
			r.err = fmt.Errorf("%w: %v", errOtherChain, invalid)
		}
		r.tip = min(r.tip, tip)
		d.why[hash] = r
	}
}

// errOtherChain replaces the reason of a transaction that was invalid on an abandoned branch.
var errOtherChain = errors.New("node: the transaction was invalid on a branch that this node has left")

// of returns why a transaction was dropped. err is nil if no drop is recorded, or if a copy of the
// transaction was submitted since the drop. A reader may use the reason only if it has read the
// chain up to reason.tip and found no such transaction.
func (d *dropRecord) of(hash primitives.Hash) reason {
	if d.count.Load() == 0 {
		return reason{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if r := d.why[hash]; r.again == 0 {
		return r
	}
	return reason{}
}

// dropped handles drops that a mempool reports.
func (n *Node) dropped(m messages.TransactionsDropped) {
	m.Tip = n.engine.Tip().Height()
	n.drops.add(&m, n.o.Log)
	n.tell(n.tracker, m)
}

// settled handles the result of a submission. If an earlier drop of the transaction is valid again,
// settled informs the transaction's waiters of it.
func (n *Node) settled(hash primitives.Hash, pooled bool) {
	if why := n.drops.settled(hash, pooled); why.err != nil {
		n.tell(n.tracker, messages.TransactionsDropped{Tip: why.tip,
			List: []messages.DroppedTransaction{{Hash: hash, Err: why.err}}})
	}
}

// lost records the pool of a failed mempool as dropped. These drops have the number 0. Waiters that
// submitted ignore this number, because they submit again.
func (n *Node) lost(m messages.TransactionsDropped) { n.dropped(m) }

// Refused handles the rejection of a forwarded transaction by another node: the transaction leaves
// the pool, and its waiters get the reason.
func (n *Node) Refused(tx *primitives.SignedTransaction, why error) {
	if t := n.shards.set.Load().of(tx.SignerID); t != nil {
		n.tell(t.mempool, messages.TransactionRefused{Tx: tx, Err: why})
	}
}
