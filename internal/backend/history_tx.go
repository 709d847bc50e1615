package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
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
	// olderKept is the number of documents that one look keeps: the receipts of a transaction run in few
	// blocks, and the look visits them several times.
	olderKept = 4
	// olderLooks is the number of looks at a time. Each keeps documents, also while it waits for a turn.
	olderLooks = 16
	// olderPause is the shortest time between two looks of a waiting request.
	olderPause = time.Second
	// olderMissing is the number of outcomes for which a waiting request watches the node's own store.
	olderMissing = 64
	// olderStatus is the size in bytes up to which a waiting request keeps the last status for its timeout.
	olderStatus = 64 << 10
)

// older bounds the concurrent work for transactions in the history.
type older struct {
	looks    chan struct{} // semaphore of looks
	waits    atomic.Int64  // requests that wait
	maxWaits int64
	refused  atomic.Uint64 // requests that maxWaits has refused
}

// DefaultOlderWaits is the default of Options.OlderWaits.
const DefaultOlderWaits = 256

// OlderLoad is the work for requests that the history answers. The limits are those of the fields before
// them.
type OlderLoad struct {
	Reads, MaxReads int // documents that are read now
	ReadWaits       int // requests that wait for another one's read of the same document
	Looks, MaxLooks int // looks at a transaction now
	Waits, MaxWaits int // requests that wait for the rest of a transaction
	// Refused counts requests that MaxWaits has refused, and Late those that have waited too long for
	// another one's read. Both since the start.
	Refused, Late uint64
}

// OlderLoad returns the present work for requests that the history answers.
func (b *Backend) OlderLoad() OlderLoad {
	return OlderLoad{
		Reads: len(b.reads.slots), MaxReads: cap(b.reads.slots), ReadWaits: int(b.reads.waits.Load()),
		Looks: len(b.older.looks), MaxLooks: cap(b.older.looks), Waits: int(b.older.waits.Load()), MaxWaits: int(b.older.maxWaits),
		Refused: b.older.refused.Load(), Late: b.reads.late.Load(),
	}
}

// olderTx returns the status of a transaction in the history. ok is false if the history lacks the
// transaction. If the transaction has not reached the requested level, olderTx waits as Submitter.Tx does:
// the receipts of a transaction of the last imported blocks run in blocks of the node itself.
//
// A waiting request holds neither a turn nor documents. It looks again after a new head that has brought
// a missing outcome or finality, at most once per olderPause. Errors: ErrTimeout with the last level, and
// with the status if that is small; ErrTooManyRequests if Options.OlderWaits requests wait; errOlderLarge.
func (b *Backend) olderTx(ctx context.Context, r *view.GetTx) (out *view.FinalOutcome, ok bool, err error) {
	at, ok, err := b.History.Transaction(r.Hash)
	if err != nil || !ok { // a damaged history must not keep the node from serving its own transactions
		return nil, false, nil
	}
	over := view.LookupError{Kind: view.ErrTimeout}
	waits := false
	defer func() {
		if waits {
			b.older.waits.Add(-1)
		}
	}()
	for {
		moved := b.moves() // taken before the look, so that no head is missed
		begun := time.Now()
		status, still, err := b.lookOlder(ctx, r, at)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, true, &over
		case err != nil:
			return nil, true, err
		case txstatus.Meets(status.Level, r.WaitUntil):
			return status, true, nil
		}
		if over.Level, over.Status = status.Level, nil; status.Size(r.Receipts) <= olderStatus {
			over.Status = status
		}
		if !waits {
			if b.older.waits.Add(1) > b.older.maxWaits {
				b.older.waits.Add(-1)
				b.older.refused.Add(1)
				return nil, true, &view.LookupError{Kind: view.ErrTooManyRequests}
			}
			waits = true
		}
		messages.LeaveTurn(ctx) // a waiting request must hold neither memory nor a turn
		if !b.awaitOlder(ctx, moved, begun.Add(olderPause), still) {
			return nil, true, &over
		}
	}
}

// moves is Submit.Moves. A backend without Submit has a chain that does not move.
func (b *Backend) moves() <-chan struct{} {
	if b.Submit == nil {
		return nil
	}
	return b.Submit.Moves()
}

// awaitOlder waits for a new head that changes the status of a transaction, and until the time next. moved
// is closed by the first head; nil: the chain does not move. The result is false if ctx ends first.
func (b *Backend) awaitOlder(ctx context.Context, moved <-chan struct{}, next time.Time, still olderRest) bool {
	if moved == nil {
		return false
	}
	for {
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		}
		pause := time.NewTimer(time.Until(next))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return false
		}
		moved, next = b.moves(), time.Now().Add(olderPause)
		if b.changed(&still) {
			return true
		}
	}
}

// olderRest is what the status of a transaction in the history waits for.
type olderRest struct {
	missing []primitives.Hash // ids without an outcome; at most olderMissing
	more    bool              // there are more of these
	// final is the lowest height with an outcome that is not final, or 0.
	final primitives.Height
}

// changed returns whether the node's own store has more of what a status waits for.
func (b *Backend) changed(r *olderRest) bool {
	return r.more || r.final > 0 && r.final <= b.Engine.Final().Height || slices.ContainsFunc(r.missing, b.hasOutcome)
}

