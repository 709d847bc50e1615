package trie

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
)

// stub is a subtree of which hash and memory usage are known (they stand in its node), but whose nodes are built from
// the loader's pairs when somebody first comes by. Loading changes no root: all that share the stub share the subtree.
type stub struct {
	path   []byte        // nibbles, one a byte
	src    *Source       // of the version that the stub is of, when it was made
	target atomic.Uint32 // the top node, 0 before loading
	used   atomic.Uint64 // the newest version that there was when somebody last came by
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

func (src *Source) fetch(path []byte) (p flatPairs, err error) {
	if src.Load == nil {
		return p, fmt.Errorf("trie: no loader for the subtree at %x", path)
	}
	from, to := PathRange(path)
	err = src.Load(from, to, func(key, value []byte) bool {
		p.add(key, value)
		return true
	})
	return p, err
}

// load returns the subtree of a stub, building it if need be. Loading twice at once is a waste, not an error.
func (f *Forest) load(n node) (uint32, error) {
	s := f.stubs.get(n.child())
	if now := f.clock.Load(); s.used.Load() != now {
		s.used.Store(now)
	}
	if ref := s.target.Load(); ref != 0 {
		return ref, nil
	}
	src := f.source.Load()
	ref, err := f.loadFrom(n, s, src)
	if s.lost(src, err) {
		ref, err = f.loadFrom(n, s, s.src)
	}
	return ref, err
}

// lost tells whether a subtree that was not found in a source is to be looked for in the one that the stub was made with: the present
// source has gone on by another branch, or has another value just now that was, and will be, what the stub has.
func (s *stub) lost(src *Source, err error) bool {
	return errors.Is(err, ErrCorrupt) && s.src != nil && s.src != src
}

// loadFrom loads a stub by a source.
func (f *Forest) loadFrom(n node, s *stub, src *Source) (uint32, error) {
	if src.Lend != nil {
		if ref, err := f.loadLent(n, s, src); ref != 0 || err != nil {
			return ref, err
		}
	}
	pairs, err := src.fetch(s.path) // without the lock: it may take long
	f.mu.Lock()
	defer f.unlock()
	if ref := s.target.Load(); ref != 0 {
		return ref, nil
	}
	if err != nil {
		return 0, err
	}
	return f.fill(n, s, pairs)
}

// loadLent copies the subtree of a stub from what the source lends, 0 if that is gone.
func (f *Forest) loadLent(n node, s *stub, src *Source) (uint32, error) {
	f.mu.Lock()
	defer f.unlock()
	if ref := s.target.Load(); ref != 0 {
		return ref, nil
	}
	return f.adopt(n, s, src)
}

// loadLocked is load for the writer.
func (f *Forest) loadLocked(n node) (uint32, error) {
	s := f.stubs.get(n.child())
	if ref := s.target.Load(); ref != 0 {
		return ref, nil
	}
	s.used.Store(f.lastID)
	src := f.source.Load()
	ref, err := f.loadFromLocked(n, s, src)
	if s.lost(src, err) {
		ref, err = f.loadFromLocked(n, s, s.src)
	}
	return ref, err
}

func (f *Forest) loadFromLocked(n node, s *stub, src *Source) (uint32, error) {
	if ref, err := f.adopt(n, s, src); ref != 0 || err != nil {
		return ref, err
	}
	pairs, err := src.fetch(s.path)
	if err != nil {
		return 0, err
	}
	return f.fill(n, s, pairs)
}

// check builds the subtree of a stub that is not loaded, and frees it again.
func (f *Forest) check(n node) error {
	s, src := f.stubs.get(n.child()), f.source.Load()
	err := f.checkFrom(n, s, src)
	if s.lost(src, err) {
		err = f.checkFrom(n, s, s.src)
	}
	return err
}

func (f *Forest) checkFrom(n node, s *stub, src *Source) error {
	if s.target.Load() != 0 {
		return nil
	}
	pairs, err := src.fetch(s.path)
	f.mu.Lock()
	defer f.unlock()
	if s.target.Load() != 0 { // loaded meanwhile, and so possibly changed below us
		return nil
	}
	if err != nil {
		return err
	}
	mk := f.maker(n.birth())
	_, err = mk.subtreeOf(n, s, pairs)
	mk.undo()
	return err
}

// fill builds the subtree of the stub n. Its nodes belong to the version that the stub belongs to.
func (f *Forest) fill(n node, s *stub, pairs flatPairs) (uint32, error) {
	mk := f.maker(n.birth())
	ref, err := mk.subtreeOf(n, s, pairs)
	if err != nil {
		mk.undo()
		return 0, err
	}
	s.target.Store(ref)
	return ref, nil
}

// subtreeOf makes the subtree of a stub and compares it with what the stub promises.
func (mk *maker) subtreeOf(n node, s *stub, pairs flatPairs) (uint32, error) {
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
	switch top := mk.mem.at(ref); {
	case !bytes.Equal(top.hash(), n.hash()):
		return 0, fmt.Errorf("%w: subtree at path %x hashes to %v, want %v", ErrCorrupt, s.path, top.hashValue(), n.hashValue())
	case top.usage() != n.usage():
		return 0, fmt.Errorf("%w: subtree at path %x uses %d, want %d", ErrCorrupt, s.path, top.usage(), n.usage())
	}
	return ref, nil
}
