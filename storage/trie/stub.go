package trie

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

// stub is a subtree of which hash and memory usage are known (they stand in its node), but whose nodes are built from
// the loader's pairs when somebody first comes by. Loading changes no root: all that share the stub share the subtree.
type stub struct {
	path   []byte        // nibbles, one a byte
	target atomic.Uint32 // the top node, 0 before loading
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

// flatPairs are copied pairs.
type flatPairs struct {
	keys, values [][]byte
}

func (src *Source) fetch(path []byte) (p flatPairs, err error) {
	if src.Load == nil {
		return p, fmt.Errorf("trie: no loader for the subtree at %x", path)
	}
	from, to := PathRange(path)
	err = src.Load(from, to, func(key, value []byte) bool {
		p.keys = append(p.keys, bytes.Clone(key))
		p.values = append(p.values, bytes.Clone(value))
		return true
	})
	return p, err
}

// load returns the subtree of a stub, building it if need be. Loading twice at once is a waste, not an error.
func (f *Forest) load(n node) (uint32, error) {
	s := f.stubs.get(n.child())
	if ref := s.target.Load(); ref != 0 {
		return ref, nil
	}
	src := f.source.Load()
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
	src := f.source.Load()
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
	s := f.stubs.get(n.child())
	if s.target.Load() != 0 {
		return nil
	}
	pairs, err := f.source.Load().fetch(s.path)
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
	for path, i := pathNibs(s.path), 0; i < len(pairs.keys); i++ {
		if k := pairs.keys[i]; commonPrefix(path, keyNibs(k, 0)) < path.n {
			return 0, fmt.Errorf("%w: key %x loaded for path %x", ErrCorrupt, k, s.path)
		}
	}
	b := builder{mk: mk, base: len(s.path)}
	ref, err := b.run(func(yield func(k, v []byte) bool) {
		for i, k := range pairs.keys {
			if !yield(k, pairs.values[i]) {
				return
			}
		}
	})
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
