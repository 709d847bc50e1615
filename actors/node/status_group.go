package node

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// statusGroup lets concurrent requests for the same transaction status share one read of the store
// and one JSON text. A transaction may have a thousand outcomes and thousands of waiting clients,
// and each request would otherwise read all outcomes. statusKey identifies a status: the
// transaction, the position of the chain, and whether receipts are included. Safe for concurrent
// use.
type statusGroup struct {
	mu     sync.Mutex
	m      map[statusKey]*statusRead
	bytes  int64         // total size of the kept statuses
	reads  atomic.Uint64 // number of reads from the store
	shared atomic.Uint64 // number of requests that used another request's read
}

// maxSharedBytes is the maximum size of all kept statuses. Each status counts twice, because its
// JSON text is kept too. A status that does not fit is not kept: the requests for such a status
// read the store one after another.
const maxSharedBytes = 32 << 20

// statusKey identifies a status.
type statusKey struct {
	hash     primitives.Hash
	at       messages.Position
	receipts bool
}

// statusRead is the read that the requests for one status share.
type statusRead struct {
	key   statusKey
	users int // number of requests that use the read; guarded by statusGroup.mu

	large atomic.Bool // the status is larger than smallStatus

	mu   sync.Mutex         // locked during the read; guards out, err, head
	out  *view.FinalOutcome // nil: not read yet, or too large to keep
	err  error              // set if the transaction is unknown
	head storage.BlockRef   // the head at the time of the read
	kept int64              // size of out in statusGroup.bytes, guarded by statusGroup.mu
}

// join returns the shared read of a status and registers one more request for that status. The
// request must call leave when it is done.
func (s *statusGroup) join(k statusKey) *statusRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.m[k]
	if x == nil {
		if s.m == nil {
			s.m = map[statusKey]*statusRead{}
		}
		x = &statusRead{key: k}
		s.m[k] = x
	}
	x.users++
	return x
}

// leave unregisters a request. The last one to leave removes the status.
func (s *statusGroup) leave(x *statusRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(s.m, x.key)
		s.bytes -= x.kept
	}
}

// keep returns whether a status of n bytes is kept for other requests, and counts the bytes if so.
// keep returns false if no other request waits for the status, or if the kept statuses would exceed
// maxSharedBytes.
func (s *statusGroup) keep(x *statusRead, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.users == 1 || s.bytes-x.kept+n > maxSharedBytes {
		return false
	}
	s.bytes += n - x.kept
	x.kept = n
	return true
}

// stats returns the size of the kept statuses in bytes, the number of reads from the store, and the
// number of requests answered without a read.
func (s *statusGroup) stats() (bytes int64, reads, spared uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes, s.reads.Load(), s.shared.Load()
}

// smallStatus is the maximum size in bytes of a status that a request may read without reserving
// memory. The RPC server uses the same bound for small replies.
const smallStatus = 64 << 10

// readStatus returns the status of a transaction at a position of the canonical chain. Other
// requests may share the result, so the caller must not change the result. For a status larger than
// smallStatus the request first reserves memory (messages.TakeLarge). Otherwise thousands of
// requests could each have a large status in memory before the node knows the size.
func (n *Node) readStatus(ctx context.Context, x *statusRead) (*view.FinalOutcome, error) {
	if !x.large.Load() {
		out, err := n.readStatusWithin(x, smallStatus)
		if !errors.Is(err, engine.ErrLarge) {
			return out, err
		}
		x.large.Store(true)
	}
	if err := messages.TakeLarge(ctx); err != nil {
		return nil, err
	}
	return n.readStatusWithin(x, 0)
}

// readStatusWithin does the same as readStatus, but reserves no memory. It returns engine.ErrLarge
// if the status has more than `most` bytes (0: no limit).
func (n *Node) readStatusWithin(x *statusRead, most int) (*view.FinalOutcome, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	// If the head of that read is still canonical, the chain has only grown since, and the result
	// is valid.
	if (x.out != nil || x.err != nil) && n.engine.Canonical(x.head) {
		n.statusGroup.shared.Add(1)
		return x.out, x.err
	}
	x.out, x.err = nil, nil
	head := n.engine.Head()
	n.statusGroup.reads.Add(1)
	out, err := n.engine.Transactions().StatusWithin(x.key.hash, x.key.at.Head, x.key.at.Final, x.key.receipts, most)
	x.head = storage.BlockRef{Height: head.Height(), Hash: head.Hash}
	if err != nil {
		if errors.Is(err, engine.ErrUnknown) {
			x.err = err
		}
		return nil, err
	}
	if n.engine.Canonical(x.head) && n.statusGroup.keep(x, 2*int64(out.Size(x.key.receipts))) {
		out.Shown = new(view.Shown)
		x.out = &out
	}
	return &out, nil
}

// visiblePosition returns the heights of the head and of the final block. visiblePosition reads the
// two heights at the same moment.
func (n *Node) visiblePosition() messages.Position {
	for {
		final := n.engine.Final().Height
		at := messages.Position{Head: n.engine.Head().Height(), Final: final}
		if n.engine.Final().Height == final {
			return at
		}
	}
}
