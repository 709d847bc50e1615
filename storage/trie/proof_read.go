package trie

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// Lookup is like Root.Lookup, on a partial trie.
func (p *Partial) Lookup(key []byte, rec *Recording) (v ValueID, found bool, err error) {
	v, _, found, err = p.walk(key, rec, nil, false)
	return v, found, err
}

// Path is like Root.Path, on a partial trie.
func (p *Partial) Path(key []byte, rec *Recording, path []Visit) (_ []Visit, v ValueID, found bool, err error) {
	v, path, found, err = p.walk(key, rec, path, true)
	return path, v, found, err
}

// Get is like Root.Get, on a partial trie.
func (p *Partial) Get(key []byte, rec *Recording) ([]byte, error) {
	v, found, err := p.Lookup(key, rec)
	if err != nil || !found {
		return nil, err
	}
	return p.Value(v, rec)
}

func (p *Partial) walk(key []byte, rec *Recording, path []Visit,
	collect bool) (v ValueID, _ []Visit, found bool, err error) {
	if p.root.IsZero() {
		return v, path, false, nil
	}
	for h, pos := &p.root, 0; h != nil; {
		n, err := p.node(h, rec)
		if err != nil {
			return v, path, false, err
		}
		if collect {
			path = append(path, Visit{*h, n.len})
		}
		switch n.kind {
		case Leaf:
			if !matchLeaf(key, pos, n.key) {
				return v, path, false, nil
			}
			return n.valueID(), path, true, nil
		case Extension:
			l, ok := matchExt(key, pos, n.key)
			if !ok {
				return v, path, false, nil
			}
			pos += l
			h = n.child()
		default:
			if pos == 2*len(key) {
				if n.hasValue() {
					return n.valueID(), path, true, nil
				}
				return v, path, false, nil
			}
			h = n.kid(nibbleAt(key, pos))
			pos++
		}
	}
	return v, path, false, nil
}

// MaxScan bounds the nodes that one scan of a proof visits. The bound is needed because equal
// subtrees are the same string, so that a small proof may describe a trie of any size. Valid chunks
// stay below the bound: they scan only the keys of an account that may be deleted, which have
// 10,000 bytes in total.
const MaxScan = 1 << 20

// errStop ends a scan that yield stopped.
var errStop = errors.New("trie: the scan was stopped by its caller")

