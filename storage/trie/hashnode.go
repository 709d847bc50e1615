package trie

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// hashNode is a subtree of which hash and memory usage are known (they stand in its node, and its path behind them), but whose nodes are built
// from the loader's pairs when somebody first comes by. Loading changes no root: all that share the stub share the subtree. There are
// millions, so what is kept of one has no pointer: this is put together for who loads it.
type hashNode struct {
	path []byte   // nibbles, one a byte
	src  *Source  // of the version that the stub is of, when it was made
	row  *hashNodeRow // nil: it is none of a forest's
}

// hashNodeRow is what changes of a stub.
type hashNodeRow struct {
	target atomic.Uint32 // the top node, 0 before loading
	src    uint32        // of Forest.sources
	used   atomic.Uint64 // the newest version that there was when somebody last came by
}

// heldSource is a source that stubs were made with.
type heldSource struct {
	src  *Source
	uses int
}

// hashNode puts together what is known of the stub n.
func (f *Forest) hashNode(n node) *hashNode {
	row := f.hashNodes.get(n.child())
	return &hashNode{n.hashNodePath(), f.sources.get(row.src).src, row}
}

// hashNodePath is the path of a stub.
func (n node) hashNodePath() []byte { return n.appendHashNodePath(make([]byte, 0, n.extLen())) }

func (n node) appendHashNodePath(b []byte) []byte {
	for packed, left := n[n.valueAt():], n.extLen(); left > 0; packed, left = packed[1:], left-2 {
		if b = append(b, packed[0]>>4); left > 1 {
			b = append(b, packed[0]&0xf)
		}
	}
	return b
}

// newHashNode makes the node of a stub, but for its hash and memory usage.
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

// putHashNode gives a number to a stub of a source.
func (f *Forest) putHashNode(src *Source) uint32 {
	if f.newestSource == nil || f.newestSource.src != src {
		f.newestSource = &heldSource{src: src}
		f.newestAt = f.sources.put(f.newestSource)
	}
	f.newestSource.uses++
	return f.hashNodes.put(f.newestAt)
}

// dropHashNode takes the number back.
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