// lookOlder returns the present status of a transaction that the history has at a place, and what the
// status waits for. It waits for one of the olderLooks places. Errors: those of ctx, errOlderLarge.
func (b *Backend) lookOlder(ctx context.Context, r *view.GetTx, at history.Place) (*view.FinalOutcome, olderRest, error) {
	select {
	case b.older.looks <- struct{}{}:
		defer func() { <-b.older.looks }()
	case <-ctx.Done():
		return nil, olderRest{}, ctx.Err()
	}
	w := &olderWalk{
		b: b, ctx: ctx, first: r.Hash, head: b.Engine.Head().Height(), final: b.Engine.Final().Height, returned: map[primitives.Hash]bool{},
		receipts: map[primitives.Hash]*primitives.Receipt{}, senders: map[primitives.Hash]history.Place{},
	}
	d, err := w.document(at.Height)
	if err != nil {
		return nil, w.rest, err
	}
	tx := transactionIn(d, at.Shard, r.Hash)
	if tx == nil {
		return nil, w.rest, fmt.Errorf("backend: block %d of the history lacks transaction %v, which its index names", at.Height, r.Hash)
	}
	w.count((&view.FinalOutcome{Transaction: tx}).Size(false))
	status := txstatus.Look(tx, w)
	if r.Receipts {
		w.show(&status)
	}
	return &status, w.rest, w.err
}

// olderWalk implements txstatus.Source for a transaction in the history. It keeps the first error.
type olderWalk struct {
	b           *Backend
	ctx         context.Context
	first       primitives.Hash // the transaction
	head, final primitives.Height
	returned    map[primitives.Hash]bool                // ids whose outcomes were returned
	kept        []*blockdoc.Document                    // documents that were used last, the last one first; at most olderKept
	reads       int                                     // number of documents that were read
	receipts    map[primitives.Hash]*primitives.Receipt // receipts that the history has executed
	senders     map[primitives.Hash]history.Place       // id of a receipt -> where the history has sent it
	rest        olderRest
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

// document returns a block of the history. Before each read but the first the request gives its turn
// back, so that other requests are served between the reads.
func (w *olderWalk) document(height primitives.Height) (*blockdoc.Document, error) {
	for i, d := range w.kept {
		if d.Block.Header.Height == height {
			copy(w.kept[1:i+1], w.kept[:i])
			w.kept[0] = d
			return d, nil
		}
	}
	if w.reads++; w.reads > olderReads {
		return nil, errOlderLarge
	}
	if w.reads > 1 {
		messages.LeaveTurn(w.ctx)
	}
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	d, err := w.b.document(w.ctx, height)
	if err == nil {
		w.kept = slices.Insert(w.kept[:min(len(w.kept), olderKept-1)], 0, d)
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
	switch {
	case ok:
		w.returned[id] = true
		w.count(view.OutcomeSize(&out))
	case len(w.rest.missing) < olderMissing:
		w.rest.missing = append(w.rest.missing, id)
	default:
		w.rest.more = true
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
	if err == nil {
		height := place.Block.Ref().Height
		if height > w.final && (w.rest.final == 0 || height < w.rest.final) {
			w.rest.final = height
		}
		return own, height <= w.head, nil
	}
	if !errors.Is(err, engine.ErrUnknown) && !gone(err) {
		return own, false, err
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
	if err != nil && !errors.Is(err, errNoReceipt) {
		w.fail(err)
	}
	return err == nil && x.PredecessorID == primitives.SystemAccount
}

// IsFinal implements txstatus.Source. The history has only final blocks.
func (w *olderWalk) IsFinal(block primitives.Hash) bool {
	switch _, ok, err := w.b.History.BlockHeight(block); {
	case err != nil:
		w.fail(err)
		return false
	case ok:
		return true
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

// errNoReceipt means that no block has the body of a receipt.
var errNoReceipt = errors.New("the receipt is not found")

// receipt returns a receipt of the transaction: from the block of the history that executed it, from
// the node's own store, whose index has the receipts in the chunks of its first blocks too, or from the
// chunk of the history that contains it. Errors: errNoReceipt, which tx_status returns as an internal
// error, as neard does (nearcore chain/chain/src/chain.rs:3149). Such a receipt is that of a promise that
// was yielded in the history and is resumed above: no chunk contains it.
func (w *olderWalk) receipt(id primitives.Hash) (*primitives.Receipt, error) {
	if x := w.receipts[id]; x != nil {
		return x, nil
	}
	x, err := w.b.Engine.Transactions().Receipt(id)
	if err == nil || !errors.Is(err, engine.ErrUnknown) && !gone(err) {
		return x, err
	}
	if at, ok, err := w.b.History.Sent(id); err != nil {
		return nil, err
	} else if ok {
		d, err := w.document(at.Height)
		if err != nil {
			return nil, err
		}
		if x := sentIn(d, at.Shard, id); x != nil {
			w.receipts[id] = x
			return x, nil
		}
	}
	at, ok := w.senders[id]
	if !ok {
		return nil, fmt.Errorf("receipt %v: %w", id, errNoReceipt)
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
				w.receipts[id] = list[k].Receipt
				return list[k].Receipt, nil
			}
		}
	}
	return nil, fmt.Errorf("receipt %v, which block %d of the history has sent: %w", id, at.Height, errNoReceipt)
}

// Bounds of the blocks of the history that ReceiptToTx reads. The request gives its turn of the heavy limit
// back between two of them. A block of a busy public network takes some tenths of a second to decode.
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
		messages.LeaveTurn(o.ctx)
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
