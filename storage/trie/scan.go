package trie

import "bytes"

// Scanner iterates over pairs in ascending order of keys. A Scanner behaves like nearcore's
// iterator (ops/iter.rs), and also reads the same nodes at the same moments.
//
//	for s := root.Scan(prefix, nil, rec); s.Next(); { use(s.Key(), s.Value()) }
//
// A Scanner is not safe for concurrent use, and its root must stay held.
type Scanner struct {
	root   *Root
	rec    *Recording
	prefix []byte // the first key without this prefix ends the scan; only set if the scan began after a key
	trail  []trailNode
	path   []byte // nibbles down to the last node of trail, including the node's own key once entered
	key    []byte
	ref    ValueRef
	err    error
	proven bool
	nodes  []uint32 // nodes that the scan entered; only for ScanProven
}

// trailNode is a node on the way down, and the next step at it.
type trailNode struct {
	ref    uint32
	n      node
	status int8 // one of the statuses below
	bound  bool // the node is above the prefix, so only one child of the node belongs to the scan
}

// Statuses of a trailNode, in the order in which a scan goes through them. Between at and exiting
// there is one status for each child.
const (
	entering int8 = iota
	at
	atChild
	exiting = atChild + 16
)

// Scan returns the pairs whose keys begin with prefix. rec may be nil. If after is nil, rec records
// the nodes down to the prefix at once, and the nodes and values below the prefix as the scan
// reaches them. If after is not nil, the Scanner returns only keys greater than after. In that
// case, as in nearcore, rec records neither the path to the first of these keys nor the node at
// which the scan ends.
func (r *Root) Scan(prefix, after []byte, rec *Recording) *Scanner {
	s := &Scanner{root: r, rec: rec}
	if after == nil {
		s.err = s.seek(keyNibs(prefix, 0), true, rec)
		return s
	}
	s.prefix = prefix
	if s.err = s.seek(keyNibs(after, 0), false, nil); s.err == nil && len(s.trail) > 0 {
		last := &s.trail[len(s.trail)-1]
		if last.status == entering && last.n.hasValue() {
			path := s.path
			if last.n.kind() == kindLeaf {
				path = extNibs(last.n.ext()).appendNibbles(path[:len(path):len(path)])
			}
			if bytes.Equal(packNibbles(path), after) {
				s.step()
			}
		}
	}
	return s
}

// Range yields the pairs with from <= key < to in ascending order until yield returns false. A nil
// to means no upper bound. Nothing is recorded.
func (r *Root) Range(from, to []byte, yield func(key, value []byte) bool) error {
	s := &Scanner{root: r}
	s.err = s.seek(keyNibs(from, 0), false, nil)
	for s.Next() {
		if to != nil && bytes.Compare(s.Key(), to) >= 0 || !yield(s.Key(), s.Value()) {
			return nil
		}
	}
	return s.Err()
}

// ScanProven is Scan of a prefix that also collects the visited nodes, which Proof returns.
func (r *Root) ScanProven(prefix []byte) *Scanner {
	s := &Scanner{root: r, proven: true}
	s.err = s.seek(keyNibs(prefix, 0), true, nil)
	return s
}

// Proof returns the encodings of the nodes entered so far, in that order, without values. A node
// that occurs at several places is repeated, as in nearcore's state views (iterator.rs
// remember_visited_nodes).
func (s *Scanner) Proof() [][]byte {
	m := s.root.forest.arena.mem()
	out := make([][]byte, len(s.nodes))
	for i, ref := range s.nodes {
		out[i] = bytes.Clone(m.at(ref).raw())
	}
	return out
}

// Key returns the current key, which belongs to the caller.
func (s *Scanner) Key() []byte { return s.key }

// Ref returns the reference of the current value.
func (s *Scanner) Ref() ValueRef { return s.ref }

// Value returns the current value, read-only and valid while the root is held.
func (s *Scanner) Value() []byte {
	f := s.root.forest
	return f.valueOf(f.arena.mem().at(s.ref.ref))
}

// Err returns the error that ended the scan, if any.
func (s *Scanner) Err() error { return s.err }

