package storage

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// tree indexes the blocks above the flat head, on all branches. Writers hold Store.commitMu.
//
// An advance of the flat head first writes blocks to the index, then publishes the view with the
// new flat head, then removes the blocks from the tree. So a reader must search the tree first,
// then take the view, and read the index last. A reader that uses this order misses no block, but
// may find a block twice. The reader must ignore blocks of the tree that are not above the view's
// flat head.
type tree struct {
	mu      sync.RWMutex
	blocks  map[primitives.Hash]*pendingBlock
	heights map[primitives.Height][]*pendingBlock
	ids     map[uint64]int32 // newest slot of an ID, by the first bytes of the ID
	slots   []idSlot
	free    int32 // first free slot; next links the further free slots; noSlot: no slot is free
	puts    map[string][]putVersion
	bytes   int // size in bytes of the state changes in memory
	evicted evictedIndex
	keys    pendingKeys
	catchup map[primitives.Hash][]*entry // catchup records by the hash of the block after which the shard was caught up
}

// idSlot is one place of an ID in a block.
type idSlot struct {
	block *pendingBlock
	place
	next int32
}

const noSlot = -1

// putVersion is a row of the engine that is not in the index yet. A nil value is a deletion. If
// owner is nil, the row belongs to no block: Store.Write wrote it.
type putVersion struct {
	owner *pendingBlock
	value []byte
}

func newTree() *tree {
	t := &tree{blocks: map[primitives.Hash]*pendingBlock{}, heights: map[primitives.Height][]*pendingBlock{},
		ids: map[uint64]int32{}, free: noSlot, puts: map[string][]putVersion{}, catchup: map[primitives.Hash][]*entry{}}
	t.evicted.init()
	t.keys.init()
	return t
}

// add adds a committed block.
func (t *tree) add(p *pendingBlock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.blocks[p.ref.Hash] = p
	t.heights[p.ref.Height] = append(t.heights[p.ref.Height], p)
	t.bytes += p.bytes
	t.addIDs(p, p.body.Load())
	t.keys.add(p, p.body.Load())
	if p.puts != nil {
		t.addPuts(p, p.puts)
	}
}

func (t *tree) addIDs(p *pendingBlock, d *body) {
	d.eachID(func(id *primitives.Hash, at place) {
		n := t.free
		if n == noSlot {
			n = int32(len(t.slots))
			t.slots = append(t.slots, idSlot{})
		} else {
			t.free = t.slots[n].next
		}
		key := binary.LittleEndian.Uint64(id[:])
		next, ok := t.ids[key]
		if !ok {
			next = noSlot
		}
		t.slots[n] = idSlot{p, at, next}
		t.ids[key] = n
	})
}

func (t *tree) addPuts(owner *pendingBlock, b *Batch) {
	b.each(func(key, value []byte) {
		t.puts[string(key)] = append(t.puts[string(key)], putVersion{owner, value})
	})
}

// write adds rows that belong to no block.
func (t *tree) write(b *Batch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addPuts(nil, b)
}

// remove removes a block that the flat head has passed, or that is on an abandoned branch. If ids
// is false, the block's IDs stay in the tree until dropBaseIDs. The block that becomes the flat
// head is removed with ids false.
func (t *tree) remove(p *pendingBlock, ids bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.blocks, p.ref.Hash)
	delete(t.catchup, p.ref.Hash)
	same := slices.DeleteFunc(t.heights[p.ref.Height], func(q *pendingBlock) bool { return q == p })
	if len(same) == 0 {
		delete(t.heights, p.ref.Height)
	} else {
		t.heights[p.ref.Height] = same
	}
	if p.body.Load() != nil {
		t.bytes -= p.bytes
	}
	if p.puts != nil {
		t.dropPuts(p, p.puts)
	}
	if ids {
		t.dropIDs(p)
	}
}

// dropBaseIDs drops the IDs that remove kept.
func (t *tree) dropBaseIDs(p *pendingBlock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropIDs(p)
}

// sweep removes the blocks that have left the tree from the tree's indexes (evicted blocks, changed
// keys). Call sweep after all blocks that leave were removed: see keysAt.
func (t *tree) sweep() {
	t.mu.Lock()
	t.evicted.sweep()
	t.mu.Unlock()
	t.keys.drop(func(p *pendingBlock) bool { return t.get(p.ref.Hash) != p })
}