// Scan yields the pairs that Root.Scan yields, ascending, until yield returns false, and records
// the nodes that Root.Scan records, in the same order. If after is not nil, Scan yields only keys
// greater than after, and does not record the path to the first of these keys.
func (p *Partial) Scan(prefix, after []byte, rec *Recording, yield func(key, value []byte) bool) error {
	if p.root.IsZero() {
		return nil
	}
	s := partialScan{p: p, rec: rec, prefix: prefix, yield: yield}
	var err error
	if after == nil {
		err = s.seek(&p.root, keyNibs(prefix, 0))
	} else {
		s.bounded = true
		err = s.from(&p.root, keyNibs(after, 0))
	}
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

type partialScan struct {
	p       *Partial
	rec     *Recording
	prefix  []byte
	bounded bool // keys without the prefix may follow; the first such key ends the scan
	yield   func(key, value []byte) bool
	path    []byte // nibbles, one a byte
	nodes   int
}

func (s *partialScan) node(h *primitives.Hash, rec *Recording) (proofNode, error) {
	if s.nodes++; s.nodes > MaxScan || len(s.path) > 2*MaxKeyLen {
		return proofNode{}, fmt.Errorf("%w: a scan of the proof visits more than %d nodes or goes deeper than %d bytes",
			ErrCorrupt, MaxScan, MaxKeyLen)
	}
	return s.p.node(h, rec)
}

// pair yields the value at the path.
func (s *partialScan) pair(n *proofNode) error {
	key := packNibbles(s.path)
	if s.bounded && !bytes.HasPrefix(key, s.prefix) {
		return errStop
	}
	v, err := s.p.Value(n.valueID(), s.rec)
	if err == nil && !s.yield(key, v) {
		err = errStop
	}
	return err
}

// all yields everything below a node that was recorded. The path lacks the node's own key.
func (s *partialScan) all(n *proofNode) error {
	depth := len(s.path)
	defer func() { s.path = s.path[:depth] }()
	if n.key != nil {
		s.path = extNibs(n.key).appendNibbles(s.path)
	}
	if n.hasValue() {
		if err := s.pair(n); err != nil {
			return err
		}
	}
	switch n.kind {
	case Leaf:
		return nil
	case Extension:
		return s.below(n.child())
	}
	return s.branch(n, 0)
}

// branch yields what is below the children of a branch, from nibble first on.
func (s *partialScan) branch(n *proofNode, first int) error {
	for i := first; i < 16; i++ {
		if h := n.kid(byte(i)); h != nil {
			s.path = append(s.path, byte(i))
			if err := s.below(h); err != nil {
				return err
			}
			s.path = s.path[:len(s.path)-1]
		}
	}
	return nil
}

func (s *partialScan) below(h *primitives.Hash) error {
	n, err := s.node(h, s.rec)
	if err != nil {
		return err
	}
	return s.all(&n)
}

// seek goes down to the prefix and yields what is there.
func (s *partialScan) seek(h *primitives.Hash, rest nibs) error {
	for h != nil {
		n, err := s.node(h, s.rec)
		if err != nil {
			return err
		}
		switch {
		case n.key != nil:
			ext := extNibs(n.key)
			l := commonPrefix(rest, ext)
			if l == rest.n {
				return s.all(&n)
			}
			if n.kind == Leaf || l < ext.n {
				return nil
			}
			s.path = ext.appendNibbles(s.path)
			rest, h = rest.from(l), n.child()
		case rest.n == 0:
			return s.all(&n)
		default:
			i := rest.at(0)
			s.path = append(s.path, i)
			rest, h = rest.from(1), n.kid(i)
		}
	}
	return nil
}

// from yields the pairs below a node whose keys are greater than the key of which rest is the part
// below the node. from does not record the nodes on the path of that key.
func (s *partialScan) from(h *primitives.Hash, rest nibs) error {
	n, err := s.node(h, nil)
	if err != nil {
		return err
	}
	depth := len(s.path)
	defer func() { s.path = s.path[:depth] }()
	if n.key == nil {
		if rest.n == 0 {
			return s.branch(&n, 0)
		}
		i := rest.at(0)
		if kid := n.kid(i); kid != nil {
			s.path = append(s.path, i)
			if err := s.from(kid, rest.from(1)); err != nil {
				return err
			}
			s.path = s.path[:depth]
		}
		return s.branch(&n, int(i)+1)
	}
	ext := extNibs(n.key)
	switch o := compareNibs(ext, rest); {
	case n.kind == Leaf && o > 0, n.kind == Extension && o > 0 && commonPrefix(ext, rest) < ext.n:
		return s.all(&n)
	case n.kind == Extension && commonPrefix(ext, rest) == ext.n:
		s.path = ext.appendNibbles(s.path)
		return s.from(n.child(), rest.from(ext.n))
	}
	return nil
}

// FindSplit is Root.FindSplit, on a partial trie.
func (p *Partial) FindSplit(rec *Recording) (primitives.TrieSplit, error) {
	return findSplit(p.root, func(h primitives.Hash) (splitNode[primitives.Hash], error) {
		n, err := p.node(&h, rec)
		if err != nil {
			return splitNode[primitives.Hash]{}, err
		}
		s := splitNode[primitives.Hash]{kind: n.kind, usage: n.usage, mask: n.mask}
		switch n.kind {
		case Leaf:
			s.key = extNibs(n.key)
		case Extension:
			s.key, s.child = extNibs(n.key), *n.child()
		default:
			s.kind = Branch
			for i := range byte(16) {
				if h := n.kid(i); h != nil {
					s.kids[i] = *h
				}
			}
		}
		return s, nil
	})
}
