package blockpool

import "sync/atomic"

// Counters show what happens to the orphans of a pool, in metrics. Safe for concurrent use: they
// may be read while the pool changes. The zero value is ready to use.
type Counters struct {
	// Orphans is the current number of pooled blocks of known epochs whose parent is not imported.
	Orphans atomic.Int64
	// EvictedOrphans is the number of orphans that were dropped because of MaxBlocks or
	// MaxBlockBytes, or that another block of the same height and producer replaced. The number
	// includes orphans that the pool dropped on arrival because they were the farthest from the
	// tip.
	EvictedOrphans atomic.Uint64
}

// SetCounters makes the pool count in c, which must belong to this pool alone. It sets c.Orphans to the
// current number. c.EvictedOrphans continues from its value.
func (p *Pool) SetCounters(c *Counters) {
	p.counters = c
	p.addOrphans(0)
}

// addOrphans changes the number of orphans by n.
func (p *Pool) addOrphans(n int) {
	p.orphans += n
	p.counters.Orphans.Store(int64(p.orphans))
}
