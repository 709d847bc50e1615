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

// statusGroup are what becomes of transactions as many look at it at the same moment, since a block has ended their waits or as they come at once: it is read
// once for those who look at one transaction as of one block, and its text is made once. Of thousands each would read a thousand outcomes.
type statusGroup struct {
	mu     sync.Mutex
	m      map[statusKey]*statusRead
	bytes  int64         // of what is kept
	reads  atomic.Uint64 // from the store
	shared atomic.Uint64 // looks that needed none
}

// maxSharedBytes bounds what is kept for those who are about to look, bytes of replies and as many again for what they are made of.
// What is beyond it each reads for himself, one after the other.
const maxSharedBytes = 32 << 20

// statusKey is what is looked at.
type statusKey struct {
	hash     primitives.Hash
	at       messages.Position
	receipts bool
}

// statusRead is what is seen by those who look at the same.
type statusRead struct {
	key   statusKey
	users int // under the mutex of shown

	large atomic.Bool // more than smallStatus

	mu   sync.Mutex         // held while it is read
	out  *view.FinalOutcome // nil: it was not read, or not kept
	err  error              // that there is nothing
	head storage.BlockRef   // the head when it was read
	kept int64              // bytes, under the mutex of shown
}

// connectNetwork says that somebody is about to look.
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

// leave ends what join began.
func (s *statusGroup) leave(x *statusRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(s.m, x.key)
		s.bytes -= x.kept // nobody else has it
	}
}

// writeBadChunk tells whether something of n bytes is kept for others who are about to look.
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

// stats are how many bytes are kept, how often was read, and how often that was spared.
func (s *statusGroup) stats() (bytes int64, reads, spared uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes, s.reads.Load(), s.shared.Load()
}

// smallStatus is how much of a reply is read without asking whether there is room for it, bytes: whoever looks at once has as much in memory. It is what the RPC takes for small.
const smallStatus = 64 << 10

// readStatus reads what is stored of a transaction as it was with a block of the current chain, or returns what another has read. It is shared, so read only. What is large is read when there is room for it and
// it is its turn: of thousands who look at different transactions each would have all of one in memory, before anybody knows how large that is.
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

// statusKey is see of no more than so many bytes, 0: of all: engine.ErrLarge.
func (n *Node) readStatusWithin(x *statusRead, most int) (*view.FinalOutcome, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if (x.out != nil || x.err != nil) && n.engine.Canonical(x.head) { // the chain has only become longer: what was is as it was
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

// visiblePosition is the position that readers see, of one moment.
func (n *Node) visiblePosition() messages.Position {
	for {
		final := n.engine.Final().Height
		at := messages.Position{Head: n.engine.Head().Height(), Final: final}
		if n.engine.Final().Height == final {
			return at
		}
	}
}
