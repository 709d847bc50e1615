package optimistic

import (
	"bytes"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Bounds of a Pool. MaxOrphans is nearcore's MAX_OPTIMISTIC_ORPHANS. nearcore bounds the other two
// only by the final block.
const (
	MaxBlocks  = 16 // optimistic blocks whose parent is known
	MaxOrphans = 10 // optimistic blocks whose parent is unknown
	MaxParents = 32 // blocks on which chunks are kept
)

// Pool holds optimistic blocks until all chunks on the same parent are complete. For each parent it
// keeps the optimistic block with the greatest height, and for each shard the first complete chunk.
// Of each height at most one optimistic block becomes ready. Not safe for concurrent use.
type Pool struct {
	final primitives.Height // chunks on blocks below this height are dropped
	// taken is the greatest height of the optimistic blocks that were ready, and at least final.
	// Optimistic blocks up to this height are dropped.
	taken   primitives.Height
	blocks  map[primitives.Hash]pooled // by parent
	orphans []*primitives.OptimisticBlock
	chunks  map[primitives.Hash]*chunksOn // by parent
}

type pooled struct {
	*primitives.OptimisticBlock
	shards []primitives.ShardID
}

type chunksOn struct {
	height primitives.Height // height of the parent
	of     map[primitives.ShardID]*primitives.Chunk
}

// New returns an empty pool. final is the height of the last final block.
func New(final primitives.Height) *Pool {
	return &Pool{final: final, taken: final, blocks: map[primitives.Hash]pooled{}, chunks: map[primitives.Hash]*chunksOn{}}
}

// Wants returns whether the pool would keep an optimistic block. The caller can so skip the
// validation of a copy.
func (p *Pool) Wants(o *primitives.OptimisticBlock) bool {
	if o.Height <= p.taken {
		return false
	}
	has, ok := p.blocks[o.PrevBlockHash]
	return !ok || has.Height < o.Height
}

// AddBlock adds a validated optimistic block. shards are the shards of its epoch, by shard index.
func (p *Pool) AddBlock(o *primitives.OptimisticBlock, shards []primitives.ShardID) {
	if !p.Wants(o) {
		return
	}
	p.blocks[o.PrevBlockHash] = pooled{o, shards}
	if len(p.blocks) > MaxBlocks {
		var worst pooled
		for _, x := range p.blocks {
			if worst.OptimisticBlock == nil || less(x.OptimisticBlock, worst.OptimisticBlock) {
				worst = x
			}
		}
		delete(p.blocks, worst.PrevBlockHash)
	}
}

// less orders optimistic blocks on different parents.
func less(a, b *primitives.OptimisticBlock) bool {
	return a.Height < b.Height || a.Height == b.Height && bytes.Compare(a.PrevBlockHash[:], b.PrevBlockHash[:]) < 0
}

// AddOrphan keeps an optimistic block whose parent is unknown. It replaces an orphan with the same
// parent. If the pool is full, the orphan that was added first is dropped.
func (p *Pool) AddOrphan(o *primitives.OptimisticBlock) {
	p.TakeOrphan(o.PrevBlockHash)
	if len(p.orphans) >= MaxOrphans {
		p.orphans = slices.Delete(p.orphans, 0, 1)
	}
	p.orphans = append(p.orphans, o)
}

// TakeOrphan removes and returns the orphan on a parent, or nil.
func (p *Pool) TakeOrphan(parent primitives.Hash) *primitives.OptimisticBlock {
	i := slices.IndexFunc(p.orphans, func(o *primitives.OptimisticBlock) bool { return o.PrevBlockHash == parent })
	if i < 0 {
		return nil
	}
	o := p.orphans[i]
	p.orphans = slices.Delete(p.orphans, i, i+1)
	return o
}

// AddChunk adds a complete chunk, unless the pool has one of the same shard on the same parent. If
// chunks are on more than MaxParents blocks, those on the lowest block are dropped.
func (p *Pool) AddChunk(c *primitives.Chunk) {
	h := &c.Header
	if h.HeightCreated == 0 || h.HeightCreated-1 < p.final {
		return
	}
	on := p.chunks[h.PrevBlockHash]
	if on == nil {
		on = &chunksOn{height: h.HeightCreated - 1, of: map[primitives.ShardID]*primitives.Chunk{}}
		p.chunks[h.PrevBlockHash] = on
		p.evictChunks()
	}
	if on.of[h.ShardID] == nil {
		on.of[h.ShardID] = c
	}
}

func (p *Pool) evictChunks() {
	if len(p.chunks) <= MaxParents {
		return
	}
	var worst primitives.Hash
	var least *chunksOn
	for hash, on := range p.chunks {
		if least == nil || on.height < least.height || on.height == least.height && bytes.Compare(hash[:], worst[:]) < 0 {
			worst, least = hash, on
		}
	}
	delete(p.chunks, worst)
}

// Ready removes the highest optimistic block whose chunks are complete, and all optimistic blocks
// up to its height. It returns that block with its chunks by shard index, or nil.
func (p *Pool) Ready() (*primitives.OptimisticBlock, []*primitives.Chunk) {
	var best pooled
	for _, x := range p.blocks {
		on := p.chunks[x.PrevBlockHash]
		if on == nil || slices.ContainsFunc(x.shards, func(id primitives.ShardID) bool { return on.of[id] == nil }) {
			continue
		}
		if best.OptimisticBlock == nil || less(best.OptimisticBlock, x.OptimisticBlock) {
			best = x
		}
	}
	if best.OptimisticBlock == nil {
		return nil, nil
	}
	on := p.chunks[best.PrevBlockHash]
	chunks := make([]*primitives.Chunk, len(best.shards))
	for i, id := range best.shards {
		chunks[i] = on.of[id]
	}
	p.drop(best.Height)
	return best.OptimisticBlock, chunks
}

// drop drops all optimistic blocks up to a height, and takes no more of them.
func (p *Pool) drop(height primitives.Height) {
	p.taken = max(p.taken, height)
	for parent, o := range p.blocks {
		if o.Height <= p.taken {
			delete(p.blocks, parent)
		}
	}
	p.orphans = slices.DeleteFunc(p.orphans, func(o *primitives.OptimisticBlock) bool { return o.Height <= p.taken })
}

// Final drops what no block above a final block of this height can use.
func (p *Pool) Final(height primitives.Height) {
	p.drop(height)
	p.final = max(p.final, height)
	for parent, on := range p.chunks {
		if on.height < p.final {
			delete(p.chunks, parent)
		}
	}
}

// Len returns the number of optimistic blocks whose parent is known, of orphans, and of blocks on
// which chunks are kept.
func (p *Pool) Len() (blocks, orphans, parents int) {
	return len(p.blocks), len(p.orphans), len(p.chunks)
}
