package blockfeed

import (
	"context"
	"errors"
	"io"
	"sync"
)

// maxFetchBytes is the size of the replies that a walk holds for the blocks ahead of the next one.
const maxFetchBytes = 128 << 20

// errBudget means that the fetch of a block ahead was given up, because the budget is used up. The block is
// fetched again when it is the next one.
var errBudget = errors.New("blockfeed: the replies that are held exceed the budget")

// fetchBudget bounds the replies that the fetches of a walk hold together. A fetch ahead that finds the
// budget used up gives up, rather than waits: waiting fetches could hold all of it. The fetch of the next
// block is exempt, so the walk always goes on. So the walk holds at most the budget, one block, and what
// is read at once by each fetch. Safe for concurrent use.
type fetchBudget struct {
	limit int64

	mu   sync.Mutex
	held int64
}

// Held returns the bytes that are held.
func (b *fetchBudget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// fetchShare is what one fetch holds.
type fetchShare struct {
	*fetchBudget
	own   int64
	next  bool // the walk waits for this block
	ended bool
}

// shareKey is the key of a context's *fetchShare.
type shareKey struct{}

// take adds bytes that were read. Errors: errBudget.
func (s *fetchShare) take(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || !s.next && s.held+int64(n) > s.limit {
		return errBudget
	}
	s.own, s.held = s.own+int64(n), s.held+int64(n)
	return nil
}

// awaited exempts the fetch from the bound.
func (s *fetchShare) awaited() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = true
}

// again gives back what a failed request has taken, before the next one for the same block.
func (s *fetchShare) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.own = s.held-s.own, 0
}

// end gives back what the fetch holds. The fetch can take no more.
func (s *fetchShare) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.own, s.ended = s.held-s.own, 0, true
}

// shareOf returns the share of ctx, or nil.
func shareOf(ctx context.Context) *fetchShare {
	s, _ := ctx.Value(shareKey{}).(*fetchShare)
	return s
}

// counted returns a reader whose bytes count for the share of ctx, if it has one.
func counted(ctx context.Context, r io.Reader) io.Reader {
	if s := shareOf(ctx); s != nil {
		return &countedReader{r, s}
	}
	return r
}

type countedReader struct {
	io.Reader
	share *fetchShare
}

// Read reads and counts.
func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	if full := c.share.take(n); full != nil {
		return 0, full
	}
	return n, err
}