// keysAt returns the changes between the flat head of a view and p. If p or an ancestor of p above
// the flat head splits shards, keysAt returns only the changes from the nearest such block on.
// keysAt returns that block as split.
//
// ok is false if p has left the tree, or if the flat head has advanced meanwhile. This check
// suffices because of the order of an advance: the advance publishes its view, then removes blocks
// from the tree, then from the runs, and last cuts the branch. So if p and the view are still
// current after keysAt took the runs and the branch, no block between the flat head and p had been
// removed from the runs or from the branch.
func (s *Store) keysAt(v *view, p *pendingBlock) (b branchKeys, split *pendingBlock, ok bool) {
	b = branchKeys{s: s, low: v.flatHead.Height + 1, high: p.ref.Height, runs: s.tree.keys.all()}
	b.branch, ok = v.branchOf(p)
	if split = p.splitAbove(v); split != nil {
		b.low = split.ref.Height
	}
	return b, split, ok && s.tree.get(p.ref.Hash) == p && s.view.Load().flatHead == v.flatHead
}

func (t *tree) dropIDs(p *pendingBlock) {
	d := p.body.Load()
	if d == nil {
		t.evicted.drop(p)
		return
	}
	d.eachID(func(id *primitives.Hash, at place) {
		key := binary.LittleEndian.Uint64(id[:])
		last := int32(noSlot)
		n, ok := t.ids[key]
		for ok && n != noSlot && (t.slots[n].block != p || t.slots[n].place != at) {
			last, n = n, t.slots[n].next
		}
		if !ok || n == noSlot {
			return
		}
		switch next := t.slots[n].next; {
		case last != noSlot:
			t.slots[last].next = next
		case next != noSlot:
			t.ids[key] = next
		default:
			delete(t.ids, key)
		}
		t.slots[n] = idSlot{next: t.free}
		t.free = n
	})
}

// dropPuts removes the rows of an owner. If owner is nil, dropPuts removes for each key in b the
// oldest version that belongs to no block.
func (t *tree) dropPuts(owner *pendingBlock, b *Batch) {
	b.each(func(key, _ []byte) {
		list := t.puts[string(key)]
		if i := slices.IndexFunc(list, func(v putVersion) bool { return v.owner == owner }); i >= 0 {
			list = slices.Delete(list, i, i+1)
		}
		if len(list) == 0 {
			delete(t.puts, string(key))
		} else {
			t.puts[string(key)] = list
		}
	})
}

// get returns a pending block by hash, or nil if there is none.
func (t *tree) get(hash primitives.Hash) *pendingBlock {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.blocks[hash]
}

// at returns the pending blocks of a height.
func (t *tree) at(height primitives.Height) []*pendingBlock {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Clone(t.heights[height])
}

// sorted returns all pending blocks by height, then hash, so that parents come first.
func (t *tree) sorted() []*pendingBlock {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.SortedFunc(maps.Values(t.blocks), byRef)
}

func byRef(a, b *pendingBlock) int {
	return cmp.Or(cmp.Compare(a.ref.Height, b.ref.Height), a.ref.Hash.Compare(b.ref.Hash))
}

// hit is a place of an ID in a block.
type hit struct {
	block *pendingBlock
	found
}

// find returns the places of an ID in resident blocks, oldest block first, and the evicted blocks
// that may contain the ID. find also searches the flat head's block.
func (t *tree) find(id primitives.Hash) (out []hit, evicted []*pendingBlock) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n, ok := t.ids[binary.LittleEndian.Uint64(id[:])]; ok {
		for ; n != noSlot; n = t.slots[n].next {
			s := &t.slots[n]
			if d := s.block.body.Load(); d.id(s.place) == id {
				out = append(out, hit{s.block, d.found(s.place)})
			}
		}
		slices.Reverse(out) // oldest block first
		sortHits(out)
	}
	return out, t.evicted.find(t.evicted.id(id))
}

func sortHits(list []hit) {
	slices.SortStableFunc(list, func(a, b hit) int { return byRef(a.block, b.block) })
}

// executes returns whether a resident block has an outcome with an ID.
func (t *tree) executes(p *pendingBlock, d *body, id primitives.Hash) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n, ok := t.ids[binary.LittleEndian.Uint64(id[:])]
	for ; ok && n != noSlot; n = t.slots[n].next {
		if s := &t.slots[n]; s.block == p && s.list == kindOutcomes && d.id(s.place) == id {
			return true
		}
	}
	return false
}

// put returns the versions of a row, oldest first.
func (t *tree) put(key []byte) []putVersion {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Clone(t.puts[string(key)])
}

// stats returns the number of blocks in the tree and the bytes of the blocks' changes.
func (t *tree) stats() (blocks, bytes int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.blocks), t.bytes
}
