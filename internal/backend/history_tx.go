package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage/history"
)

// Bounds of the status of one transaction in the history. The gas of a transaction pays for fewer
// outcomes.
const (
	olderOutcomes = 1 << 14
	olderBytes    = 32 << 20 // estimated size of the reply
	olderReads    = 1024     // documents that are read
	// olderSenders is the number of blocks after the sender's block in which the chunk with a receipt is
	// searched. It is the longest time without a chunk of a shard.
	olderSenders = 64
)

// olderTx returns the status of a transaction in the history. ok is false if the history lacks the
// transaction.
//
// All of the transaction's blocks are final, except some of those that the node has executed itself. So
// a level that is not reached will not be reached soon. olderTx then returns ErrTimeout with the status
// at once: it does not wait.
func (b *Backend) olderTx(ctx context.Context, r *view.GetTx) (out *view.FinalOutcome, ok bool, err error) {
	at, ok, err := b.History.Transaction(r.Hash)
	if err != nil || !ok { // a damaged history must not keep the node from serving its own transactions
		return nil, false, nil
	}
	head := b.Engine.Head()
	w := &olderWalk{
		b: b, ctx: ctx, first: r.Hash, head: head.Height(), final: b.Engine.Final().Height, returned: map[primitives.Hash]bool{},
		receipts: map[primitives.Hash]*primitives.Receipt{}, senders: map[primitives.Hash]history.Place{},
	}
	d, err := w.document(at.Height)
	if err != nil {
		return nil, true, err
	}
	tx := transactionIn(d, at.Shard, r.Hash)
	if tx == nil {
		return nil, true, fmt.Errorf("backend: block %d of the history lacks transaction %v, which its index names", at.Height, r.Hash)
	}
	w.count((&view.FinalOutcome{Transaction: tx}).Size(false))
	status := txstatus.Look(tx, w)
	if r.Receipts {
		w.show(&status)
	}
	switch {
	case w.err != nil && ctx.Err() != nil:
		return nil, true, &view.LookupError{Kind: view.ErrTimeout}
	case w.err != nil:
		return nil, true, w.err
	case !txstatus.Meets(status.Level, r.WaitUntil):
		return nil, true, &view.LookupError{Kind: view.ErrTimeout, Level: status.Level, Status: &status}
	}
	return &status, true, nil
}

// olderWalk implements txstatus.Source for a transaction in the history. It keeps the first error.
type olderWalk struct {
	b           *Backend
	ctx         context.Context
	first       primitives.Hash // the transaction
	head, final primitives.Height
	returned    map[primitives.Hash]bool                // ids whose outcomes were returned
	last        *blockdoc.Document                      // the document that was read last; the others may be large
	reads       int                                     // number of documents that were read
	receipts    map[primitives.Hash]*primitives.Receipt // receipts that the history has executed
	senders     map[primitives.Hash]history.Place       // id of a receipt -> where the history has sent it
	size        int
	err         error
}

// errOlderLarge means that a transaction in the history exceeds the bounds of olderTx.
var errOlderLarge = fmt.Errorf("the status of the transaction has more than %d outcomes, or more than %d bytes, or needs more than %d reads of blocks",
	olderOutcomes, olderBytes, olderReads)

// count adds n bytes to the size of the reply.
func (w *olderWalk) count(n int) {
	if w.size += n; w.size > olderBytes {
		w.fail(errOlderLarge)
	}
}

func (w *olderWalk) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// document returns a block of the history.
func (w *olderWalk) document(height primitives.Height) (*blockdoc.Document, error) {
	if w.last != nil && w.last.Block.Header.Height == height {
		return w.last, nil
	}
	if w.reads++; w.reads > olderReads {
		return nil, errOlderLarge
	}
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	d, err := w.b.document(w.ctx, height)
	if err == nil {
		w.last = d
	}
	return d, err
}

// Outcome implements txstatus.Source. It returns each outcome once, so that the walk ends whatever the
// outcomes refer to.
func (w *olderWalk) Outcome(id primitives.Hash) (out view.OutcomeProof, ok bool) {
	if w.err != nil || w.returned[id] {
		return out, false
	}
	if len(w.returned) >= olderOutcomes {
		w.fail(errOlderLarge)
		return out, false
	}
	out, ok, err := w.outcome(id)
	if err != nil {
		w.fail(err)
		return out, false
	}
	if ok {
		w.returned[id] = true
		w.count(view.OutcomeSize(&out))
	}
	return out, ok
}

// hasOutcome returns whether the node's own store has the outcome of a transaction or receipt. Some ids
// in a history are proven by no block (blockfeed.HistoryCheck): such an id must not hide what the node
// has executed.
func (b *Backend) hasOutcome(id primitives.Hash) bool {
	_, _, err := b.Engine.Transactions().Outcome(id)
	return err == nil
}

// outcome looks an outcome up in the node's own store, and then in the history.
func (w *olderWalk) outcome(id primitives.Hash) (out view.OutcomeProof, ok bool, err error) {
	own, place, err := w.b.Engine.Transactions().Outcome(id)
	if !errors.Is(err, engine.ErrUnknown) && !gone(err) {
		return own, err == nil && place.Block.Ref().Height <= w.head, err
	}
	find := w.b.History.Receipt
	if id == w.first {
		find = w.b.History.Transaction
	}
	at, ok, err := find(id)
	if err != nil || !ok {
		return out, false, err
	}
	d, err := w.document(at.Height)
	if err != nil {
		return out, false, err
	}
	o := outcomeIn(d, at.Shard, id)
	if o == nil {
		return out, false, fmt.Errorf("backend: block %d of the history lacks outcome %v, which its index names", at.Height, id)
	}
	if x := executedIn(d, at.Shard, id); x != nil {
		w.receipts[id] = x
	}
	for _, sent := range o.ReceiptIDs {
		w.senders[sent] = at
	}
	return *o, true, nil
}

