package trie

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// hashNode describes a hash node: a subtree of which only hash and memory usage are in memory.
//
// Problem: most of a large state is not in memory. Several roots share the missing subtrees, and
// readers, which take no lock, must be able to load these subtrees.
//
// Invariants: loading changes no root. All roots that share a hash node share the loaded subtree. A
// loaded subtree has the hash and memory usage of its hash node, or the load fails with ErrCorrupt.
//
// Outline: a node of kindHash has hash, memory usage and path. The row (hashNodeRow) of the hash
// node has what may change: the top node of the loaded subtree, which is published atomically, and
// the number of the version at which the subtree was last used. A load reads outside the writer's
// lock and builds while it holds that lock. Two loads of the same node waste work but are no error.
// Sources are tried in order: a copy from another forest (Borrow), a stale index, entries of the
// frontier, pairs of the flat state. Last comes the source with which the hash node was made, in
// case the present source is on another branch.
//
// There are millions of hash nodes, so their rows have no Go pointers. hashNode is assembled only
// for a load. Rejected: a Go object with a mutex for each hash node.
type hashNode struct {
	path []byte       // nibbles, one a byte
	src  *Source      // source of the forest when the hash node was made
	row  *hashNodeRow // nil: the hash node belongs to no forest
}

// hashNodeRow is the mutable part of a hash node.
type hashNodeRow struct {
	target atomic.Uint32 // top node of the loaded subtree; 0: not loaded
	src    uint32        // index into Forest.sources
	used   atomic.Uint64 // id of the newest version when the subtree was last used
}

// heldSource is a source with which hash nodes were made.
type heldSource struct {
	src  *Source
	uses int
}

// hashNode assembles the description of the hash node n.
func (f *Forest) hashNode(n node) *hashNode {
	row := f.hashNodes.get(n.child())
	return &hashNode{n.hashNodePath(), f.sources.get(row.src).src, row}
}

// hashNodePath returns the path of a hash node.
func (n node) hashNodePath() []byte { return n.appendHashNodePath(make([]byte, 0, n.extLen())) }

func (n node) appendHashNodePath(b []byte) []byte {
	for packed, left := n[n.valueAt():], n.extLen(); left > 0; packed, left = packed[1:], left-2 {
		if b = append(b, packed[0]>>4); left > 1 {
			b = append(b, packed[0]&0xf)
		}
	}
	return b
}

// newHashNode makes a node of kindHash, without hash and memory usage.
func (mk *nodeWriter) newHashNode(path []byte, src *Source) (uint32, node, error) {
	ref, n, err := mk.alloc(kindHash, 0, len(path), (len(path)+1)/2)
	if err != nil {
		return 0, nil, err
	}
	packed := n[n.valueAt():]
	for i, nibble := range path {
		if i&1 == 0 {
			packed[i/2] = nibble << 4
		} else {
			packed[i/2] |= nibble
		}
	}
	n.setChild(mk.forest.putHashNode(src))
	return ref, n, nil
}

// putHashNode adds a row for a hash node that is made with src, and returns the row's number.
func (f *Forest) putHashNode(src *Source) uint32 {
	if f.newestSource == nil || f.newestSource.src != src {
		f.newestSource = &heldSource{src: src}
		f.newestAt = f.sources.put(f.newestSource)
	}
	f.newestSource.uses++
	return f.hashNodes.put(f.newestAt)
}

// dropHashNode frees row i.
func (f *Forest) dropHashNode(i uint32) {
	at := f.hashNodes.get(i).src
	held := f.sources.get(at)
	if held.uses--; held.uses == 0 {
		f.sources.drop(at)
		if held == f.newestSource {
			f.newestSource = nil
		}
	}
	f.hashNodes.drop(i)
}

// hashNodeTable holds the rows of hash nodes by number. Readers call get, the writer everything
// else.
type hashNodeTable struct {
	chunks atomic.Pointer[[]*hashNodeChunk]
	n      uint32 // number of rows that were assigned
	free   []uint32
	used   int
}

type hashNodeChunk [1 << tableBits]hashNodeRow

