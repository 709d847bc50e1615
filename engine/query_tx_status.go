package engine

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/chain/txstatus"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// ErrUnknown means that a transaction, receipt, block or chunk is not on the canonical chain.
var ErrUnknown = errors.New("engine: not found on this node's chain")

// Transactions reads the transactions, receipts and outcomes of the canonical chain from the store.
// It has no data of its own. Safe for concurrent use.
type Transactions struct {
	store *storage.Store
	chain canonicalChain
}

// canonicalChain is what Transactions reads of the engine. All methods are safe for concurrent use.
type canonicalChain interface {
	Canonical(storage.BlockRef) bool
	Ref(primitives.Hash) (storage.BlockRef, error)
	persisted() (head *BlockNode, final storage.BlockRef)
}

// Transactions returns the reader of transactions.
func (e *Engine) Transactions() *Transactions { return e.transactions }

// persisted returns the persisted head and the last final block according to it.
func (e *Engine) persisted() (*BlockNode, storage.BlockRef) {
	at := e.view.Load()
	return at.entry, at.final
}

// Outcome returns the outcome of a transaction or receipt on the canonical chain, with the
// outcome's proof and its place in the store. Outcome returns ErrUnknown if there is no such
// outcome.
func (q *Transactions) Outcome(id primitives.Hash) (view.OutcomeProof, storage.Place, error) {
	return q.outcomeFrom(id, 0)
}

// outcomeFrom does the same as Outcome, but outcomeFrom searches only blocks at or above the height
// `from`.
func (q *Transactions) outcomeFrom(
	id primitives.Hash,
	from primitives.Height,
) (view.OutcomeProof, storage.Place, error) {
	places, err := q.store.Find().OutcomeFrom(id, from)
	if err != nil {
		return view.OutcomeProof{}, storage.Place{}, err
	}
	for _, p := range places {
		if !q.chain.Canonical(p.Block.Ref()) {
			continue
		}
		o, err := q.outcomeAt(p)
		return o, p, err
	}
	return view.OutcomeProof{}, storage.Place{}, fmt.Errorf("%w: outcome %v", ErrUnknown, id)
}

// Canonical returns whether a block is on the chain of the head.
func (e *Engine) Canonical(ref storage.BlockRef) bool {
	at := e.Head()
	for at != nil && at.Height() > ref.Height {
		next := e.BlockNode(at.Header().PrevHash)
		if next == nil { // next is below the blocks in memory, where the store has only the canonical chain
			ok, err := e.store.IsCanonical(ref)
			return err == nil && ok
		}
		at = next
	}
	return at != nil && at.Hash == ref.Hash
}

// outcomeAt reads an outcome and builds its proof up to the outcome root of its chunk. The store
// caches the Merkle tree of the chunk's outcomes, because clients that wait for a block request
// many outcomes of the same chunk.
func (q *Transactions) outcomeAt(p storage.Place) (view.OutcomeProof, error) {
	var out view.OutcomeProof
	tree, err := p.Block.OutcomeTree(p.Shard, func(o *storage.Outcome) (primitives.Hash, error) {
		x, err := decodeOutcome(o)
		return x.LeafHash(), err
	})
	if err != nil {
		return out, err
	}
	own, err := p.Block.Outcome(p.Shard, p.Index)
	if err != nil {
		return out, err
	}
	if out.OutcomeWithID, err = decodeOutcome(&own); err != nil {
		return out, err
	}
	out.BlockHash, out.Proof = p.Block.Ref().Hash, tree.Path(p.Index)
	return out, nil
}

func decodeOutcome(o *storage.Outcome) (primitives.OutcomeWithID, error) {
	x := primitives.OutcomeWithID{ID: o.ID}
	if err := borsh.Unmarshal(o.Value, &x.Outcome); err != nil {
		return x, fmt.Errorf("engine: read outcome %v: %w", x.ID, err)
	}
	return x, nil
}