// IsRefund implements txstatus.Source.
func (w *olderWalk) IsRefund(id primitives.Hash, _ *view.OutcomeProof) bool {
	if w.err != nil {
		return false
	}
	x, err := w.receipt(id)
	return err == nil && x.PredecessorID == primitives.SystemAccount
}

// IsFinal implements txstatus.Source. The history has only final blocks.
func (w *olderWalk) IsFinal(block primitives.Hash) bool {
	if _, ok, err := w.b.History.BlockHeight(block); ok || err != nil {
		return err == nil
	}
	ref, err := w.b.Engine.Ref(block)
	return err == nil && ref.Height <= w.final && w.b.Engine.Canonical(ref)
}

// show sets the receipts of a status.
func (w *olderWalk) show(o *view.FinalOutcome) {
	if o.Transaction == nil {
		return
	}
	for _, id := range txstatus.Receipts(o) {
		if w.err != nil {
			return
		}
		x, err := w.receipt(id)
		if err != nil {
			w.fail(err)
			return
		}
		w.count(view.ReceiptSize(x))
		o.Receipts = append(o.Receipts, x)
	}
}

// receipt returns a receipt of the transaction: from the block of the history that executed it, from
// the node's own store, or from the chunk of the history that contains it.
func (w *olderWalk) receipt(id primitives.Hash) (*primitives.Receipt, error) {
	if x := w.receipts[id]; x != nil {
		return x, nil
	}
	x, err := w.b.Engine.Transactions().Receipt(id)
	if err == nil || !errors.Is(err, engine.ErrUnknown) && !gone(err) {
		return x, err
	}
	at, ok := w.senders[id]
	if !ok {
		return nil, fmt.Errorf("backend: receipt %v: %w", id, err)
	}
	for height := at.Height; height <= at.Height+olderSenders; height++ {
		d, err := w.document(height)
		if errors.Is(err, history.ErrNone) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range d.Shards {
			list := d.Shards[i].Receipts
			if k := slices.IndexFunc(list, func(x *blockdoc.Receipt) bool { return x.ID == id }); k >= 0 {
				return list[k].Receipt, nil
			}
		}
	}
	return nil, fmt.Errorf("backend: receipt %v, which block %d of the history has sent: %w", id, at.Height, err)
}

// Bounds of the blocks of the history that ReceiptToTx reads. The request holds a turn of the heavy limit
// meanwhile. A block of a busy public network takes some tenths of a second to decode.
const (
	olderOrigins     = 200
	olderOriginsTime = 5 * time.Second
)

// olderParent returns the id of the transaction or receipt whose outcome in the history lists a
// receipt. The history has no index for that: olderParent searches the blocks from the one that executed
// the receipt down, in which the sender is one of the first, unless the receipt has waited.
func (o *origin) olderParent(id primitives.Hash) (primitives.Hash, error) {
	at, ok, err := o.History.Receipt(id)
	if err != nil {
		return id, err
	}
	if !ok {
		_, place, err := o.Engine.Transactions().Outcome(id)
		if errors.Is(err, engine.ErrUnknown) || gone(err) {
			return id, unknownOrigin(id)
		}
		if err != nil {
			return id, err
		}
		at.Height = place.Block.Ref().Height
	}
	low, high, ok := o.History.Bounds()
	for height := min(at.Height, high); ok && height >= low; height-- {
		if o.older++; o.older > olderOrigins {
			break
		}
		if now := o.Now(); o.older == 1 {
			o.olderEnd = now.Add(olderOriginsTime)
		} else if now.After(o.olderEnd) {
			return id, &view.OriginError{Kind: view.OriginBudget, Got: o.bounds.MaxOutcomes - o.left, Limit: o.bounds.MaxOutcomes}
		}
		if err := o.ctx.Err(); err != nil {
			return id, err
		}
		d, err := o.document(o.ctx, height)
		if errors.Is(err, history.ErrNone) {
			continue
		}
		if err != nil {
			return id, err
		}
		for i := range d.Shards {
			for k := range d.Shards[i].Outcomes {
				x := &d.Shards[i].Outcomes[k]
				if err := o.pay(); err != nil {
					return id, err
				}
				if slices.Contains(x.ReceiptIDs, id) {
					return x.ID, nil
				}
			}
		}
	}
	return id, unknownOrigin(id)
}

// olderTransaction returns a transaction of the history, or err if the history lacks it.
func (o *origin) olderTransaction(hash primitives.Hash, err error) (*primitives.SignedTransaction, error) {
	at, ok, herr := o.History.Transaction(hash)
	if herr != nil {
		return nil, herr
	}
	if !ok {
		return nil, err
	}
	d, herr := o.document(o.ctx, at.Height)
	if herr != nil {
		return nil, herr
	}
	if tx := transactionIn(d, at.Shard, hash); tx != nil {
		return tx, nil
	}
	return nil, err
}
