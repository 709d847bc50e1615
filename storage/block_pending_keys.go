package storage

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives"
)

// pendingKeys finds, by flat key and in the order of flat keys, the blocks above the flat head that
// changed a key.
//
// Problem: while an overlay or stalled finality keeps the flat head in place, thousands of blocks
// accumulate above it. A read that looks into one block after the other would take time
// proportional to the number of blocks, and would read the log for each evicted block.
//
// Outline: sorted runs, merged eight at a time up to 4,096 blocks, so n blocks have at most 28 +
// n/4096 runs. A run has each key once, with the blocks that changed the key, newest block first. A
// point lookup is a binary search in each run. A scan merges the runs. Lookups and scans read the
// log only for the values that they return.
//
// Invariants: a run does not change once a reader may see the run, so a reader needs no lock and
// sees the same data until the read ends. Every block of the tree is in a run or in queued. A block
// is removed from the runs only after the block was removed from the tree: see keysAt.
//
// A committed block costs nothing at first: the block waits in queued, with its body, until a
// reader needs the runs, the body is evicted, or buildEvery blocks wait. If the flat head advances
// often, a block is removed before one of these events.
//
// Rejected: an index with a pointer per key and block, which costs several times the memory.
type pendingKeys struct {
	mu     sync.Mutex // guards queued
	queued []keyedBlock

	building sync.Mutex
	runs     atomic.Pointer[[]*keyRun] // sorted lists of changed keys, longest first; the slice is immutable
}

// keyedBlock is a block that is in no run yet.
type keyedBlock struct {
	p *pendingBlock
	d *body
}

// keyRun has the keys that some blocks changed, sorted.
type keyRun struct {
	tier    int
	blocks  []*pendingBlock // blocks by ascending height; nil: the block has left the tree
	heights []primitives.Height
	shards  []primitives.ShardID
	keys    []byte   // all keys concatenated in ascending order
	ends    []uint32 // offset in keys at which each key ends
	// first[i] is the index in versions of key i's first version. The last element is
	// len(versions).
	first    []uint32
	versions []keyVersion // changes of all keys, grouped by key, newest first
}

// keyVersion is one change of a key. block and shard are indices into lists of the run, item is the
// index among the shard's changes.
type keyVersion struct{ block, shard, item uint32 }

const (
	runMerge = 8
	// Runs of 4,096 blocks are not merged any more, because a commit may have to wait for a merge.
	maxTier    = 4
	buildEvery = 64
)

func (k *pendingKeys) init() { k.runs.Store(new([]*keyRun)) }

// add queues a block with its body.
func (k *pendingKeys) add(p *pendingBlock, d *body) {
	k.mu.Lock()
	k.queued = append(k.queued, keyedBlock{p, d})
	k.mu.Unlock()
}

// build makes runs if many blocks are queued. The caller must not hold the tree's lock.
func (k *pendingKeys) build() {
	k.mu.Lock()
	n := len(k.queued)
	k.mu.Unlock()
	if n >= buildEvery {
		k.all()
	}
}

// all returns runs that cover all blocks, queued ones included.
func (k *pendingKeys) all() []*keyRun {
	k.building.Lock()
	defer k.building.Unlock()
	k.mu.Lock()
	todo := k.queued
	k.queued = nil
	k.mu.Unlock()
	runs := *k.runs.Load()
	if len(todo) == 0 {
		return runs
	}
	runs = slices.Clone(runs)
	for _, b := range todo {
		runs = withRun(runs, newKeyRun(b.p, b.d))
	}
	k.runs.Store(&runs)
	return runs
}

// withRun adds a run to a list that no reader holds, and merges runs as far as possible.
func withRun(runs []*keyRun, r *keyRun) []*keyRun {
	runs = append(runs, r)
	for more := true; more; {
		runs, more = mergeLast(runs)
	}
	return runs
}

// drop removes the blocks for which gone returns true. The rows of a removed block in a run stay
// until the run is merged, or until all of the run's blocks are removed. The caller must not hold
// the tree's lock, because gone may take that lock.
func (k *pendingKeys) drop(gone func(*pendingBlock) bool) {
	k.building.Lock()
	defer k.building.Unlock()
	runs := k.without(gone)
	k.runs.Store(&runs)
}

// without returns the runs after removing the blocks for which gone returns true. without also
// removes these blocks from queued. The caller holds building.
func (k *pendingKeys) without(gone func(*pendingBlock) bool) (runs []*keyRun) {
	k.mu.Lock()
	k.queued = slices.DeleteFunc(k.queued, func(b keyedBlock) bool { return gone(b.p) })
	k.mu.Unlock()
	for _, r := range *k.runs.Load() {
		left, has := r.blocks, false
		for i, p := range r.blocks {
			if p != nil && gone(p) {
				if &left[0] == &r.blocks[0] {
					left = slices.Clone(left)
				}
				left[i] = nil
			}
			has = has || left[i] != nil
		}
		if has {
			next := *r
			next.blocks = left
			runs = append(runs, &next)
		}
	}
	return runs
}

