package storage

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// Evicted blocks.
//
// Problem: while finality stalls, blocks accumulate above the flat head. If each block were kept in
// memory as a whole, memory would bound how long finality may stall. The maps from IDs to places
// alone would take 300 bytes for each transfer, and would contain pointers that Go's garbage
// collector has to follow.
//
// Outline: the newest blocks, as bounded by Options.ResidentBlocks and ResidentBytes, are resident:
// their bodies (IDs and changes) are in memory. The bodies of the remaining blocks are evicted. Of
// an evicted block, memory holds its height and hash, the directory of its record, eight bytes for
// each ID (evictedIndex), each changed key once per sorted run, and twelve bytes for each change
// (pendingKeys). Everything else is read from the log: a reader reads only the item that it
// returns; an advance of the flat head reads each block once.
//
// Invariants: an evicted block is in evictedIndex before its body pointer becomes nil, so a reader
// that finds no body finds the block in the index. A body that an advance of the flat head reads is
// not evicted meanwhile (Store.pinnedUpTo).
//
// Rejected: maps from IDs to places for all blocks, because of their size; advancing the flat head
// past blocks that are not final, because the index must never contain a block that may be
// abandoned in favour of another branch.

// Defaults of Options.ResidentBlocks and Options.ResidentBytes.
const (
	DefaultResidentBlocks = 1024
	DefaultResidentBytes  = 32 << 20 // maximum size in bytes of the state changes that stay in memory
)

// evictedIndex finds the evicted blocks that may contain an ID.
//
// A row is a keyed hash of the ID, with the number of the block in its low bits. Rows are kept in
// sorted runs that are merged eight at a time, so the amortized cost of adding a block is
// logarithmic in the number of blocks. The hash key is secret, so that a client cannot craft IDs
// that collide.
type evictedIndex struct {
	seed   maphash.Seed
	blocks map[uint32]*pendingBlock
	next   uint32
	runs   []evictedRun // sorted lists of rows, longest first
}

type evictedRun struct {
	rows []uint64
	tier int
	last uint32 // highest block number in rows
}

const (
	evictedBits  = 28 // number of bits of a block number: eight years at one block per second
	evictedMerge = 8
)

func (c *evictedIndex) init() { c.seed, c.blocks = maphash.MakeSeed(), map[uint32]*pendingBlock{} }

func (c *evictedIndex) id(id primitives.Hash) uint64 {
	return maphash.Bytes(c.seed, id[:]) >> evictedBits << evictedBits
}

// add adds the IDs of a block.
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

// merge merges the last eight runs if they have the same tier. It returns whether it merged them.
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

// drop removes a block. The block's rows stay until all blocks of the run that contains them are
// removed.
func (c *evictedIndex) drop(p *pendingBlock) {
	if c.blocks[p.evictedNum] == p {
		delete(c.blocks, p.evictedNum)
	}
}

// sweep removes the runs of which all blocks are removed.
func (c *evictedIndex) sweep() {
	least := c.next + 1
	for n := range c.blocks {
		least = min(least, n)
	}
	c.runs = slices.DeleteFunc(c.runs, func(r evictedRun) bool { return r.last < least })
}

// find returns the blocks that may contain a hashed ID.
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

// evict drops a block's body from memory. Reads after that take the body from the log.
func (t *tree) evict(p *pendingBlock) {
	t.keys.all() // called without the lock, because merging large runs takes long
	t.mu.Lock()
	defer t.mu.Unlock()
	d := p.body.Load()
	if t.blocks[p.ref.Hash] != p || d == nil {
		return // already evicted, or no longer in the tree
	}
	t.dropIDs(p)
	t.evicted.add(p, d)
	t.bytes -= p.bytes
	p.body.Store(nil) // store nil last, so that a reader without a body finds the block in evicted
}

// residentBodies lists the blocks whose bodies are in memory, oldest first. Guarded by commitMu.
type residentBodies struct {
	list  []*pendingBlock
	bytes int
}

// trackResident adds a new block and evicts the oldest bodies that exceed the bounds. Bodies that
// an advance of the flat head is reading stay: see pinBodies.
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

// forgetBodies removes from the list the blocks that have left the tree.
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

// bodyCache holds the most recently read bodies of evicted blocks.
type bodyCache struct {
	mu    sync.Mutex
	ring  [8]readBody
	next  int
	reads int // records read since the store was opened
}

type readBody struct {
	p *pendingBlock
	d *body
}

// bodyOf returns the body of a block, from memory or from the log. If keep is set, a body that was
// read from the log is cached.
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
	catchup, err := s.catchupEntries(p.ref)
	if err != nil {
		return nil, err
	}
	for _, e := range catchup {
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

// count returns the number of records that were read whole.
func (c *bodyCache) count() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(c.reads)
}

// forget drops the cached body of a block.
func (c *bodyCache) forget(p *pendingBlock) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.ring {
		if c.ring[i].p == p {
			c.ring[i] = readBody{}
		}
	}
}

// sweep drops the cached bodies of blocks that are not in the tree.
func (c *bodyCache) sweep(t *tree) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.ring {
		if p := c.ring[i].p; p != nil && t.get(p.ref.Hash) != p {
			c.ring[i] = readBody{}
		}
	}
}

// findPending returns the places of an ID in the flat head's block and the blocks above it, oldest
// block first.
func (s *Store) findPending(id primitives.Hash) ([]hit, error) {
	out, evicted := s.tree.find(id)
	for _, p := range evicted {
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
	if len(evicted) > 0 {
		sortHits(out)
	}
	return out, nil
}
