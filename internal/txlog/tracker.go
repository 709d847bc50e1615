package txlog

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of a tracker.
const (
	maxOpen      = 20_000 // transactions that have not ended
	maxCanonical = 1024   // recent canonical blocks
	maxSide      = 16     // recent blocks of other branches
	// maxWait is how many blocks a transaction may take before it is shown as pending: a promise
	// yield may wait for 200 blocks.
	maxWait = 12
	// maxAge is how many blocks after that it is followed. A receipt to a shard that this node does
	// not track never runs here.
	maxAge = 1000
)

// tracker follows transactions through the canonical blocks until all their receipts but refunds
// have run. Not safe for concurrent use.
//
// A block is applied when it becomes canonical. If canonical blocks are replaced, what they did is
// undone first: transactions that they include are dropped, and receipts that ran in them wait
// again.
type tracker struct {
	o         *Options
	canonical []seen // oldest first
	side      []*block
	open      map[primitives.Hash]*transaction // by the transaction's hash
	recent    []*transaction                   // included in the last maxWait blocks, oldest first; some have ended
	late      []*transaction                   // included before, oldest first; some have ended
	waiting   map[primitives.Hash]waiting      // receipts of open transactions that have not run, by id
	dropped   int                              // transactions that exceeded maxOpen, not reported yet
}

type seen struct {
	hash         primitives.Hash
	height       primitives.Height
	transactions int
}

// transaction is an open transaction.
type transaction struct {
	*primitives.SignedTransaction
	height   primitives.Height
	executed []executed // in order; the first is the transaction's own
	waits    int        // its receipts in tracker.waiting
	ended    bool       // the other fields but height are no longer valid
}

// executed is an outcome and the receipt that it is of; nil: unknown.
type executed struct {
	height  primitives.Height
	outcome *primitives.OutcomeWithID
	receipt *primitives.Receipt
}

type waiting struct {
	of      *transaction
	receipt *primitives.Receipt
}

func newTracker(o *Options) *tracker {
	return &tracker{o: o, open: map[primitives.Hash]*transaction{}, waiting: map[primitives.Hash]waiting{}}
}

// forget drops all open transactions after a gap in the blocks, and returns how many they are.
func (t *tracker) forget() int {
	n := len(t.open)
	t.canonical, t.side, t.recent, t.late = nil, nil, nil, nil
	clear(t.open)
	clear(t.waiting)
	return n
}

// accept takes a block and appends what is to be shown.
func (t *tracker) accept(b *block, out *bytes.Buffer) {
	if !b.head {
		if len(t.side) == maxSide {
			t.side = slices.Delete(t.side, 0, 1)
		}
		t.side = append(t.side, b)
		return
	}
	path := []*block{b}
	at := t.find(b.prev)
	for at < 0 {
		i := slices.IndexFunc(t.side, func(s *block) bool { return s.hash == path[0].prev })
		if i < 0 {
			break
		}
		path = slices.Insert(path, 0, t.side[i])
		t.side = slices.Delete(t.side, i, i+1)
		at = t.find(path[0].prev)
	}
	switch {
	case at >= 0:
		t.revert(at, out)
	case len(t.canonical) > 0: // after a state sync, or a rewind beyond maxCanonical
		if n := t.forget(); n > 0 {
			fmt.Fprintf(out, "%s not shown: block %d does not follow the last one\n", count(n, "transaction"), b.height)
		}
	}
	for _, p := range path {
		t.apply(p, out)
	}
	t.review(b.height, out)
	if t.dropped > 0 {
		fmt.Fprintf(out, "%s not shown: more than %d wait for their receipts\n", count(t.dropped, "transaction"), maxOpen)
		t.dropped = 0
	}
}

// find returns the index of a canonical block, or -1.
func (t *tracker) find(hash primitives.Hash) int {
	for i := len(t.canonical) - 1; i >= 0; i-- {
		if t.canonical[i].hash == hash {
			return i
		}
	}
	return -1
}