func (t *hashNodeTable) get(i uint32) *hashNodeRow {
	return &(*t.chunks.Load())[i>>tableBits][i&(1<<tableBits-1)]
}

func (t *hashNodeTable) put(src uint32) uint32 {
	t.used++
	i := t.n
	if n := len(t.free); n > 0 { // no reader uses a freed row any more
		i, t.free = t.free[n-1], t.free[:n-1]
	} else if t.n++; i&(1<<tableBits-1) == 0 {
		var chunks []*hashNodeChunk
		if p := t.chunks.Load(); p != nil {
			chunks = *p
		}
		chunks = append(chunks, new(hashNodeChunk)) // safe for readers of the old slice, as in table.put
		t.chunks.Store(&chunks)
	}
	row := t.get(i)
	row.target.Store(0)
	row.used.Store(0)
	row.src = src
	return i
}

func (t *hashNodeTable) drop(i uint32) {
	t.free = append(t.free, i)
	t.used--
}

// PathRange returns the range from <= key < to of the keys below a path, which has one nibble in
// each byte. A nil to means no upper bound.
func PathRange(path []byte) (from, to []byte) {
	x := pathNibs(path)
	from = x.b
	last := bytes.Clone(path)
	for i := len(last) - 1; i >= 0; i-- {
		if last[i] < 15 {
			last[i]++
			return from, pathNibs(last[:i+1]).b
		}
	}
	return from, nil
}

// flatPairs holds copied pairs in one slice.
type flatPairs struct {
	data []byte
	ends []int // offsets in data at which each key and each value ends
}

func (p *flatPairs) add(key, value []byte) {
	p.data = append(p.data, key...)
	p.ends = append(p.ends, len(p.data))
	p.data = append(p.data, value...)
	p.ends = append(p.ends, len(p.data))
}

// each yields the pairs in the order in which they were added.
func (p *flatPairs) each(yield func(key, value []byte) bool) {
	for i, at := 0, 0; i < len(p.ends); i += 2 {
		key, value := p.data[at:p.ends[i]:p.ends[i]], p.data[p.ends[i]:p.ends[i+1]:p.ends[i+1]]
		if !yield(key, value) {
			return
		}
		at = p.ends[i+1]
	}
}

// loadBuffer holds what a subtree is built from: either frontier entries, with the values of the
// entries that are values, or pairs.
type loadBuffer struct {
	entries []FrontierEntry
	paths   []byte // paths of the entries, concatenated
	data    [][]byte
	pairs   flatPairs
}

// loadBuffers are buffers for reuse. No node aliases the buffers.
var loadBuffers = sync.Pool{New: func() any { return new(loadBuffer) }}

// maxLoadBuffer is the greatest capacity of a buffer that is kept for reuse, in bytes.
const maxLoadBuffer = 16 << 10

// done returns the buffer to the pool, unless the buffer is too large.
func (g *loadBuffer) done() {
	if cap(g.entries) > maxLoadBuffer/64 || cap(g.paths) > maxLoadBuffer || cap(g.pairs.data) > maxLoadBuffer {
		return
	}
	clear(g.entries)
	*g = loadBuffer{entries: g.entries[:0], paths: g.paths[:0], pairs: flatPairs{g.pairs.data[:0], g.pairs.ends[:0]}}
	loadBuffers.Put(g)
}

// maxByPairs is the memory usage up to which a subtree is loaded from its pairs if the subtree's
// stored entries are of another version.
const maxByPairs = 256 << 20

// fetch reads the data from which a subtree is built. If rows is set, fetch reads the entries of
// the highest level within the subtree, if the source has any. Otherwise fetch reads the subtree's
// pairs. got must be empty.
func (f *Forest) fetch(got *loadBuffer, src *Source, n node, s *hashNode, rows bool) (err error) {
	if rows {
		if err = f.fetchRows(got, src, n, s); err == nil {
			got.data, err = src.values(got.entries)
		}
		return err
	}
	if src.Load == nil {
		return fmt.Errorf("trie: the forest has no source from which the subtree at path %x could be loaded", s.path)
	}
	from, to := PathRange(s.path)
	return src.Load(from, to, func(key, value []byte) bool {
		got.pairs.add(key, value)
		return true
	})
}