// Transaction returns a transaction of the canonical chain, and the transaction's place in the
// store. It returns ErrUnknown if there is no such transaction.
func (q *Transactions) Transaction(hash primitives.Hash) (*primitives.SignedTransaction, storage.Place, error) {
	places, err := q.store.Find().Transaction(hash)
	if err != nil {
		return nil, storage.Place{}, err
	}
	for _, p := range places {
		if !q.chain.Canonical(p.Block.Ref()) {
			continue
		}
		raw, err := p.Block.Transaction(p.Shard, p.Index)
		if err != nil {
			return nil, p, err
		}
		tx := new(primitives.SignedTransaction)
		return tx, p, borsh.Unmarshal(raw.Value, tx)
	}
	return nil, storage.Place{}, fmt.Errorf("%w: transaction %v", ErrUnknown, hash)
}

// Receipt returns a receipt of the canonical chain. It returns ErrUnknown if there is no such
// receipt.
func (q *Transactions) Receipt(id primitives.Hash) (*primitives.Receipt, error) {
	places, err := q.store.Find().Receipt(id)
	if err != nil {
		return nil, err
	}
	return q.receiptAt(id, places)
}

// receiptAt returns the receipt from the first of the places that is on the canonical chain. A
// place in a garbage collected block counts too: the oldest remaining block executes receipts that
// the block before it sent.
func (q *Transactions) receiptAt(id primitives.Hash, places []storage.Place) (*primitives.Receipt, error) {
	for _, p := range places {
		if ref := p.Block.Ref(); !q.chain.Canonical(ref) {
			if collected, err := q.store.IsCollected(ref); err != nil || !collected {
				continue
			}
		}
		raw, err := p.Receipt()
		if err != nil {
			return nil, err
		}
		x := new(primitives.Receipt)
		return x, borsh.Unmarshal(raw.Value, x)
	}
	return nil, fmt.Errorf("%w: receipt %v", ErrUnknown, id)
}

// source implements txstatus.Source for the canonical chain up to a head. A source keeps the first
// error other than ErrUnknown in err.
type source struct {
	q           *Transactions
	head, final primitives.Height
	since       map[primitives.Hash]primitives.Height // id -> height below which no block contains its outcome
	made        map[primitives.Hash]storage.Place     // id of a receipt -> place of the outcome that lists it
	err         error
	most        int // maximum size of the reply in bytes; 0: no limit
	size        int // size of the reply so far in bytes
}

// ErrLarge means that a transaction status is larger than the caller's limit.
var ErrLarge = errors.New("engine: the transaction status is larger than the limit")

// count adds n bytes to the reply's size. It sets err to ErrLarge if the size exceeds the limit.
func (s *source) count(n int) {
	if s.size += n; s.most > 0 && s.size > s.most && s.err == nil {
		s.err = ErrLarge
	}
}

// outcomesOf returns the source for the status of the transaction with this hash and place. The
// source searches outcomes only in the transaction's block and the blocks after that block.
func (q *Transactions) outcomesOf(hash primitives.Hash, place storage.Place, head, final primitives.Height) *source {
	return &source{
		q:     q,
		head:  head,
		final: final,
		since: map[primitives.Hash]primitives.Height{hash: place.Block.Ref().Height},
		made:  map[primitives.Hash]storage.Place{},
	}
}

func (s *source) Outcome(id primitives.Hash) (view.OutcomeProof, bool) {
	if s.err == ErrLarge {
		return view.OutcomeProof{}, false
	}
	o, p, err := s.q.outcomeFrom(id, s.since[id])
	if err != nil && !errors.Is(err, ErrUnknown) && s.err == nil {
		s.err = err
	}
	if err == nil {
		s.count(view.OutcomeSize(&o))
		for _, sent := range o.Outcome.ReceiptIDs {
			s.since[sent], s.made[sent] = p.Block.Ref().Height, p
		}
	}
	return o, err == nil && p.Block.Ref().Height <= s.head
}

