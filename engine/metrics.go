package engine

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// Histogram counts values in buckets. Safe for concurrent use.
type Histogram struct {
	bounds []float64 // upper bounds, ascending
	counts []atomic.Uint64
	sum    atomic.Uint64 // sum of all values, in millionths
}

func newHistogram(bounds []float64) *Histogram {
	return &Histogram{bounds: bounds, counts: make([]atomic.Uint64, len(bounds)+1)}
}

func (h *Histogram) add(v float64) {
	i, _ := slices.BinarySearch(h.bounds, v) // index of the first bound >= v
	h.counts[i].Add(1)
	h.sum.Add(uint64(v * 1e6))
}

// Read returns the upper bounds of the buckets, the number of values in each bucket, and the sum of
// the values. counts is not cumulative. Its last entry counts the values above all bounds.
func (h *Histogram) Read() (bounds []float64, counts []uint64, sum float64) {
	counts = make([]uint64, len(h.counts))
	for i := range counts {
		counts[i] = h.counts[i].Load()
	}
	return h.bounds, counts, float64(h.sum.Load()) / 1e6
}

// Upper bounds of the histograms' buckets, as in nearcore (chain/chain/src/metrics.rs).
var (
	blockBounds = func() (out []float64) {
		for v, i := 0.001, 0; i < 20; v, i = v*1.6, i+1 {
			out = append(out, v)
		}
		return out
	}()
	chunkBounds = func() (out []float64) {
		for i := range 50 {
			out = append(out, float64(i)*0.05)
		}
		return out
	}()
	snapshotBounds = func() (out []float64) {
		for v, i := 0.01, 0; i < 30; v, i = v*1.3, i+1 {
			out = append(out, v)
		}
		return out
	}()
	tgasBounds = []float64{50, 100, 300, 500, 700, 800, 900, 950, 1000, 1050, 1100, 1150, 1200, 1250, 1300}
)

// Times contains histograms of blocks and chunks since the engine started, for metrics only. Safe
// for concurrent use.
type Times struct {
	Blocks atomic.Pointer[Histogram] // seconds from BeginImport to FinishImport; nil: this engine has imported no block
	// Chunks are the seconds to apply a chunk. Index i is for chunks that burnt more than 100(i-1)
	// and at most 100i Tgas. The last index is for all chunks that burnt more than that.
	Chunks [maxTgasCeiling + 1]atomic.Pointer[Histogram]
	// Gas is the Tgas burnt by new chunks, by shard. A new shard replaces the map.
	Gas     atomic.Pointer[map[primitives.ShardID]*Histogram]
	Choices Choices
	// Optimistic counts the chunks of imported blocks, by whether an optimistic block had the same
	// input.
	Optimistic OptimisticUses
	Applied    ChunkMeter
	Imports    metrics.Set // families of BlockFamilies
}

// OptimisticUses counts chunks by shard. Safe for concurrent use.
type OptimisticUses struct {
	mu sync.Mutex
	of map[primitives.ShardID]Uses
}

// Uses counts the chunks whose result came from an optimistic block (Hits), and the rest.
type Uses struct{ Hits, Misses uint64 }

func (u *OptimisticUses) count(id primitives.ShardID, hit bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of == nil {
		u.of = map[primitives.ShardID]Uses{}
	}
	n := u.of[id]
	if hit {
		n.Hits++
	} else {
		n.Misses++
	}
	u.of[id] = n
}

// Read returns the counts.
func (u *OptimisticUses) Read() map[primitives.ShardID]Uses {
	u.mu.Lock()
	defer u.mu.Unlock()
	return maps.Clone(u.of)
}

// Choices counts, by shard, what ended the choice of a chunk's transactions (Engine.Prepare). Safe
// for concurrent use.
type Choices struct {
	mu sync.Mutex
	of map[primitives.ShardID]*[apply.Limits]uint64
}

func (c *Choices) add(id primitives.ShardID, l apply.Limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[primitives.ShardID]*[apply.Limits]uint64{}
	}
	n := c.of[id]
	if n == nil {
		n = new([apply.Limits]uint64)
		c.of[id] = n
	}
	n[l]++
}

// Read returns the counts by shard and limit.
func (c *Choices) Read() map[primitives.ShardID][apply.Limits]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[primitives.ShardID][apply.Limits]uint64, len(c.of))
	for id, n := range c.of {
		out[id] = *n
	}
	return out
}

// maxTgasCeiling is the last index of Times.Chunks.
const maxTgasCeiling = 13

const teragas = 1_000_000_000_000

// Times returns the histograms of this engine.
func (e *Engine) Times() *Times { return &e.times }

func histogramAt(p *atomic.Pointer[Histogram], bounds []float64) *Histogram {
	if h := p.Load(); h != nil {
		return h
	}
	p.CompareAndSwap(nil, newHistogram(bounds))
	return p.Load()
}

// measure adds an imported block to the histograms. Not safe for concurrent use.
func (t *Times) measure(p *BlockImport) {
	histogramAt(&t.Blocks, blockBounds).add(time.Since(p.began).Seconds())
	var all timeSpan
	for i := range p.jobs {
		j := &p.jobs[i]
		all.add(j)
		if j.result == nil {
			continue
		}
		burnt := uint64(j.result.GasUsed)
		class := min((burnt+100*teragas-1)/(100*teragas), maxTgasCeiling)
		histogramAt(&t.Chunks[class], chunkBounds).add(j.took.Seconds())
		if p.entry.Shards[i].Chunk != nil {
			t.gas(j.ID).add(float64(burnt) / teragas)
		}
	}
	t.Applied.appliedAll(normalBlock, all)
}

func (t *Times) gas(id primitives.ShardID) *Histogram {
	var old map[primitives.ShardID]*Histogram
	if p := t.Gas.Load(); p != nil {
		old = *p
	}
	if h := old[id]; h != nil {
		return h
	}
	anew := map[primitives.ShardID]*Histogram{id: newHistogram(tgasBounds)}
	for k, h := range old {
		anew[k] = h
	}
	t.Gas.Store(&anew)
	return anew[id]
}