// fetchRows reads the stored entries of a subtree. fetchRows finds no entries if none are stored,
// or if the subtree itself is the only entry: a large leaf.
func (f *Forest) fetchRows(got *loadBuffer, src *Source, n node, s *hashNode) error {
	if src.Rows == nil || n.usage() < f.frontier {
		return nil
	}
	level := 0
	for level+1 < Top && f.levels[level+1] <= n.usage() {
		level++
	}
	err := src.Rows(level, s.path, func(e FrontierEntry) bool {
		got.paths = append(got.paths, e.Path...)
		got.entries = append(got.entries, e) // after this call, the bytes of e.Path are in got.paths
		return true
	})
	if err != nil || len(got.entries) == 1 && len(got.entries[0].Path) == len(s.path) {
		got.entries = got.entries[:0]
		return err
	}
	paths := got.paths
	for i := range got.entries {
		e := &got.entries[i]
		e.Path, paths = paths[:len(e.Path):len(e.Path)], paths[len(e.Path):]
	}
	return checkEntries(got.entries, s.path)
}

// load returns the subtree of a hash node. If the subtree is not in memory, load reads it from the
// source. Two concurrent loads of one node waste work but are no error.
func (f *Forest) load(n node) (uint32, error) {
	row := f.hashNodes.get(n.child())
	if now := f.clock.Load(); row.used.Load() != now {
		row.used.Store(now)
	}
	if ref := row.target.Load(); ref != 0 {
		return ref, nil
	}
	f.lastLoad.Store(f.clock.Load())
	return f.loadHashNode(n, f.hashNode(n), false)
}

// coldVersions is the number of versions since the last load after which Cold returns false.
const coldVersions = 8

// Cold returns whether lookups had to load subtrees lately: in one of the last coldVersions
// versions.
func (r *Root) Cold() bool { return r.forest.lastLoad.Load()+coldVersions >= r.forest.clock.Load() }

// loadLocked is load for the writer.
func (f *Forest) loadLocked(n node) (uint32, error) {
	row := f.hashNodes.get(n.child())
	if ref := row.target.Load(); ref != 0 {
		return ref, nil
	}
	row.used.Store(f.lastID)
	return f.loadHashNode(n, f.hashNode(n), true)
}

// loadHashNode loads a hash node from the present source or, if that fails, from the source with
// which the hash node was made.
func (f *Forest) loadHashNode(n node, s *hashNode, locked bool) (uint32, error) {
	src := f.source.Load()
	ref, err := f.loadFrom(n, s, src, locked)
	if s.needsOriginal(src, err) {
		ref, err = f.loadFrom(n, s, s.src, locked)
	}
	return ref, err
}

// needsOriginal returns whether a subtree that was not found in src must be searched in the source
// with which the hash node was made. It must if src is not that source and had different data. For
// example, src may be on another branch.
func (s *hashNode) needsOriginal(src *Source, err error) bool {
	return errors.Is(err, ErrCorrupt) && s.src != nil && s.src != src
}

// loadFrom loads a hash node from a source. The source's stored entries may be of a version other
// than that of the source's pairs. If the entries do not have the expected hash, loadFrom uses the
// pairs.
func (f *Forest) loadFrom(n node, s *hashNode, src *Source, locked bool) (uint32, error) {
	if src.Borrow != nil {
		if ref, err := f.loadBorrowed(n, s, src, locked); ref != 0 || err != nil {
			return ref, err
		}
	}
	if ref := f.loadStale(n, s, src, locked); ref != 0 {
		return ref, nil
	}
	if src.Rows != nil && n.usage() >= f.frontier {
		ref, err := f.loadBy(n, s, src, src, true, locked)
		if ref != 0 || err != nil && !(errors.Is(err, ErrCorrupt) && n.usage() <= maxByPairs) {
			return ref, err
		}
	}
	return f.loadBy(n, s, src, src, false, locked)
}