// replace replaces the changes of block p by the changes in body d.
func (k *pendingKeys) replace(p *pendingBlock, d *body) {
	// Put the queued blocks into runs, so that a reader finds p's old changes until the new list is
	// stored.
	k.all()
	k.building.Lock()
	defer k.building.Unlock()
	runs := withRun(k.without(func(q *pendingBlock) bool { return q == p }), newKeyRun(p, d))
	k.runs.Store(&runs)
}

// stats returns the number of runs, keys and key versions.
func (k *pendingKeys) stats() (runs, keys, versions int) {
	list := *k.runs.Load()
	for _, r := range list {
		keys += len(r.ends)
		versions += len(r.versions)
	}
	return len(list), keys, versions
}

func newKeyRun(p *pendingBlock, d *body) *keyRun {
	r := &keyRun{blocks: []*pendingBlock{p}, heights: []primitives.Height{p.ref.Height}}
	for i := range d.keys {
		c := &d.keys[i]
		shard := slices.Index(r.shards, c.shard)
		if shard < 0 {
			shard = len(r.shards)
			r.shards = append(r.shards, c.shard)
		}
		r.begin(c.flat)
		r.versions = append(r.versions, keyVersion{0, uint32(shard), uint32(c.item)})
	}
	r.first = append(r.first, uint32(len(r.versions)))
	return r
}

// begin adds a key. Its versions follow.
func (r *keyRun) begin(key string) {
	r.keys = append(r.keys, key...)
	r.ends = append(r.ends, uint32(len(r.keys)))
	r.first = append(r.first, uint32(len(r.versions)))
}

func (r *keyRun) key(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = r.ends[i-1]
	}
	return r.keys[start:r.ends[i]]
}

func (r *keyRun) of(i int) []keyVersion { return r.versions[r.first[i]:r.first[i+1]] }

// search returns the index of the first key that is not below key.
func (r *keyRun) search(key string) int {
	return sort.Search(len(r.ends), func(i int) bool { return string(r.key(i)) >= key })
}

// mergeLast merges the last eight runs if all of them have one tier.
func mergeLast(runs []*keyRun) (_ []*keyRun, merged bool) {
	n := len(runs) - runMerge
	if n < 0 || runs[n].tier != runs[len(runs)-1].tier || runs[n].tier == maxTier {
		return runs, false
	}
	keys, versions := 0, 0
	for _, r := range runs[n:] {
		keys += len(r.keys)
		versions += len(r.versions)
	}
	if keys > math.MaxUint32 || versions > math.MaxUint32 {
		return runs, false
	}
	return append(runs[:n], mergeRuns(runs[n:])), true
}

// mergeRuns merges runs, leaving out blocks that have left the tree.
func mergeRuns(list []*keyRun) *keyRun {
	out := &keyRun{tier: list[0].tier + 1}
	type from struct{ run, block int }
	var order []from
	for n, r := range list {
		for i, p := range r.blocks {
			if p != nil {
				order = append(order, from{n, i})
			}
		}
	}
	slices.SortFunc(order, func(a, b from) int { return byRef(list[a.run].blocks[a.block], list[b.run].blocks[b.block]) })
	places := make([][]uint32, len(list)) // for each run: indices of its blocks among all blocks
	shards := make([][]uint32, len(list))
	for n, r := range list {
		places[n] = make([]uint32, len(r.blocks))
		for _, id := range r.shards {
			at := slices.Index(out.shards, id)
			if at < 0 {
				at = len(out.shards)
				out.shards = append(out.shards, id)
			}
			shards[n] = append(shards[n], uint32(at))
		}
	}
	for i, f := range order {
		r := list[f.run]
		places[f.run][f.block] = uint32(i)
		out.blocks, out.heights = append(out.blocks, r.blocks[f.block]), append(out.heights, r.heights[f.block])
	}
	c := keyCursor{runs: list, at: make([]int, len(list))}
	for c.next() {
		before := len(out.versions)
		for n, r := range list {
			if !c.has(n) {
				continue
			}
			for _, v := range r.of(c.at[n]) {
				if r.blocks[v.block] != nil {
					out.versions = append(out.versions, keyVersion{places[n][v.block], shards[n][v.shard], v.item})
				}
			}
		}
		if now := out.versions[before:]; len(now) > 0 {
			slices.SortFunc(now, func(a, b keyVersion) int { return cmp.Compare(b.block, a.block) })
			out.keys = append(out.keys, c.key...)
			out.ends = append(out.ends, uint32(len(out.keys)))
			out.first = append(out.first, uint32(before))
		}
	}
	out.first = append(out.first, uint32(len(out.versions)))
	out.keys, out.ends = slices.Clip(out.keys), slices.Clip(out.ends)
	out.first, out.versions = slices.Clip(out.first), slices.Clip(out.versions)
	return out
}

// keyCursor iterates over the keys of several runs in ascending order. A keyCursor visits each key
// once.
type keyCursor struct {
	runs []*keyRun
	at   []int  // index of the next key in each run
	key  []byte // current key; nil before the first call of next
}

