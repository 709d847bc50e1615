package txlog

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of a tracker.
const (
	maxOpen      = 20_000   // transactions that have not ended
	maxHeld      = 64 << 20 // maximum bytes of memory of these transactions with their outcomes and receipts
	maxCanonical = 1024     // recent canonical blocks
	maxSide      = 16       // recent blocks of other branches
	// maxWait is the number of blocks after which an unfinished transaction is shown as pending. A
	// yielded promise may wait for 200 blocks.
	maxWait = 12
	// maxAge is the number of further blocks for which a pending transaction is tracked. Without
	// this bound, a transaction with a receipt to a shard that this node does not track would be
	// pending forever.
	maxAge = 1000
)

// tracker follows transactions through the canonical blocks until all their receipts except refunds
// have run. Not safe for concurrent use.
//
// A block is applied when it becomes canonical. If canonical blocks are replaced, the tracker first
// undoes the effects of the replaced blocks: it drops the transactions that these blocks include,
// and receipts that ran in these blocks wait again.
type tracker struct {
	o         *Options
	accounts  map[primitives.AccountID]bool // set of Options.Accounts
	canonical []seen                        // oldest first
	side      []*block
	open      map[primitives.Hash]*transaction // by the transaction's hash
	recent    []*transaction                   // transactions in the last maxWait blocks, oldest first; some have ended
	// transactions of blocks below the current one, oldest first; some have ended
	late    []*transaction
	waiting map[primitives.Hash]waiting // receipts of open transactions that have not run, by id
	held    int                         // bytes of memory of the open transactions
	dropped int                         // number of transactions dropped because of maxOpen or maxHeld, not reported yet
}

type seen struct {
	hash         primitives.Hash
	height       primitives.Height
	transactions int
}

// transaction is an open transaction.
type transaction struct {
	hash             primitives.Hash
	signer, receiver primitives.AccountID
	actions          named
	height           primitives.Height
	executed         []executed // in order of execution; the first is the transaction's own outcome
	waits            int        // number of the transaction's receipts in tracker.waiting
	held             int        // the transaction's share of tracker.held
	ended            bool       // if true, the other fields except height are no longer valid
}

// executed is an outcome with the actions of its receipt. The outcome is a copy. A pointer to it
// would keep all outcomes of its chunk in memory.
type executed struct {
	height  primitives.Height
	outcome primitives.OutcomeWithID
	what    named
}

type waiting struct {
	of   *transaction
	what named
}

func newTracker(o *Options) *tracker {
	t := &tracker{o: o, open: map[primitives.Hash]*transaction{}, waiting: map[primitives.Hash]waiting{},
		accounts: map[primitives.AccountID]bool{}}
	for _, id := range o.Accounts {
		t.accounts[id] = true
	}
	return t
}

// hold adds n bytes to the memory of a transaction.
func (t *tracker) hold(tx *transaction, n int) {
	tx.held += n
	t.held += n
}

// wait adds a receipt for which a transaction waits.
func (t *tracker) wait(tx *transaction, id primitives.Hash, what named) {
	t.waiting[id] = waiting{tx, what}
	tx.waits++
	t.hold(tx, weightReceipt+what.weight())
}

// arrive removes a receipt from tracker.waiting, because the receipt has run.
func (t *tracker) arrive(id primitives.Hash) {
	w := t.waiting[id]
	delete(t.waiting, id)
	w.of.waits--
	t.hold(w.of, -weightReceipt-w.what.weight())
}

// execute adds an outcome to a transaction.
func (t *tracker) execute(tx *transaction, e executed) {
	tx.executed = append(tx.executed, e)
	t.hold(tx, outcomeWeight(&e.outcome)+e.what.weight())
}

// makeRoom drops the oldest transactions until the rest is within the bounds. makeRoom begins with
// the transactions that are already shown as pending.
func (t *tracker) makeRoom() {
	for len(t.open) > maxOpen || t.held > maxHeld {
		var tx *transaction
		if len(t.late) > 0 {
			tx, t.late = t.late[0], t.late[1:]
		} else {
			tx, t.recent = t.recent[0], t.recent[1:]
			if !tx.ended {
				t.dropped++
			}
		}
		if !tx.ended {
			t.end(tx)
		}
	}
}

