package storage

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// Where finality stands still blocks gather above the folded one. Of all but the newest the memory has no more than what finds them: their
// names, the directory of their record, eight bytes for each id, and for each key that they changed the key, once in a run, and twelve bytes
// for each change (pendingKeys). What they did is in the log. A reader reads the item that it returns; a fold reads each block once.

// Bounds of the bodies in memory: the newest blocks, as they came.
const (
	DefaultResidentBlocks = 1024
	DefaultResidentBytes  = 32 << 20 // of changes
)

// evictedIndex finds the cold blocks that may have an id. Rows are hashes under a seed that nobody knows, with the number of a
// block in their lower bits, in sorted runs that are merged eight by eight: a block costs the logarithm of all.
type evictedIndex struct {
	seed   maphash.Seed
	blocks map[uint32]*pendingBlock
	next   uint32
	runs   []evictedRun // the greatest first
}

type evictedRun struct {
	rows []uint64
	tier int
	last uint32 // the highest block
}

const (
	evictedBits  = 28 // of the number of a block: eight years of one each second
	evictedMerge = 8
)

func (c *evictedIndex) init() { c.seed, c.blocks = maphash.MakeSeed(), map[uint32]*pendingBlock{} }

func (c *evictedIndex) id(id primitives.Hash) uint64 {
	return maphash.Bytes(c.seed, id[:]) >> evictedBits << evictedBits
}

// add takes up a block.
func (c *evictedIndex) add(p *pendingBlock, d *body) {
	c.next = (c.next + 1) % (1 << evictedBits)
	p.evictedNum = c.next
	c.blocks[p.evictedNum] = p
	var rows []uint64
	d.eachID(func(id *primitives.Hash, _ place) { rows = append(rows, c.id(*id)|uint64(p.evictedNum)) })
	slices.Sort(rows)
	c.runs = append(c.runs, evictedRun{slices.Clip(slices.Compact(rows)), 0, p.evictedNum})
	for c.merge() {
	}
}

// merge makes one run of the last eight, if they are of one tier.
func (c *evictedIndex) merge() bool {
	n := len(c.runs) - evictedMerge
	if n < 0 || c.runs[n].tier != c.runs[len(c.runs)-1].tier {
		return false
	}
	size := 0
	for i := range c.runs[n:] {
		size += len(c.runs[n+i].rows)
	}
	all := make([]uint64, 0, size)
	for i := range c.runs[n:] {
		all = append(all, c.runs[n+i].rows...)
	}
	slices.Sort(all)
	last := c.runs[len(c.runs)-1]
	c.runs = append(c.runs[:n], evictedRun{all, last.tier + 1, last.last})
	return true
}

// drop forgets a block. Its rows stay until all of their run are of none.
func (c *evictedIndex) drop(p *pendingBlock) {
	if c.blocks[p.evictedNum] == p {
		delete(c.blocks, p.evictedNum)
	}
}

// sweep drops runs of which no block is left.
func (c *evictedIndex) sweep() {
	least := c.next + 1
	for n := range c.blocks {
		least = min(least, n)
	}
	c.runs = slices.DeleteFunc(c.runs, func(r evictedRun) bool { return r.last < least })
}

// find returns the blocks that may have a hash.
func (c *evictedIndex) find(hash uint64) (out []*pendingBlock) {
	for i := range c.runs {
		rows := c.runs[i].rows
		n, _ := slices.BinarySearch(rows, hash)
		for ; n < len(rows) && rows[n]>>evictedBits == hash>>evictedBits; n++ {
			if p := c.blocks[uint32(rows[n]&(1<<evictedBits-1))]; p != nil {
				out = append(out, p)
			}
		}
	}
	return out
}

