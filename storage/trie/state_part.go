package trie

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// PartID names one of the parts that a state is cut into.
type PartID struct{ Index, Total uint64 }

// PartUsage is how much memory usage a part has, about (nearcore state_sync.rs STATE_PART_MEMORY_LIMIT).
const PartUsage = 30 << 20

// MaxPart bounds the strings of a part together, in bytes (nearcore state_part.rs PART_SIZE_LIMIT).
const MaxPart = 512 << 20

// NumParts returns into how many parts a state of a memory usage is cut; none of an empty one.
func NumParts(usage uint64) uint64 { return usage/PartUsage + min(usage%PartUsage, 1) }

// check says why there is no such part.
func (id PartID) check() error {
	if id.Index >= id.Total {
		return fmt.Errorf("trie: no part %d of %d", id.Index, id.Total)
	}
	return nil
}

// threshold is the memory usage behind which part i of n begins.
func threshold(usage, i, n uint64) uint64 { return usage/n*i + min(i, usage%n) }

// Part returns what a part consists of: all nodes and values between two keys, and the nodes that show why the part begins and ends
// there, distinct, ascending. Parts overlap in those nodes only.
func (r *Root) Part(id PartID) ([][]byte, error) {
	if err := id.check(); err != nil {
		return nil, err
	}
	rec := new(Recording)
	w := partWalk[uint32]{src: &rootNodes{r.forest, rec}}
	if err := w.run(r.ref, r.usage, id); err != nil {
		return nil, err
	}
	return rec.Proof(), nil
}

// Part is a part of a state that was found to be right.
type Part struct {
	Pairs    []Change                // ascending by key; they alias the part's strings
	Frontier [Levels][]FrontierEntry // of the subtrees of each level that begin in the part or reach into it, and of values above those
}

// OpenPart judges a part of the state of a root, and takes it apart: it must have what Root.Part gives and nothing else, in any order
// (nearcore state_parts.rs:383 validate_state_part). frontier is Options.Frontier of the forest that the state is for. What is missing is
// ErrMissing, what is too much or malformed ErrCorrupt.
func OpenPart(strings [][]byte, root primitives.Hash, id PartID, frontier uint64) (*Part, error) {
	if err := id.check(); err != nil {
		return nil, err
	}
	if frontier == 0 {
		frontier = DefaultFrontier
	}
	if root.IsZero() {
		if len(strings) > 0 {
			return nil, fmt.Errorf("%w: %d strings in a part of an empty trie", ErrCorrupt, len(strings))
		}
		return new(Part), nil
	}
	p, err := newPartial(strings, root, MaxPart)
	if err != nil {
		return nil, err
	}
	if n := len(p.strings.list); n != len(strings) {
		return nil, fmt.Errorf("%w: %d strings in a part, %d distinct", ErrCorrupt, len(strings), n)
	}
	src := &proofNodes{p: p, seen: make([]bool, len(strings))}
	w := partWalk[primitives.Hash]{src: src, levels: levelsFrom(frontier), part: new(Part)}
	if err := w.run(root, p.usage, id); err != nil {
		return nil, err
	}
	if i := slices.Index(src.seen, false); i >= 0 {
		return nil, fmt.Errorf("%w: string %v has no place in part %d of %d", ErrCorrupt, primitives.HashBytes(p.strings.list[i]), id.Index, id.Total)
	}
	return w.part, nil
}

// partNode is what making and judging parts needs of a node at a P.
type partNode[P comparable] struct {
	kind       Kind // BranchWithValue is Branch
	hash       primitives.Hash
	usage, own uint64 // of the subtree, and of the node alone
	key        nibs   // leaf, extension
	child      P      // extension
	mask       uint16
	kids       [16]P // branch
	hasValue   bool
	value      ValueID
	place      P // of the node, for its value
}

// partNodes are the nodes of a trie; who asks for one has touched it.
type partNodes[P comparable] interface {
	node(at P, n *partNode[P]) error
	data(n *partNode[P]) ([]byte, error)
}

var (
	_ partNodes[uint32]          = (*rootNodes)(nil)
	_ partNodes[primitives.Hash] = (*proofNodes)(nil)
)

// rootNodes are those of a whole trie.
type rootNodes struct {
	f   *Forest
	rec *Recording
}