func (s *source) IsRefund(id primitives.Hash, _ *view.OutcomeProof) bool {
	if s.err == ErrLarge {
		return false
	}
	x, err := s.receipt(id)
	return err == nil && x.PredecessorID == primitives.SystemAccount
}

// receipt does the same as Transactions.Receipt. source.receipt is faster if s has already read the
// outcome that lists the receipt.
func (s *source) receipt(id primitives.Hash) (*primitives.Receipt, error) {
	by, ok := s.made[id]
	if !ok {
		return s.q.Receipt(id)
	}
	places, err := s.q.store.Find().ReceiptOf(id, &by)
	if err != nil {
		return nil, err
	}
	return s.q.receiptAt(id, places)
}

func (s *source) IsFinal(block primitives.Hash) bool {
	ref, err := s.q.chain.Ref(block)
	return err == nil && ref.Height <= s.final && s.q.chain.Canonical(ref)
}

// Ref returns the height and hash of a block on any branch. It returns storage.ErrNotFound or
// storage.ErrGone if there is no such block.
func (e *Engine) Ref(hash primitives.Hash) (storage.BlockRef, error) {
	if x := e.BlockNode(hash); x != nil {
		return ref(x), nil
	}
	rec, err := e.store.BlockByHash(hash)
	if err != nil {
		return storage.BlockRef{}, err
	}
	return rec.Ref(), nil
}

// FullStatus returns the status of a transaction with its receipts (txstatus.Receipts). It
// returns ErrUnknown if no block of the canonical chain contains the transaction.
func (q *Transactions) FullStatus(hash primitives.Hash) (view.FinalOutcome, error) {
	head, final := q.chain.persisted()
	return q.FullStatusAt(hash, head.Height(), final.Height)
}

// FullStatusAt returns what FullStatus returned at an earlier time: when the
// canonical block of height head was the head, and the canonical block of height final was the last
// final block.
func (q *Transactions) FullStatusAt(hash primitives.Hash, head, final primitives.Height) (view.FinalOutcome, error) {
	return q.StatusWithin(hash, head, final, true, 0)
}

// Status does the same as FullStatus without the receipts. Most callers do not need the
// receipts, and finding them is expensive. If a receipt was executed in the block after the block
// that sent it, the search goes through all receipts that the sending block sent.
func (q *Transactions) Status(hash primitives.Hash) (view.FinalOutcome, error) {
	head, final := q.chain.persisted()
	return q.StatusAt(hash, head.Height(), final.Height)
}

// StatusAt does the same as FullStatusAt without the receipts.
func (q *Transactions) StatusAt(hash primitives.Hash, head, final primitives.Height) (view.FinalOutcome, error) {
	return q.StatusWithin(hash, head, final, false, 0)
}

// StatusWithin does the same as FullStatusAt if receipts is set, otherwise the same as
// StatusAt. most limits the size of the reply in bytes; 0: no limit. If the reply would be larger,
// StatusWithin returns ErrLarge without reading much more than the limit.
func (q *Transactions) StatusWithin(
	hash primitives.Hash,
	head, final primitives.Height,
	receipts bool,
	most int,
) (out view.FinalOutcome, err error) {
	tx, place, err := q.Transaction(hash)
	if err != nil {
		return out, err
	}
	if place.Block.Ref().Height > head {
		return out, fmt.Errorf("%w: transaction %v up to height %d", ErrUnknown, hash, head)
	}
	src := q.outcomesOf(hash, place, head, final)
	src.most = most
	src.count((&view.FinalOutcome{Transaction: tx}).Size(false))
	out = txstatus.Look(tx, src)
	if !receipts || src.err != nil {
		return out, src.err
	}
	for _, id := range txstatus.Receipts(&out) {
		x, err := src.receipt(id)
		if err != nil {
			return out, err
		}
		out.Receipts = append(out.Receipts, x)
		if src.count(view.ReceiptSize(x)); src.err != nil {
			return out, src.err
		}
	}
	return out, nil
}