// from positions the cursor before the first key that is not below key.
func (c *keyCursor) from(key string) {
	c.at, c.key = make([]int, len(c.runs)), nil
	for n, r := range c.runs {
		c.at[n] = r.search(key)
	}
}

// has returns whether a run has the current key.
func (c *keyCursor) has(n int) bool {
	return c.at[n] < len(c.runs[n].ends) && bytes.Equal(c.runs[n].key(c.at[n]), c.key)
}

// next moves to the next key. It returns false at the end.
func (c *keyCursor) next() bool {
	var least []byte
	for n, r := range c.runs {
		if c.key != nil && c.has(n) {
			c.at[n]++
		}
		if c.at[n] == len(r.ends) {
			continue
		}
		if key := r.key(c.at[n]); least == nil || bytes.Compare(key, least) < 0 {
			least = key
		}
	}
	c.key = least
	return least != nil
}

// branchKeys are the changes between two heights of a branch. A lookup in branchKeys follows no
// parent pointers, because an advance of the flat head may cut parent pointers at any time.
type branchKeys struct {
	s         *Store
	branch    branch
	low, high primitives.Height
	runs      []*keyRun
}

// newest returns the newest change of a key, or the zero foundChange if there is none. at returns
// the key's position in the n-th run.
func (b *branchKeys) newest(key string, at func(n int) (place int, has bool)) (found foundChange) {
	for n, r := range b.runs {
		place, has := at(n)
		if !has {
			continue
		}
		versions := r.of(place)
		i := sort.Search(len(versions), func(i int) bool { return r.heights[versions[i].block] <= b.high })
		for ; i < len(versions); i++ {
			height := r.heights[versions[i].block]
			if height < b.low || found.p != nil && height <= found.p.ref.Height {
				break
			}
			if q := r.blocks[versions[i].block]; q != nil && b.branch.has(q) {
				found = foundChange{s: b.s, p: q, flat: key, shard: r.shards[versions[i].shard], item: int(versions[i].item)}
				break
			}
		}
	}
	return found
}

// get returns the newest change of a key, or the zero foundChange if there is none.
func (b *branchKeys) get(key string) foundChange {
	return b.newest(key, func(n int) (int, bool) {
		i := b.runs[n].search(key)
		return i, i < len(b.runs[n].ends) && string(b.runs[n].key(i)) == key
	})
}

// foundChange is the location of a change.
type foundChange struct {
	s     *Store
	p     *pendingBlock // block that made the change; nil: no change was found
	flat  string
	shard primitives.ShardID
	item  int
}

// read reads the change, from memory or as one item of the log.
func (f *foundChange) read() (*Change, error) {
	if d := f.p.body.Load(); d != nil {
		if c := d.change(f.flat); c != nil {
			return c, nil
		}
	}
	f.s.pendingReads.Add(1)
	c, err := (&Record{s: f.s, e: f.p.entry}).change(f.shard, f.item)
	if err == nil && flatKey(f.shard, c.Key) != f.flat {
		err = damaged("block %v: change %d of shard %d has key %x, expected %x", f.p.ref, f.item, f.shard, c.Key, f.flat)
	}
	return &c, err
}

// keyLayer holds the changes that one section of a branch made in a key range. In a scan, the
// changes of a layer take precedence over the changes of the layers below.
type keyLayer struct {
	branchKeys
	flatRange
	// prefix is the length of the key's column and shard. Below a block that splits shards, the
	// keys of a layer contain another shard ID.
	prefix int
}

// layerScan iterates over the changes of a layer.
type layerScan struct {
	*keyLayer
	cur   keyCursor
	stop  func() error // returns an error to stop the iteration; nil: nothing stops the iteration
	ok    bool
	key   string // current key, with the column and shard of the lowest layer
	found foundChange
}

// scan returns a layerScan at the layer's first change. prefix is the column and shard of the
// lowest layer.
func (l *keyLayer) scan(prefix string, ask func() error) (*layerScan, error) {
	s := &layerScan{keyLayer: l, cur: keyCursor{runs: l.runs}, stop: ask}
	s.cur.from(l.lo)
	return s, s.next(prefix)
}

// next moves to the next key that the branch has changed.
func (s *layerScan) next(prefix string) error {
	s.ok = false
	for n := 1; s.cur.next(); n++ {
		if s.stop != nil && n%stopCheckEvery == 0 {
			if err := s.stop(); err != nil {
				return err
			}
		}
		if s.hi != "" && string(s.cur.key) >= s.hi {
			return nil
		}
		s.s.pendingSteps.Add(1)
		has := func(n int) (int, bool) { return s.cur.at[n], s.cur.has(n) }
		if s.found = s.newest("", has); s.found.p == nil {
			continue
		}
		s.found.flat = string(s.cur.key)
		s.key, s.ok = s.found.flat, true
		if !strings.HasPrefix(s.key, prefix) {
			s.key = prefix + s.key[s.prefix:]
		}
		return nil
	}
	return nil
}