// loadStale loads a hash node from the stale source. loadStale returns 0 if the stale source has
// another version of the subtree, or after any error. The caller then uses the source itself.
func (f *Forest) loadStale(n node, s *hashNode, src *Source, locked bool) uint32 {
	if src.Stale == nil {
		return 0
	}
	early, done := src.Stale()
	if early == nil {
		return 0
	}
	ref, err := f.loadBy(n, s, src, early, n.usage() >= f.frontier, locked)
	done(ref != 0 && err == nil)
	return ref
}

// loadBy loads a hash node from the entries (if rows is set) or the pairs of the source `from`. src
// becomes the source of the hash nodes in the loaded subtree. loadBy returns 0 without an error if
// `from` has no entries.
func (f *Forest) loadBy(n node, s *hashNode, src, from *Source, rows, locked bool) (uint32, error) {
	got := loadBuffers.Get().(*loadBuffer)
	defer got.done()
	err := f.fetch(got, from, n, s, rows) // slow; the writer's lock is held only if locked is set
	if !locked {
		f.mu.Lock()
		defer f.unlock()
	}
	if ref := s.row.target.Load(); ref != 0 {
		return ref, nil
	}
	if err != nil || rows && len(got.entries) == 0 {
		return 0, err
	}
	mk := f.nodeWriter(n.birth()) // the loaded nodes belong to the version of the hash node
	ref, err := mk.buildLoaded(n, s, src, got)
	if err != nil {
		mk.undo()
		return 0, err
	}
	mk.done()
	s.row.target.Store(ref)
	return ref, nil
}

// loadBorrowed copies the subtree of a hash node from the root that the source lends. loadBorrowed
// returns 0 if the source lends no root.
func (f *Forest) loadBorrowed(n node, s *hashNode, src *Source, locked bool) (uint32, error) {
	if !locked {
		f.mu.Lock()
		defer f.unlock()
	}
	if ref := s.row.target.Load(); ref != 0 {
		return ref, nil
	}
	return f.copyBorrowed(n, s, src)
}

// buildLoaded builds the subtree of a hash node from the data in got, and verifies the subtree.
func (mk *nodeWriter) buildLoaded(n node, s *hashNode, src *Source, got *loadBuffer) (ref uint32, err error) {
	if len(got.entries) == 0 {
		return mk.subtreeOf(n, s, got.pairs)
	}
	im := importer{nodeWriter: *mk, src: src, entries: got.entries, data: got.data}
	ref, err = im.subtree(0, len(got.entries), len(s.path))
	*mk = im.nodeWriter
	if err != nil {
		return 0, err
	}
	return ref, mk.verify(n, s, ref)
}

// subtreeOf builds the subtree of a hash node from pairs, and verifies the subtree.
func (mk *nodeWriter) subtreeOf(n node, s *hashNode, pairs flatPairs) (uint32, error) {
	path := pathNibs(s.path)
	for k := range pairs.each {
		if commonPrefix(path, keyNibs(k, 0)) < path.n {
			return 0, fmt.Errorf("%w: key %x was loaded for the subtree at path %x, which does not contain it", ErrCorrupt, k, s.path)
		}
	}
	b := builder{mk: mk, base: len(s.path)}
	ref, err := b.run(pairs.each)
	if err != nil {
		return 0, err
	}
	if ref == 0 {
		return 0, fmt.Errorf("%w: there are no stored keys under path %x", ErrCorrupt, s.path)
	}
	return ref, mk.verify(n, s, ref)
}

// verify compares the top node of a loaded subtree with its hash node.
func (mk *nodeWriter) verify(n node, s *hashNode, ref uint32) error {
	switch top := mk.mem.at(ref); {
	case !bytes.Equal(top.hash(), n.hash()):
		return fmt.Errorf("%w: the subtree at path %x has hash %v, expected %v", ErrCorrupt, s.path, top.hashValue(), n.hashValue())
	case top.usage() != n.usage():
		return fmt.Errorf("%w: the subtree at path %x has memory usage %d, expected %d", ErrCorrupt, s.path, top.usage(), n.usage())
	}
	return nil
}