// forget drops all open transactions after a gap in the blocks. The result is the number of dropped
// transactions.
func (t *tracker) forget() int {
	n := len(t.open)
	t.canonical, t.side, t.recent, t.late, t.held = nil, nil, nil, nil, 0
	clear(t.open)
	clear(t.waiting)
	return n
}

// accept processes a block and appends the text to show.
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
	case len(t.canonical) > 0: // after a state sync, or after a rollback beyond maxCanonical
		if n := t.forget(); n > 0 {
			fmt.Fprintf(out, "%s not shown: block %d does not follow the last one\n", count(n, "transaction"), b.height)
		}
	}
	for _, p := range path {
		t.apply(p, out)
	}
	t.review(b.height, out)
	if t.dropped > 0 {
		fmt.Fprintf(out, "%s not shown: too many wait for their receipts\n", count(t.dropped, "transaction"))
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

// undo removes the effects on an open transaction of blocks above a height.
func (t *tracker) undo(tx *transaction, height primitives.Height) {
	for len(tx.executed) > 0 && tx.executed[len(tx.executed)-1].height > height {
		e := tx.executed[len(tx.executed)-1]
		tx.executed = tx.executed[:len(tx.executed)-1]
		t.hold(tx, -outcomeWeight(&e.outcome)-e.what.weight())
		for _, id := range e.outcome.ReceiptIDs {
			if t.waiting[id].of == tx { // false if the receipt is a refund
				t.arrive(id)
			}
		}
		if e.outcome.ID != tx.hash {
			t.wait(tx, e.outcome.ID, e.what)
		}
	}
	if len(tx.executed) == 0 {
		t.end(tx)
	}
}

// end removes an open transaction and frees the transaction's memory.
func (t *tracker) end(tx *transaction) {
	delete(t.open, tx.hash)
	for i := range tx.executed {
		for _, id := range tx.executed[i].outcome.ReceiptIDs {
			if tx.waits > 0 && t.waiting[id].of == tx {
				t.arrive(id)
			}
		}
	}
	t.held -= tx.held
	*tx = transaction{height: tx.height, ended: true}
}

// apply applies the next canonical block.
func (t *tracker) apply(b *block, out *bytes.Buffer) {
	if len(t.canonical) >= 2*maxCanonical {
		t.canonical = append(t.canonical[:0], t.canonical[maxCanonical:]...)
	}
	t.canonical = append(t.canonical, seen{b.hash, b.height, b.transactions()})
	created := map[primitives.Hash]*primitives.Receipt{}
	var fresh []*transaction
	for i := range b.shards {
		for _, r := range b.shards[i].outgoing {
			created[r.ID] = r
		}
		for _, tx := range b.shards[i].transactions {
			if t.open[tx.Hash()] != nil {
				continue // a second inclusion has no effect
			}
			x := &transaction{hash: tx.Hash(), signer: tx.SignerID, receiver: tx.ReceiverID, actions: newNamed(tx.Actions), height: b.height}
			t.open[x.hash], t.recent, fresh = x, append(t.recent, x), append(fresh, x)
			t.hold(x, weightTx+x.actions.weight())
			t.makeRoom()
		}
	}
	for i := range b.shards {
		for k := range b.shards[i].outcomes {
			o := &b.shards[i].outcomes[k]
			w, isReceipt := t.waiting[o.ID]
			tx := w.of
			if isReceipt {
				t.arrive(o.ID)
			} else if tx = t.open[o.ID]; tx == nil || len(tx.executed) > 0 {
				continue // the receipt belongs to a transaction from before the log began, or is a refund
			}
			t.execute(tx, executed{b.height, *o, w.what})
			for _, id := range o.ReceiptIDs {
				switch r := created[id]; {
				case r == nil:
					t.wait(tx, id, named{})
				case r.PredecessorID != primitives.SystemAccount:
					var what named
					if a, ok := r.Body.(*primitives.ActionReceipt); ok {
						what = newNamed(a.Actions)
					}
					t.wait(tx, id, what)
				}
			}
			if tx.waits == 0 {
				t.show(tx, out)
				t.end(tx)
			}
			t.makeRoom()
		}
	}
	for _, tx := range fresh {
		if !tx.ended && len(tx.executed) == 0 { // this node does not track the transaction's shard
			t.end(tx)
		}
	}
}

// review shows transactions older than maxWait as pending, and drops the transactions older than
// maxAge.
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