// descend appends a node to the trail.
func (s *Scanner) descend(ref uint32, rec *Recording) error {
	ref, n, err := s.root.forest.resolve(ref, false)
	if err != nil {
		return err
	}
	rec.node(s.root.forest, ref, n)
	if s.proven {
		s.nodes = append(s.nodes, ref)
	}
	s.trail = append(s.trail, trailNode{ref: ref, n: n})
	return nil
}

// seek moves to the first key that has the prefix key, or that is not below key.
func (s *Scanner) seek(key nibs, isPrefix bool, rec *Recording) error {
	// matches returns whether keys below a node with the own key ext may belong to the scan.
	matches := func(ext nibs) bool {
		if isPrefix {
			return commonPrefix(key, ext) == key.n
		}
		return compareNibs(ext, key) >= 0
	}
	ref := s.root.ref
	for ref != 0 {
		if len(s.trail) > 0 {
			s.trail[len(s.trail)-1].bound = isPrefix
		}
		if err := s.descend(ref, rec); err != nil {
			return err
		}
		last := &s.trail[len(s.trail)-1]
		switch last.n.kind() {
		case kindLeaf:
			if ext := extNibs(last.n.ext()); !matches(ext) {
				s.path = ext.appendNibbles(s.path)
				last.status = exiting
			}
			return nil
		case kindExtension:
			ext := extNibs(last.n.ext())
			if commonPrefix(key, ext) < ext.n {
				if !matches(ext) {
					s.path = ext.appendNibbles(s.path)
					last.status = exiting
				}
				return nil
			}
			key = key.from(ext.n)
			last.status = at
			s.path = ext.appendNibbles(s.path)
			ref = last.n.child()
		default:
			if key.n == 0 {
				return nil
			}
			i := key.at(0)
			s.path = append(s.path, i)
			last.status = atChild + int8(i)
			if ref = last.n.kid(i); ref == 0 {
				last.bound = isPrefix
			}
			key = key.from(1)
		}
	}
	return nil
}

// step advances the last node of the trail. found says that the scan has reached the node's own
// value. down is the reference of the child to enter next; 0: none.
func (s *Scanner) step() (found bool, down uint32) {
	c := &s.trail[len(s.trail)-1]
	kind := c.n.kind()
	isBranch := kind == kindBranch || kind == kindBranchValue
	switch {
	case c.bound:
		c.status = exiting
	case c.status == entering, isBranch && c.status < exiting:
		c.status++
	default:
		c.status = exiting
	}
	switch {
	case c.status == exiting:
		if isBranch {
			if len(s.path) > 0 {
				s.path = s.path[:len(s.path)-1]
			}
		} else {
			s.path = s.path[:len(s.path)-extNibs(c.n.ext()).n]
		}
		s.trail = s.trail[:len(s.trail)-1]
	case c.status == at && isBranch:
		return kind == kindBranchValue, 0
	case c.status == at:
		s.path = extNibs(c.n.ext()).appendNibbles(s.path)
		if kind == kindLeaf {
			return true, 0
		}
		return false, c.n.child()
	default:
		i := byte(c.status - atChild)
		if i == 0 {
			s.path = append(s.path, 0)
		}
		if down = c.n.kid(i); down != 0 {
			s.path[len(s.path)-1] = i
		}
		return false, down
	}
	return false, 0
}

// Next moves to the next pair. It returns false at the end or on an error.
func (s *Scanner) Next() bool {
	for s.err == nil && len(s.trail) > 0 {
		last := s.trail[len(s.trail)-1]
		found, down := s.step()
		switch {
		case down != 0:
			s.err = s.descend(down, s.rec)
		case found:
			s.key = packNibbles(s.path)
			if s.prefix != nil && !bytes.HasPrefix(s.key, s.prefix) {
				s.trail = nil
				return false
			}
			s.ref = refOf(last.ref, last.n)
			if s.rec != nil {
				s.rec.bind(s.root.forest)
				s.rec.add(s.ref.Hash[:], s.ref.Len, s.ref.ref, true)
			}
			return true
		}
	}
	return false
}
