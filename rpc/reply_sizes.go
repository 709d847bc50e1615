package rpc

import (
	"sync"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// replySizes records which requests had large replies. The data for such a reply is in memory
// before the reply is written. So when the same request comes again, memory is reserved before the
// data is read.
type replySizes struct {
	mu         sync.Mutex
	young, old map[any]int
}

// maxSizes is the maximum number of sizes in each of the maps young and old. When young is full, it
// becomes old, and the previous old is dropped.
const maxSizes = 4096

func (s *replySizes) get(key any) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.young[key]; ok {
		return n
	}
	return s.old[key]
}

func (s *replySizes) set(key any, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.young == nil || len(s.young) >= maxSizes {
		s.old, s.young = s.young, map[any]int{}
	}
	s.young[key] = n
}

// expect reserves memory for the data of a reply, if the last reply to the same request was large.
// key identifies the request. key must be comparable. Two keys must be equal only if the requests
// are equal.
func (c *call) expect(key any) error {
	c.key = key
	if n := c.limiter.sizes.get(key); n > 0 {
		if full := c.x.peer.take(c.x.client, int64(n)); full != limits.Count {
			return busy(full)
		}
		c.borrowed += int64(n)
	}
	return nil
}

// awaitExpected is expect for a reply whose data is not in memory yet. awaitExpected first waits
// until the client's share of work allows more work; during that wait the request holds no memory.
// After that, awaitExpected waits for memory.
func (c *call) awaitExpected() error {
	n := c.limiter.sizes.get(c.key)
	if n == 0 || c.borrowed != 0 {
		return nil
	}
	if err := c.x.mayRead(); err != nil {
		return busy(limits.MaxAddressWork)
	}
	if full := c.awaitMemory(int64(n), nil); full != limits.Count {
		return busy(full)
	}
	c.borrowed += int64(n)
	return nil
}

// giveBack releases the memory that expect has reserved.
func (c *call) giveBack() {
	if c.borrowed == 0 || c.x.peer == nil {
		return
	}
	p := c.x.peer
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := min(c.borrowed, p.held); p.holder == c.x.client {
		p.held -= n
		p.limiter.inFlight.Add(-n)
		p.holder.inFlight.Add(-n)
		p.limiter.replies.notify()
	}
	c.borrowed = 0
}
