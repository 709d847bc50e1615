package rpc

import (
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// cacheBytes is the maximum size of encodedCache in bytes.
const cacheBytes = 16 << 20

// encodedCache caches the JSON of blocks by hash. Entries never become stale. Most clients request
// the newest blocks, so a full cache drops its older half.
type encodedCache struct {
	mu         sync.RWMutex
	young, old map[primitives.Hash][]byte
	youngBytes int
}

// append appends the cached text of a hash. If no text is cached, append calls encode, which
// appends the text, and caches that text.
func (c *encodedCache) append(b []byte, h primitives.Hash, encode func([]byte) []byte) []byte {
	c.mu.RLock()
	text, ok := c.young[h]
	if !ok {
		text, ok = c.old[h]
	}
	c.mu.RUnlock()
	if ok {
		return append(b, text...)
	}
	from := len(b)
	b = encode(b)
	text = append([]byte(nil), b[from:]...)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young == nil || c.youngBytes+len(text) > cacheBytes/2 {
		c.old, c.young, c.youngBytes = c.young, map[primitives.Hash][]byte{}, 0
	}
	c.young[h] = text
	c.youngBytes += len(text)
	return b
}

// encodedStatus caches the JSON of the last status, once for each order of keys. The node returns
// the same *view.Status until something changes, so the cache compares pointers.
type encodedStatus struct{ last [2]atomic.Pointer[statusText] }

type statusText struct {
	of   *view.Status
	text []byte
}

func (c *encodedStatus) append(b []byte, s *view.Status, order view.Order) []byte {
	at := &c.last[0]
	if order == view.StructOrder {
		at = &c.last[1]
	}
	if t := at.Load(); t != nil && t.of == s {
		return append(b, t.text...)
	}
	from := len(b)
	b = view.AppendNodeStatus(b, s, order)
	at.Store(&statusText{of: s, text: append([]byte(nil), b[from:]...)})
	return b
}
