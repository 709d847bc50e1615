package node

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// maxDropped is how many transactions a node remembers of which it has said that it takes them, and that are in no block: some 300 bytes each.
const maxDropped = 8192

// droppedLogged is how often the log has a line on what was dropped for a reason of the node's.
const droppedLogged = time.Minute

// dropped remembers why transactions are in no block, the newest maxDropped: who has sent one and waited for nothing asks for it by its hash.
// It is safe for concurrent use.
type dropped struct {
	count atomic.Int64 // of why
	mu    sync.Mutex
	why   map[primitives.Hash]reason
	order []primitives.Hash // of why, the oldest first, from head on; some may have been forgotten
	head  int

	invalid, room, node atomic.Uint64 // since the node began: by the chain's rules, by a limit, for a reason of the node's
	said                time.Time     // when the log had a line; under mu
	unsaid              uint64        // what came since; under mu
}

// reason is why a transaction was dropped, and how far the chain had come in memory.
type reason struct {
	err error
	tip primitives.Height
}

// add remembers what was dropped.
func (d *dropped) add(m *messages.TransactionsDropped, log logrus.FieldLogger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.why == nil {
		d.why = map[primitives.Hash]reason{}
	}
	for _, x := range m.List {
		if !d.counted(x.Err) {
			d.unsaid++
		}
		if _, known := d.why[x.Hash]; !known {
			d.order = append(d.order, x.Hash)
		}
		d.why[x.Hash] = reason{x.Err, m.Tip}
		log.WithField("tx", x.Hash).WithError(x.Err).Debug("a transaction was dropped")
	}
	for len(d.order)-d.head > maxDropped {
		delete(d.why, d.order[d.head])
		d.head++
	}
	if d.head > maxDropped {
		d.order, d.head = append(d.order[:0], d.order[d.head:]...), 0
	}
	d.count.Store(int64(len(d.why)))
	if d.unsaid > 0 && time.Since(d.said) > droppedLogged {
		log.WithError(m.List[len(m.List)-1].Err).Warnf("%d transactions that were accepted have been dropped; their senders must send them again", d.unsaid)
		d.said, d.unsaid = time.Now(), 0
	}
}

// counted counts a reason, and returns whether it is the transaction's own.
func (d *dropped) counted(why error) bool {
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

// forget forgets a transaction that is sent again.
func (d *dropped) forget(hash primitives.Hash) {
	if d.count.Load() == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.why, hash)
	d.count.Store(int64(len(d.why)))
}

// of returns why a transaction was dropped; an err of nil: it was not, or that is forgotten. Who sees the chain up to tip, and the transaction
// in none of its blocks, may believe it.
func (d *dropped) of(hash primitives.Hash) reason {
	if d.count.Load() == 0 {
		return reason{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.why[hash]
}

// dropped takes what a mempool says.
func (n *Node) dropped(m messages.TransactionsDropped) {
	m.Tip = n.engine.Tip().Height()
	n.drops.add(&m, n.o.Log)
	n.tell(n.milestones, m)
}

// lost takes what a mempool that has failed had: who waits for one of these sends it again.
func (n *Node) lost(m messages.TransactionsDropped) {
	m.Tip = n.engine.Tip().Height()
	n.drops.add(&m, n.o.Log)
}

// Refused takes what another node, which this one has passed a transaction on to, has against it: it leaves the pool, and who waits for it
// is told.
func (n *Node) Refused(tx *primitives.SignedTransaction, why error) {
	if t := n.shards.set.Load().of(tx.SignerID); t != nil {
		n.tell(t.mempool, messages.TransactionRefused{Tx: tx, Err: why})
	}
}