func (s *rootNodes) node(at uint32, out *partNode[uint32]) error {
	ref, n, err := s.f.resolve(at, false)
	if err != nil {
		return err
	}
	s.rec.node(s.f, ref, n)
	*out = partNode[uint32]{kind: Branch, hash: n.hashValue(), usage: n.usage(), own: costNode, place: ref, hasValue: n.hasValue()}
	switch n.kind() {
	case kindLeaf:
		out.kind, out.key, out.own = Leaf, extNibs(n.ext()), keyCost(n.extLen())
	case kindExtension:
		out.kind, out.key, out.own, out.child = Extension, extNibs(n.ext()), keyCost(n.extLen()), n.child()
	default:
		out.mask = n.mask()
		for m := out.mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros16(m)
			out.kids[i] = n.kid(byte(i))
		}
	}
	if out.hasValue {
		out.value = ValueID{n.valueLen(), primitives.Hash(n.valueHash())}
		out.own += valueCost(out.value.Len)
	}
	return nil
}

func (s *rootNodes) data(n *partNode[uint32]) ([]byte, error) {
	s.rec.bind(s.f)
	s.rec.add(n.value.Hash[:], n.value.Len, n.place, true)
	return nil, nil
}

// proofNodes are those that a part shows.
type proofNodes struct {
	p    *Partial
	seen []bool
}

func (s *proofNodes) node(at primitives.Hash, out *partNode[primitives.Hash]) error {
	n, err := s.p.node(&at, nil)
	if err != nil {
		return err
	}
	s.seen[s.p.ref(&at)-1] = true
	*out = partNode[primitives.Hash]{kind: n.kind, hash: at, usage: n.usage, own: n.own(), hasValue: n.hasValue()}
	switch n.kind {
	case Leaf:
		out.key = extNibs(n.key)
	case Extension:
		out.key, out.child = extNibs(n.key), *n.child()
	default:
		out.kind, out.mask = Branch, n.mask
		for m := n.mask; m != 0; m &= m - 1 {
			i := bits.TrailingZeros16(m)
			out.kids[i] = *n.kid(byte(i))
		}
	}
	if out.hasValue {
		out.value = n.valueID()
	}
	return nil
}

func (s *proofNodes) data(n *partNode[primitives.Hash]) ([]byte, error) {
	v, err := s.p.Value(n.value, nil)
	if err == nil {
		s.seen[s.p.ref(&n.value.Hash)-1] = true
	}
	return v, err
}

// partWalk goes over a part, in the order of nearcore (state_parts.rs find_state_part_boundary, ops/iter.rs visit_nodes_interval). It is
// from what it touches that the part is made.
type partWalk[P comparable] struct {
	src    partNodes[P]
	levels [Levels]uint64 // of the frontier
	part   *Part          // what is found; nil: nobody asks
	end    []byte         // nibbles, one a byte: where the walk ends; nil: nowhere
	path   []byte         // nibbles down to where the walk is
}

func (w *partWalk[P]) run(root P, usage uint64, id PartID) error {
	var none P
	if root == none {
		return nil
	}
	begin, _, err := w.boundary(root, usage, id.Index, id.Total)
	if err != nil {
		return err
	}
	end, last, err := w.boundary(root, usage, id.Index+1, id.Total)
	if err != nil {
		return err
	}
	if w.end = end; last {
		w.end = nil
	}
	err = w.below(root, pathNibs(begin), true, Levels)
	if errors.Is(err, errStop) {
		err = nil
	}
	return err
}

// afterAllKeys is the key at which nearcore begins a part that would begin behind all keys: there are such if more parts are asked for than the
// state has bytes.
var afterAllKeys = []byte{1, 0}

// boundary returns the nibbles of the first key of part i, which are those of the first value behind a memory usage; last: there is none.
func (w *partWalk[P]) boundary(root P, usage, i, total uint64) (path []byte, last bool, err error) {
	switch i {
	case 0:
		return []byte{}, false, nil
	case total:
		return afterAllKeys, true, nil
	}
	var n, child partNode[P]
	if err := w.src.node(root, &n); err != nil {
		return nil, false, err
	}
	limit, skipped := threshold(usage, i, total), uint64(0)
	path = []byte{} // of a value at the root: an end too
	if usage <= limit {
		return afterAllKeys, true, nil
	}
search:
	for len(path) <= 2*MaxKeyLen {
		skipped += n.own
		switch n.kind {
		case Leaf:
			path = n.key.appendNibbles(path)
			return path, false, checkWholeKey(path)
		case Extension:
			path = n.key.appendNibbles(path)
			if err := w.src.node(n.child, &child); err != nil {
				return nil, false, err
			}
			n = child
			continue
		}
		if skipped > limit && n.hasValue {
			return path, false, checkWholeKey(path)
		}
		for m := n.mask; m != 0; m &= m - 1 {
			k := bits.TrailingZeros16(m)
			if err := w.src.node(n.kids[k], &child); err != nil {
				return nil, false, err
			}
			if skipped+child.usage > limit {
				path = append(path, byte(k))
				n = child
				continue search
			}
			skipped += child.usage
		}
		return nil, false, fmt.Errorf("%w: children at path %x use less than their parent says", ErrCorrupt, path)
	}
	return nil, false, checkWholeKey(path)
}

