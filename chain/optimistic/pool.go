package optimistic

import (
	"bytes"
	"cmp"
	"maps"
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

// Pool holds optimistic blocks until they are due and all chunks on the same parent are complete. It
// keeps one optimistic block of each parent and height, and for each shard the first complete chunk
// that a block on the parent can include. Of each height at most one optimistic block becomes ready.
// Not safe for concurrent use.
//
// nearcore keeps the newest optimistic block of a parent. There the producer of a later height can
// replace the optimistic block of the next height.
type Pool struct {
	final primitives.Height // chunks on blocks below this height are dropped
	// taken is the greatest height of the optimistic blocks that were ready, and at least final.
	// Optimistic blocks up to this height are dropped.
	taken   primitives.Height
	blocks  map[place]pooled
	orphans []*primitives.OptimisticBlock
	chunks  map[place]map[primitives.ShardID]*primitives.Chunk
}

// place is a height on a parent: that of an optimistic block, or that at which a chunk was created.
type place struct {
	parent primitives.Hash
	height primitives.Height
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.height, q.height), bytes.Compare(p.parent[:], q.parent[:]))
}

type pooled struct {
	*primitives.OptimisticBlock
	created primitives.Height // height at which chunks on the parent are created
	shards  []primitives.ShardID
}

func placeOf(o *primitives.OptimisticBlock) place { return place{o.PrevBlockHash, o.Height} }

// New returns an empty pool. final is the height of the last final block.
func New(final primitives.Height) *Pool {
	return &Pool{final: final, taken: final, blocks: map[place]pooled{}, chunks: map[place]map[primitives.ShardID]*primitives.Chunk{}}
}

// Wants returns whether the pool would keep an optimistic block. The caller can so skip the
// validation of a copy.
func (p *Pool) Wants(o *primitives.OptimisticBlock) bool {
	_, known := p.blocks[placeOf(o)]
	return o.Height > p.taken && !known
}

// AddBlock adds a validated optimistic block. parent is the height of its parent. shards are the
// shards of its epoch, by shard index. An optimistic block on a parent below the last final block is
// dropped, since no block follows it: the producer of a later height could otherwise fill the pool
// with one for each old block. If the pool is full, one on the lowest parent is dropped, and of those the
// highest: it could also fill the pool with one for each block that is not final yet.
func (p *Pool) AddBlock(o *primitives.OptimisticBlock, parent primitives.Height, shards []primitives.ShardID) {
	if !p.Wants(o) || parent < p.final {
		return
	}
	p.blocks[placeOf(o)] = pooled{o, parent + 1, shards}
	if len(p.blocks) > MaxBlocks {
		delete(p.blocks, slices.MinFunc(slices.Collect(maps.Keys(p.blocks)), func(a, b place) int {
			return cmp.Or(cmp.Compare(p.blocks[a].created, p.blocks[b].created), b.compare(a))
		}))
	}
}

// AddOrphan keeps an optimistic block whose parent is unknown. It replaces an orphan of the same
// parent and height. If the pool is full, the first orphan of the height with most orphans is dropped:
// the producer of a height can sign any number on invented parents.
func (p *Pool) AddOrphan(o *primitives.OptimisticBlock) {
	p.orphans = slices.DeleteFunc(p.orphans, func(x *primitives.OptimisticBlock) bool { return placeOf(x) == placeOf(o) })
	if len(p.orphans) >= MaxOrphans {
		of := map[primitives.Height]int{}
		for _, x := range p.orphans {
			of[x.Height]++
		}
		most := slices.Max(slices.Collect(maps.Values(of)))
		first := slices.IndexFunc(p.orphans, func(x *primitives.OptimisticBlock) bool { return of[x.Height] == most })
		p.orphans = slices.Delete(p.orphans, first, first+1)
	}
	p.orphans = append(p.orphans, o)
}

// TakeOrphans removes and returns the orphans on a parent.
func (p *Pool) TakeOrphans(parent primitives.Hash) (list []*primitives.OptimisticBlock) {
	p.orphans = slices.DeleteFunc(p.orphans, func(o *primitives.OptimisticBlock) bool {
		if o.PrevBlockHash != parent {
			return false
		}
		list = append(list, o)
		return true
	})
	return list
}

// AddChunk adds a complete chunk, unless the pool has one of the same shard, parent and height of
// creation. A chunk whose height of creation is not that of its parent plus one is never used. If
// the pool has chunks of more than MaxParents parents, those created at the lowest height are
// dropped.
func (p *Pool) AddChunk(c *primitives.Chunk) {
	h := &c.Header
	if h.HeightCreated == 0 || h.HeightCreated-1 < p.final {
		return
	}
	at := place{h.PrevBlockHash, h.HeightCreated}
	of := p.chunks[at]
	if of == nil {
		of = map[primitives.ShardID]*primitives.Chunk{}
		p.chunks[at] = of
		if len(p.chunks) > MaxParents {
			delete(p.chunks, slices.MinFunc(slices.Collect(maps.Keys(p.chunks)), place.compare))
		}
	}
	if of[h.ShardID] == nil {
		of[h.ShardID] = c
	}
}

// Ready removes the lowest optimistic block on parent, if its chunks are complete and its height is
// not above maxHeight, and all optimistic blocks up to its height. It returns that block with its
// chunks by shard index, or nil. The caller passes its head, and the height for which it expects a
// block on the head. So an optimistic block of a later height causes no work unless the heights
// below are skipped.
func (p *Pool) Ready(parent primitives.Hash, maxHeight primitives.Height) (*primitives.OptimisticBlock, []*primitives.Chunk) {
	var best pooled
	for at, x := range p.blocks {
		if at.parent == parent && at.height <= maxHeight && (best.OptimisticBlock == nil || at.height < best.Height) {
			best = x
		}
	}
	if best.OptimisticBlock == nil {
		return nil, nil
	}
	of := p.chunks[place{parent, best.created}]
	chunks := make([]*primitives.Chunk, len(best.shards))
	for i, id := range best.shards {
		if chunks[i] = of[id]; chunks[i] == nil {
			return nil, nil
		}
	}
	p.drop(best.Height)
	return best.OptimisticBlock, chunks
}

// drop drops all optimistic blocks up to a height, and takes no more of them.
func (p *Pool) drop(height primitives.Height) {
	p.taken = max(p.taken, height)
	maps.DeleteFunc(p.blocks, func(at place, _ pooled) bool { return at.height <= p.taken })
	p.orphans = slices.DeleteFunc(p.orphans, func(o *primitives.OptimisticBlock) bool { return o.Height <= p.taken })
}

// Final drops what no block above a final block of this height can use.
func (p *Pool) Final(height primitives.Height) {
	p.drop(height)
	p.final = max(p.final, height)
	maps.DeleteFunc(p.blocks, func(_ place, x pooled) bool { return x.created <= p.final })
	maps.DeleteFunc(p.chunks, func(at place, _ map[primitives.ShardID]*primitives.Chunk) bool { return at.height <= p.final })
}

// Len returns the number of optimistic blocks whose parent is known, of orphans, and of blocks on
// which chunks are kept.
func (p *Pool) Len() (blocks, orphans, parents int) {
	return len(p.blocks), len(p.orphans), len(p.chunks)
}