// hashNodeTable are the rows of stubs by number. Readers call get, the writer all else.
type hashNodeTable struct {
	chunks atomic.Pointer[[]*hashNodeChunk]
	n      uint32 // rows that have been given out
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
	if n := len(t.free); n > 0 { // no reader knows a freed number
		i, t.free = t.free[n-1], t.free[:n-1]
	} else if t.n++; i&(1<<tableBits-1) == 0 {
		var chunks []*hashNodeChunk
		if p := t.chunks.Load(); p != nil {
			chunks = *p
		}
		chunks = append(chunks, new(hashNodeChunk)) // as in table.put
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

// PathRange returns the keys below a path of nibbles, one a byte: from <= key < to, to nil for no end.
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

// flatPairs are copied pairs, one behind the other.
type flatPairs struct {
	data []byte
	ends []int // of each key and each value
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

// loadBuffer is what a subtree is made of: entries of the frontier with the values of those that are values, or else pairs.
type loadBuffer struct {
	entries []FrontierEntry
	paths   []byte // of the entries, as they were read
	data    [][]byte
	pairs   flatPairs
}

// loadBuffers is memory for what is read, to be used again: nodes are made of copies.
var loadBuffers = sync.Pool{New: func() any { return new(loadBuffer) }}

// maxLoadBuffer is how many entries or bytes of pairs may wait to be used again.
const maxLoadBuffer = 16 << 10

// done gives it back.
func (g *loadBuffer) done() {
	if cap(g.entries) > maxLoadBuffer/64 || cap(g.paths) > maxLoadBuffer || cap(g.pairs.data) > maxLoadBuffer {
		return
	}
	clear(g.entries)
	*g = loadBuffer{entries: g.entries[:0], paths: g.paths[:0], pairs: flatPairs{g.pairs.data[:0], g.pairs.ends[:0]}}
	loadBuffers.Put(g)
}

// maxByPairs is the memory usage up to which a subtree whose stored entries are of another version is made of its pairs.
const maxByPairs = 256 << 20

// fetch reads what a subtree is made of: with rows the entries of the highest level that lies within it, if there are any; else its pairs.
// The memory is the caller's, empty before.
func (f *Forest) fetch(got *loadBuffer, src *Source, n node, s *hashNode, rows bool) (err error) {
	if rows {
		if err = f.fetchRows(got, src, n, s); err == nil {
			got.data, err = src.values(got.entries)
		}
		return err
	}
	if src.Load == nil {
		return fmt.Errorf("trie: no loader for the subtree at %x", s.path)
	}
	from, to := PathRange(s.path)
	return src.Load(from, to, func(key, value []byte) bool {
		got.pairs.add(key, value)
		return true
	})
}

// fetchRows reads the entries of a subtree, none if there are none or the subtree is one entry: a great leaf.
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
		got.entries = append(got.entries, e) // of its path only the length outlasts the call
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

// load returns the subtree of a stub, building it if need be. Loading twice at once is a waste, not an error.
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

// coldVersions is how many versions ago a subtree may have been loaded of a root that is Cold.
const coldVersions = 8

// Cold tells whether lookups have lately had to load subtrees.
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

// loadHashNode loads a stub: from what the source lends, from the entries of the frontier, from pairs, or from pairs of the source that the
// hashNode was made with.
func (f *Forest) loadHashNode(n node, s *hashNode, locked bool) (uint32, error) {
	src := f.source.Load()
	ref, err := f.loadFrom(n, s, src, locked)
	if s.needsOriginal(src, err) {
		ref, err = f.loadFrom(n, s, s.src, locked)
	}
	return ref, err
}

// needsOriginal tells whether a subtree that was not found in a source is to be looked for in the one that the stub was made with: the present
// source has gone on by another branch, or has another value just now that was, and will be, what the stub has.
func (s *hashNode) needsOriginal(src *Source, err error) bool {
	return errors.Is(err, ErrCorrupt) && s.src != nil && s.src != src
}

// loadFrom loads a stub by a source. Stored entries may be of another version than the source; then pairs tell.
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

// loadStale loads a stub from what the source has of an earlier version, 0 if the stub has changed since, or whatever else: then the source
// itself tells.
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

// loadBy loads a stub of a source by the entries or the pairs that from has; 0 without an error: there are no entries.
func (f *Forest) loadBy(n node, s *hashNode, src, from *Source, rows, locked bool) (uint32, error) {
	got := loadBuffers.Get().(*loadBuffer)
	defer got.done()
	err := f.fetch(got, from, n, s, rows) // without the lock if nobody holds it: it may take long
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
	mk := f.nodeWriter(n.birth()) // its nodes belong to the version that the stub belongs to
	ref, err := mk.buildLoaded(n, s, src, got)
	if err != nil {
		mk.undo()
		return 0, err
	}
	mk.done()
	s.row.target.Store(ref)
	return ref, nil
}

// loadBorrowed copies the subtree of a stub from what the source lends, 0 if that is gone.
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

// lastLoad makes the subtree of a stub of what was read and compares it with what the stub promises.
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

// subtreeOf makes the subtree of a stub and compares it with what the stub promises.
func (mk *nodeWriter) subtreeOf(n node, s *hashNode, pairs flatPairs) (uint32, error) {
	path := pathNibs(s.path)
	for k := range pairs.each {
		if commonPrefix(path, keyNibs(k, 0)) < path.n {
			return 0, fmt.Errorf("%w: key %x loaded for path %x", ErrCorrupt, k, s.path)
		}
	}
	b := builder{mk: mk, base: len(s.path)}
	ref, err := b.run(pairs.each)
	if err != nil {
		return 0, err
	}
	if ref == 0 {
		return 0, fmt.Errorf("%w: nothing stored under path %x", ErrCorrupt, s.path)
	}
	return ref, mk.verify(n, s, ref)
}

// verify compares what was made of a stub with it.
func (mk *nodeWriter) verify(n node, s *hashNode, ref uint32) error {
	switch top := mk.mem.at(ref); {
	case !bytes.Equal(top.hash(), n.hash()):
		return fmt.Errorf("%w: subtree at path %x hashes to %v, want %v", ErrCorrupt, s.path, top.hashValue(), n.hashValue())
	case top.usage() != n.usage():
		return fmt.Errorf("%w: subtree at path %x uses %d, want %d", ErrCorrupt, s.path, top.usage(), n.usage())
	}
	return nil
}
