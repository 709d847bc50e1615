package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage/history"
)

// History is an imported history: blocks of the chain below the first block that the node has
// executed, which a feed has published and which were verified by their hashes. The methods are those
// of history.Store. They are safe for concurrent use.
//
// # How old blocks are served
//
// Problem: an archival node that began by state sync has no older block. A client must get the reply
// that a node with the whole chain gives, although a history has documents instead of records.
//
// Outline: each read looks into the node's own store first. If that read ends in an unknown block,
// chunk, transaction or receipt, the read looks the id up in the history, and makes the reply from the
// block's document. The status of a transaction comes from both: its receipts may be executed in the
// node's own blocks (olderTx).
//
// Invariants: the documents' values pass through package view, as all values do. So the replies have
// the form of this program's replies, whichever nearcore release the feed ran. No hash is computed from
// a value that lacks data: a document's transaction has the hash that its outcome proves, and code has
// the hash in the view. Documents are shared with other readers, so they are only read.
//
// Bounds: a document may have many megabytes. A request takes a turn of the heavy limit before it reads
// one (messages.TakeLarge). The history bounds the documents in memory. Requests for the same document
// share the read (documentReads). Transactions have the bounds of olderTx.
//
// Not served: state, changes, messages for indexers (nothing proves state changes), validators and
// configurations of old epochs, and light client proofs (they need the Merkle trees of all blocks). The
// member values in blockdoc.Uncovered are those of the feed.
type History interface {
	Bounds() (lowest, highest primitives.Height, ok bool)
	Document(primitives.Height) (*blockdoc.Document, error)
	BlockHeight(primitives.Hash) (primitives.Height, bool, error)
	Chunk(primitives.Hash) (history.Place, bool, error)
	Transaction(primitives.Hash) (history.Place, bool, error)
	Receipt(primitives.Hash) (history.Place, bool, error)
	Sent(primitives.Hash) (history.Place, bool, error)
}

// Bounds of the reads of documents.
const (
	olderDecoders = 4                // documents that are read at the same time
	olderPatience = 10 * time.Second // longest wait for another request's read
)

// errOlderBusy means that a request has waited for olderPatience.
var errOlderBusy = fmt.Errorf("the requests for this old block have found no free reader within %v", olderPatience)

// documentReads lets concurrent requests for the same document share one read.
//
// Problem: a document may take some tenths of a second to decode and be too large for the cache of the
// history. A block explorer's page makes many clients ask for the same block at once.
//
// Outline: the first request for a height reads the document in its own turn of the heavy limit. The
// others give their turns back, and wait until it is done. If the first request gets no turn, or ends
// before, one of the others takes its place. So a request that ends leaves the queue at once, and no work
// continues for it.
//
// Rejected: a read in a goroutine of its own. It would hold no turn, so that it could take the processors
// from small requests, and would go on after its clients have left.
type documentReads struct {
	mu    sync.Mutex
	by    map[primitives.Height]*documentRead
	slots chan struct{} // semaphore of readers, as in the history, but left when a request ends
	waits atomic.Int64  // requests that wait for another one's read
	late  atomic.Uint64 // requests that ended with errOlderBusy
}

type documentRead struct {
	done chan struct{} // closed when the fields below are set
	d    *blockdoc.Document
	err  error
	// failed is set if the first request did not read, for a reason of its own.
	failed bool
}

// join returns the read of a height. first is true if the caller has to make the read.
func (s *documentReads) join(height primitives.Height) (r *documentRead, first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.by[height]; r != nil {
		return r, false
	}
	if s.by == nil {
		s.by = map[primitives.Height]*documentRead{}
	}
	r = &documentRead{done: make(chan struct{}), failed: true}
	s.by[height] = r
	return r, true
}

// end ends a read.
func (s *documentReads) end(height primitives.Height, r *documentRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by, height)
	close(r.done)
}

// document returns the block of the history at a height. The request of ctx first waits until it may
// read a large value. Errors: history.ErrNone, errOlderBusy, that of ctx. An import commits the rows of its index
// together with their blocks, but moves Bounds a moment later. So a height from the index is not compared
// with Bounds.
func (b *Backend) document(ctx context.Context, height primitives.Height) (*blockdoc.Document, error) {
	var limit <-chan time.Time
	for {
		r, first := b.reads.join(height)
		if first {
			return b.readDocument(ctx, height, r)
		}
		messages.LeaveTurn(ctx) // the first request may wait for this turn
		if limit == nil {
			timer := time.NewTimer(olderPatience)
			defer timer.Stop()
			limit = timer.C
		}
		if err := b.reads.wait(ctx, r, limit); err != nil {
			return nil, err
		}
		if r.failed {
			continue
		}
		if err := messages.TakeLarge(ctx); err != nil {
			return nil, err
		}
		return r.d, r.err
	}
}

