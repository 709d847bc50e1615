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

// statusGroup merges concurrent reads of transaction statuses: requests for one transaction as
// of one position share one read and one rendered text. Thousands of waiters of a transaction
// would otherwise read a thousand outcomes each. Safe for concurrent use.
type statusGroup struct {
	mu     sync.Mutex
	m      map[statusKey]*statusRead
	bytes  int64         // of kept statuses
	reads  atomic.Uint64 // from the store
	shared atomic.Uint64 // requests that needed none
}

// maxSharedBytes bounds the kept statuses, counting each twice for its rendered text. Beyond it
// each request reads for itself, one after the other.
const maxSharedBytes = 32 << 20

// statusKey identifies a status.
type statusKey struct {
	hash     primitives.Hash
	at       messages.Position
	receipts bool
}

// statusRead is a read shared by the requests for one status.
type statusRead struct {
	key   statusKey
	users int // under statusGroup.mu

	large atomic.Bool // larger than smallStatus

	mu   sync.Mutex         // held while it is read
	out  *view.FinalOutcome // nil: not read, or not kept
	err  error              // set if there is no such transaction
	head storage.BlockRef   // the head at the read
	kept int64              // bytes, under statusGroup.mu
}

// join returns the read of a status for one more request. Call leave afterwards.
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

// leave undoes join.
func (s *statusGroup) leave(x *statusRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(s.m, x.key)
		s.bytes -= x.kept // no other request has it
	}
}

// keep returns whether n bytes are kept for other requests.
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

// stats returns the kept bytes, the number of reads, and of requests that needed none.
func (s *statusGroup) stats() (bytes int64, reads, spared uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes, s.reads.Load(), s.shared.Load()
}

// smallStatus is up to how many bytes a status is read without waiting for memory. The RPC
// server uses the same bound for small replies.
const smallStatus = 64 << 10

// readStatus returns the status of a transaction as of a position of the current chain,
// possibly shared: do not change it. A large one waits for memory and its turn
// (messages.TakeLarge); otherwise thousands of requests could each hold one in memory before
// its size is known.
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

// readStatusWithin is readStatus up to most bytes (0: no limit). Error: engine.ErrLarge.
func (n *Node) readStatusWithin(x *statusRead, most int) (*view.FinalOutcome, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	// the chain has only grown: what was read still holds
	if (x.out != nil || x.err != nil) && n.engine.Canonical(x.head) {
		n.statusGroup.shared.Add(1)
		return x.out, x.err
	}
	x.out, x.err = nil, nil
	head := n.engine.Head()
	n.statusGroup.reads.Add(1)
	out, err := n.engine.StatusWithin(x.key.hash, x.key.at.Head, x.key.at.Final, x.key.receipts, most)
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

// visiblePosition returns a consistent position of the chain that readers see.
func (n *Node) visiblePosition() messages.Position {
	for {
		final := n.engine.Final().Height
		at := messages.Position{Head: n.engine.Head().Height(), Final: final}
		if n.engine.Final().Height == final {
			return at
		}
	}
}
