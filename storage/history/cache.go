package history

import (
	"container/list"
	"sync"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
)

// decodedSize is the approximate memory of a decoded document, as a factor of its JSON: the JSON, and
// the values that were decoded from it.
const decodedSize = 4

// cache holds the documents that were read last. Safe for concurrent use.
type cache struct {
	limit int64 // in bytes; 0 or less: no cache

	mu    sync.Mutex
	bytes int64
	order list.List // of *cached, the last used first
	by    map[primitives.Height]*list.Element
}

type cached struct {
	height primitives.Height
	d      *blockdoc.Document
	bytes  int64
}

func (c *cache) get(height primitives.Height) *blockdoc.Document {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.by[height]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*cached).d
}

// add adds a document. One that takes more than half of the cache is not kept.
func (c *cache) add(height primitives.Height, d *blockdoc.Document, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bytes > c.limit/2 || c.by[height] != nil {
		return
	}
	if c.by == nil {
		c.by = map[primitives.Height]*list.Element{}
	}
	c.by[height] = c.order.PushFront(&cached{height, d, bytes})
	for c.bytes += bytes; c.bytes > c.limit; {
		e := c.order.Back()
		x := e.Value.(*cached)
		c.order.Remove(e)
		delete(c.by, x.height)
		c.bytes -= x.bytes
	}
}