// wait waits for the end of another request's read. Errors: errOlderBusy after limit, that of ctx.
func (s *documentReads) wait(ctx context.Context, r *documentRead, limit <-chan time.Time) error {
	s.waits.Add(1)
	defer s.waits.Add(-1)
	select {
	case <-r.done:
		return nil
	case <-limit:
		s.late.Add(1)
		return errOlderBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

// readDocument makes a read that other requests may share.
func (b *Backend) readDocument(ctx context.Context, height primitives.Height, r *documentRead) (*blockdoc.Document, error) {
	defer b.reads.end(height, r)
	if err := messages.TakeLarge(ctx); err != nil {
		return nil, err
	}
	select {
	case b.reads.slots <- struct{}{}:
		defer func() { <-b.reads.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.d, r.err = b.History.Document(height)
	r.failed = false
	return r.d, r.err
}

// lacks returns the LookupError in err if it says that the node's own store lacks something for which
// the history is searched, else nil.
func (b *Backend) lacks(err error, kinds ...view.LookupKind) *view.LookupError {
	var missing *view.LookupError
	if b.History == nil || !errors.As(err, &missing) || !slices.Contains(kinds, missing.Kind) {
		return nil
	}
	return missing
}

// olderBlock returns the block of the history that r names. err is the error of the node's own store.
// olderBlock returns err if it does not say that the block is unknown, or if the history lacks the
// block too.
func (b *Backend) olderBlock(ctx context.Context, r view.BlockRef, err error) (*blockdoc.Document, error) {
	if b.lacks(err, view.ErrUnknownHeight, view.ErrUnknownBlock) == nil {
		return nil, err
	}
	height := r.Height
	switch r.Kind {
	case view.RefHeight: // the heights of clients that the history cannot have take no turn
		if low, high, ok := b.History.Bounds(); !ok || height < low || height > high {
			return nil, err
		}
	case view.RefHash:
		at, ok, herr := b.History.BlockHeight(r.Hash)
		if herr != nil {
			return nil, herr
		}
		if !ok {
			return nil, err
		}
		height = at
	default: // the node's own store has the blocks of the other references
		return nil, err
	}
	d, herr := b.document(ctx, height)
	switch {
	case errors.Is(herr, history.ErrNone):
		return nil, err
	case herr != nil:
		return nil, herr
	case r.Kind == view.RefHash && d.Hash != r.Hash:
		return nil, fmt.Errorf("backend: the history has block %v at height %d, and its index has %v", d.Hash, height, r.Hash)
	}
	return d, nil
}

// olderChunk returns the chunk of the history with a hash. err is the error of the node's own store,
// which olderChunk returns if the history lacks the chunk too.
func (b *Backend) olderChunk(ctx context.Context, hash primitives.Hash, err error) (primitives.AccountID, *primitives.Chunk, error) {
	at, ok, herr := b.History.Chunk(hash)
	if herr != nil {
		return "", nil, herr
	}
	if !ok {
		return "", nil, err
	}
	d, err := b.document(ctx, at.Height)
	if err != nil {
		return "", nil, err
	}
	return chunkOf(d, at.Shard, hash)
}

// chunkOf returns the new chunk of a shard in a document, with its producer. Errors: ErrUnknownChunk.
func chunkOf(d *blockdoc.Document, id primitives.ShardID, hash primitives.Hash) (primitives.AccountID, *primitives.Chunk, error) {
	author, c := d.ViewedChunk(id)
	if c == nil || c.Hash != hash {
		return "", nil, &view.LookupError{Kind: view.ErrUnknownChunk, Hash: hash}
	}
	return author, c, nil
}

// olderReceipt returns a receipt that a block of the history has executed, or that one of its chunks
// contains. err is the error of the node's own store, which olderReceipt returns if the history lacks the
// receipt too.
func (b *Backend) olderReceipt(ctx context.Context, id primitives.Hash, err error) (*primitives.Receipt, error) {
	in := executedIn
	at, ok, herr := b.History.Receipt(id)
	if herr == nil && !ok {
		in = sentIn
		at, ok, herr = b.History.Sent(id)
	}
	if herr != nil {
		return nil, herr
	}
	if !ok {
		return nil, err
	}
	d, herr := b.document(ctx, at.Height)
	if herr != nil {
		return nil, herr
	}
	if x := in(d, at.Shard, id); x != nil {
		return x, nil
	}
	return nil, err
}

// sentIn returns the receipt with an id that the chunk of a shard contains in a block, or nil.
func sentIn(d *blockdoc.Document, id primitives.ShardID, receipt primitives.Hash) *primitives.Receipt {
	s := d.Shard(id)
	if s == nil {
		return nil
	}
	for _, x := range s.Receipts {
		if x.ID == receipt {
			return x.Receipt
		}
	}
	return nil
}

// executedIn returns the receipt with an id that a shard has executed in a block, or nil.
func executedIn(d *blockdoc.Document, id primitives.ShardID, receipt primitives.Hash) *primitives.Receipt {
	s := d.Shard(id)
	if s == nil {
		return nil
	}
	for _, x := range s.Executed {
		if x.ID == receipt {
			return x.Receipt
		}
	}
	return nil
}

// outcomeIn returns the outcome with an id that a shard has in a block, or nil.
func outcomeIn(d *blockdoc.Document, id primitives.ShardID, outcome primitives.Hash) *view.OutcomeProof {
	s := d.Shard(id)
	if s == nil {
		return nil
	}
	for i := range s.Outcomes {
		if s.Outcomes[i].ID == outcome {
			return &s.Outcomes[i]
		}
	}
	return nil
}

// transactionIn returns the transaction with a hash that a shard has in a block, or nil.
func transactionIn(d *blockdoc.Document, id primitives.ShardID, hash primitives.Hash) *primitives.SignedTransaction {
	s := d.Shard(id)
	if s == nil {
		return nil
	}
	for _, t := range s.Transactions {
		if t.Named == hash {
			return t.SignedTransaction
		}
	}
	return nil
}