// revert undoes the canonical blocks after index at.
func (t *tracker) revert(at int, out *bytes.Buffer) {
	lost := t.canonical[at+1:]
	if len(lost) == 0 {
		return
	}
	n := 0
	for _, b := range lost {
		n += b.transactions
	}
	which := fmt.Sprintf("block %d is", lost[0].height)
	if len(lost) > 1 {
		which = fmt.Sprintf("blocks %d to %d are", lost[0].height, lost[len(lost)-1].height)
	}
	fmt.Fprintf(out, "reverted: %s no longer in the chain, with %s\n", which, count(n, "transaction"))
	height := t.canonical[at].height
	t.canonical = t.canonical[:at+1]
	for _, tx := range t.open {
		t.undo(tx, height)
	}
}

// undo removes what an open transaction did in blocks above a height.
func (t *tracker) undo(tx *transaction, height primitives.Height) {
	for len(tx.executed) > 0 && tx.executed[len(tx.executed)-1].height > height {
		e := tx.executed[len(tx.executed)-1]
		tx.executed = tx.executed[:len(tx.executed)-1]
		for _, id := range e.outcome.ReceiptIDs {
			if t.waiting[id].of == tx { // false for a refund
				delete(t.waiting, id)
				tx.waits--
			}
		}
		if e.outcome.ID != tx.Hash() {
			t.waiting[e.outcome.ID] = waiting{tx, e.receipt}
			tx.waits++
		}
	}
	if len(tx.executed) == 0 {
		t.end(tx)
	}
}

// end removes an open transaction and frees its memory.
func (t *tracker) end(tx *transaction) {
	delete(t.open, tx.Hash())
	for _, e := range tx.executed {
		for _, id := range e.outcome.ReceiptIDs {
			if tx.waits > 0 && t.waiting[id].of == tx {
				delete(t.waiting, id)
				tx.waits--
			}
		}
	}
	*tx = transaction{height: tx.height, ended: true}
}

// apply applies the next canonical block.
func (t *tracker) apply(b *block, out *bytes.Buffer) {
	if len(t.canonical) >= 2*maxCanonical {
		t.canonical = append(t.canonical[:0], t.canonical[maxCanonical:]...)
	}
	t.canonical = append(t.canonical, seen{b.hash, b.height, b.transactions()})
	if b.outcomes == 0 {
		return
	}
	created := map[primitives.Hash]*primitives.Receipt{}
	first := len(t.recent)
	for i := range b.shards {
		for _, r := range b.shards[i].outgoing {
			created[r.ID] = r
		}
		for _, tx := range b.shards[i].transactions {
			if t.open[tx.Hash()] != nil {
				continue // it is included a second time, which has no effect
			}
			if len(t.open) >= maxOpen {
				t.dropped++
				continue
			}
			x := &transaction{SignedTransaction: tx, height: b.height}
			t.open[tx.Hash()] = x
			t.recent = append(t.recent, x)
		}
	}
	for i := range b.shards {
		for k := range b.shards[i].outcomes {
			o := &b.shards[i].outcomes[k]
			w, isReceipt := t.waiting[o.ID]
			tx := w.of
			if isReceipt {
				delete(t.waiting, o.ID)
				tx.waits--
			} else if tx = t.open[o.ID]; tx == nil || len(tx.executed) > 0 {
				continue // of a transaction from before the log began, or a refund
			}
			tx.executed = append(tx.executed, executed{b.height, o, w.receipt})
			for _, id := range o.ReceiptIDs {
				if r := created[id]; r == nil || r.PredecessorID != primitives.SystemAccount {
					t.waiting[id] = waiting{tx, r}
					tx.waits++
				}
			}
			if tx.waits == 0 {
				t.show(tx, out)
				t.end(tx)
			}
		}
	}
	for _, tx := range t.recent[first:] {
		if !tx.ended && len(tx.executed) == 0 { // this node does not execute its shard
			t.end(tx)
		}
	}
}

// review shows transactions that take long as pending, and drops those that are too old.
func (t *tracker) review(height primitives.Height, out *bytes.Buffer) {
	n := 0
	for ; n < len(t.recent) && t.recent[n].height+maxWait <= height; n++ {
		if tx := t.recent[n]; !tx.ended {
			t.show(tx, out)
			t.late = append(t.late, tx)
		}
	}
	t.recent = slices.Delete(t.recent, 0, n)
	for n = 0; n < len(t.late) && t.late[n].height+maxWait+maxAge <= height; n++ {
		if tx := t.late[n]; !tx.ended {
			t.end(tx)
		}
	}
	t.late = slices.Delete(t.late, 0, n)
}