// evictSubtree says why a path is no key.
func checkWholeKey(path []byte) error {
	if len(path)%2 != 0 || len(path) > 2*MaxKeyLen {
		return fmt.Errorf("%w: a key of %d nibbles", ErrCorrupt, len(path))
	}
	return nil
}

// ended tells whether the path is at the end, or behind it.
func (w *partWalk[P]) ended() bool { return w.end != nil && bytes.Compare(w.path, w.end) >= 0 }

// below goes over what is below a node, as far as it is not below from; free: there is no such bound any more where from is empty. Of the
// frontier's levels those below above are yet to have an entry for what is here.
func (w *partWalk[P]) below(at P, from nibs, bounded bool, above int) error {
	var n partNode[P]
	if err := w.src.node(at, &n); err != nil {
		return err
	}
	depth := len(w.path)
	defer func() { w.path = w.path[:depth] }()
	if w.part != nil {
		above = w.entries(&n, above)
	}
	if depth+n.key.n > 2*MaxKeyLen {
		return fmt.Errorf("%w: a path of %d nibbles", ErrCorrupt, depth+n.key.n)
	}
	switch n.kind {
	case Leaf:
		if bounded && compareNibs(n.key, from) < 0 {
			return nil
		}
		w.path = n.key.appendNibbles(w.path)
		return w.pair(&n, 0)
	case Extension:
		if bounded {
			if l := commonPrefix(n.key, from); l == n.key.n {
				w.path = n.key.appendNibbles(w.path)
				return w.below(n.child, from.from(l), true, above) // the way to where the part begins has no end
			}
			if compareNibs(n.key, from) < 0 {
				return nil
			}
		}
		w.path = n.key.appendNibbles(w.path)
		if w.ended() {
			return errStop
		}
		return w.below(n.child, nibs{}, false, above)
	}
	first := 0
	switch {
	case bounded && from.n > 0:
		first = int(from.at(0)) + 1
		if i := byte(first - 1); n.mask>>i&1 == 1 {
			w.path = append(w.path, i)
			if err := w.below(n.kids[i], from.from(1), true, above); err != nil {
				return err
			}
			w.path = w.path[:depth]
		}
	case n.hasValue:
		if err := w.pair(&n, above); err != nil {
			return err
		}
	}
	for i := first; i < 16; i++ {
		if n.mask>>i&1 == 0 {
			continue
		}
		w.path = append(w.path, byte(i))
		if w.ended() {
			return errStop
		}
		if err := w.below(n.kids[i], nibs{}, false, above); err != nil {
			return err
		}
		w.path = w.path[:depth]
	}
	return nil
}

// entries notes the node at the path on the levels below above on which it is an entry, and returns below which it is none.
func (w *partWalk[P]) entries(n *partNode[P], above int) int {
	rest := 0
	for level := range above {
		switch {
		case n.kind != Leaf && n.usage >= w.levels[level]:
			rest = level + 1
		case len(w.path) == 0 && level > 0 && level < Top && n.usage < w.levels[level]: // see FrontierSince
		default:
			w.part.Frontier[level] = append(w.part.Frontier[level], FrontierEntry{Path: bytes.Clone(w.path), Hash: n.hash, Size: n.usage})
		}
	}
	return rest
}

// pair takes the value at the path, which the levels of the frontier below above have too.
func (w *partWalk[P]) pair(n *partNode[P], above int) error {
	if w.ended() {
		return errStop
	}
	v, err := w.src.data(n)
	if err != nil || w.part == nil {
		return err
	}
	if err := checkWholeKey(w.path); err != nil {
		return err
	}
	w.part.Pairs = append(w.part.Pairs, Change{Key: packNibbles(w.path), Value: v})
	if above > 0 {
		e := FrontierEntry{Path: bytes.Clone(w.path), Hash: n.value.Hash, Size: uint64(n.value.Len), IsValue: true}
		if n.value.Len <= maxInline {
			e.Data = v
		}
		for level := range above {
			w.part.Frontier[level] = append(w.part.Frontier[level], e)
		}
	}
	return nil
}