// evict leaves the body of a block to the log.
func (t *tree) evict(p *pendingBlock) {
	t.keys.all() // before the lock: it may make a run of many
	t.mu.Lock()
	defer t.mu.Unlock()
	d := p.body.Load()
	if t.blocks[p.ref.Hash] != p || d == nil {
		return // folded, or lost
	}
	t.dropIDs(p)
	t.evicted.add(p, d)
	t.bytes -= p.bytes
	p.body.Store(nil) // last: who finds none finds it in the index
}

// residentBodies is the bodies in memory, the oldest first; under commitMu.
type residentBodies struct {
	list  []*pendingBlock
	bytes int
}

// trackResident notes a new block, and leaves the bodies of the oldest to the log. What is being folded stays: see Fold.
func (s *Store) trackResident(p *pendingBlock) {
	w := &s.resident
	w.list = append(w.list, p)
	w.bytes += p.bytes
	for len(w.list) > 1 && (len(w.list) > s.o.ResidentBlocks || w.bytes > s.o.ResidentBytes) {
		q := w.list[0]
		if q.ref.Height <= s.pinnedUpTo {
			break
		}
		w.list[0] = nil
		w.list = w.list[1:]
		w.bytes -= q.bytes
		s.tree.evict(q)
	}
}

// forgetBodies gives up the bodies of blocks that have left the tree: folded ones, and those that lost.
func (s *Store) forgetBodies() {
	w := &s.resident
	w.bytes = 0
	w.list = slices.DeleteFunc(w.list, func(p *pendingBlock) bool {
		gone := s.tree.get(p.ref.Hash) != p
		if !gone {
			w.bytes += p.bytes
		}
		return gone
	})
	s.bodyCache.sweep(s.tree)
}

// bodyCache are those that were read last.
type bodyCache struct {
	mu    sync.Mutex
	ring  [8]readBody
	next  int
	reads int // since the store was opened
}

type readBody struct {
	p *pendingBlock
	d *body
}

// bodyOf returns what a block did. keep: it may be wanted again.
func (s *Store) bodyOf(p *pendingBlock, keep bool) (*body, error) {
	if d := p.body.Load(); d != nil {
		return d, nil
	}
	c := &s.bodyCache
	c.mu.Lock()
	for i := range c.ring {
		if c.ring[i].p == p {
			d := c.ring[i].d
			c.mu.Unlock()
			return d, nil
		}
	}
	c.reads++
	c.mu.Unlock()
	r, err := s.whole(p.entry)
	if err != nil {
		return nil, err
	}
	d, err := r.body()
	if err != nil {
		return nil, err
	}
	for _, e := range s.catchupEntries(p.ref) {
		if err := s.addCatchup(d, e); err != nil {
			return nil, err
		}
	}
	d.sortKeys()
	if keep && s.tree.get(p.ref.Hash) == p {
		c.mu.Lock()
		c.ring[c.next], c.next = readBody{p, d}, (c.next+1)%len(c.ring)
		c.mu.Unlock()
	}
	return d, nil
}

// count returns how many records were read whole.
func (c *bodyCache) count() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(c.reads)
}

// forget drops what was read of a block.
func (c *bodyCache) forget(p *pendingBlock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.ring {
		if c.ring[i].p == p {
			c.ring[i] = readBody{}
		}
	}
}

// sweep drops what was read of blocks that are not in the tree.
func (c *bodyCache) sweep(t *tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.ring {
		if p := c.ring[i].p; p != nil && t.get(p.ref.Hash) != p {
			c.ring[i] = readBody{}
		}
	}
}

// findPending returns where an id stands above the folded block and in that, by block, the oldest first.
func (s *Store) findPending(id primitives.Hash) ([]hit, error) {
	out, cold := s.tree.find(id)
	for _, p := range cold {
		d, err := s.bodyOf(p, true)
		if err != nil {
			return nil, err
		}
		d.eachID(func(other *primitives.Hash, at place) {
			if *other == id {
				out = append(out, hit{p, d.found(at)})
			}
		})
	}
	if len(cold) > 0 {
		sortHits(out)
	}
	return out, nil
}
