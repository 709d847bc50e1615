package trie

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// PartID names one of the parts into which a state is divided.
type PartID struct{ Index, Total uint64 }

// PartUsage is the approximate memory usage of a part (nearcore state_sync.rs
// STATE_PART_MEMORY_LIMIT).
const PartUsage = 30 << 20

// MaxPart bounds the total bytes of a part (nearcore state_part.rs PART_SIZE_LIMIT).
const MaxPart = 512 << 20

// NumParts returns the number of parts of a state with a memory usage. 0 for an empty state.
func NumParts(usage uint64) uint64 { return usage/PartUsage + min(usage%PartUsage, 1) }

// check returns an error if there is no such part.
func (id PartID) check() error {
	if id.Index >= id.Total {
		return fmt.Errorf("trie: the number of the state part is %d, must be below the number of parts, %d", id.Index, id.Total)
	}
	return nil
}

// threshold returns the memory usage after which part i of n begins.
func threshold(usage, i, n uint64) uint64 { return usage/n*i + min(i, usage%n) }

// Part returns the strings of a part, distinct and ascending: all nodes and values between two
// keys, and the nodes that prove where the part begins and ends. Only these proof nodes occur in
// several parts.
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

// Part is a validated part of a state.
type Part struct {
	Pairs []Change // pairs by ascending key; the bytes of the pairs alias the part's strings
	// Frontier has, for each level, the subtrees that begin in the part or extend into it, and the
	// values of branches above these subtrees.
	Frontier [Levels][]FrontierEntry
}

// OpenPart validates a part of the state of a root and returns its content. strings must be what
// Root.Part returns and nothing else, in any order (nearcore state_parts.rs:383
// validate_state_part). frontier is Options.Frontier of the target forest. Errors: ErrMissing if a
// string is missing, ErrCorrupt if a string is superfluous or malformed.
func OpenPart(strings [][]byte, root primitives.Hash, id PartID, frontier uint64) (*Part, error) {
	if err := id.check(); err != nil {
		return nil, err
	}
	if frontier == 0 {
		frontier = DefaultFrontier
	}
	if root.IsZero() {
		if len(strings) > 0 {
			return nil, fmt.Errorf("%w: a part of an empty trie contains %d strings, must contain 0", ErrCorrupt, len(strings))
		}
		return new(Part), nil
	}
	p, err := newPartial(strings, root, MaxPart)
	if err != nil {
		return nil, err
	}
	if n := len(p.strings.list); n != len(strings) {
		return nil, fmt.Errorf("%w: a part contains %d strings, but only %d distinct ones; each may occur once", ErrCorrupt, len(strings), n)
	}
	src := &proofNodes{p: p, seen: make([]bool, len(strings))}
	w := partWalk[primitives.Hash]{src: src, levels: levelsFrom(frontier), part: new(Part)}
	if err := w.run(root, p.usage, id); err != nil {
		return nil, err
	}
	if i := slices.Index(src.seen, false); i >= 0 {
		return nil, fmt.Errorf("%w: the string with hash %v does not belong to part %d of %d", ErrCorrupt,
			primitives.HashBytes(p.strings.list[i]), id.Index, id.Total)
	}
	return w.part, nil
}

// partNode is a node as parts need it. P is the type of references to nodes.
type partNode[P comparable] struct {
	kind       Kind // Branch also stands for BranchWithValue
	hash       primitives.Hash
	usage, own uint64 // memory usage of the subtree, and of the node alone
	key        nibs   // own key of a leaf or an extension
	child      P      // child of an extension
	mask       uint16
	kids       [16]P // children of a branch
	hasValue   bool
	value      ValueID
	place      P // reference to the node, to read its value
}

// partNodes reads the nodes of a trie and notes which nodes and values were read.
type partNodes[P comparable] interface {
	node(at P, n *partNode[P]) error
	data(n *partNode[P]) ([]byte, error)
}

var (
	_ partNodes[uint32]          = (*rootNodes)(nil)
	_ partNodes[primitives.Hash] = (*proofNodes)(nil)
)

// rootNodes reads the trie of a root.
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
	*out = partNode[uint32]{kind: Branch, hash: n.hashValue(), usage: n.usage(), own: costNode, place: ref,
		hasValue: n.hasValue()}
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

// proofNodes reads the strings of a part.
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

// partWalk visits a part in nearcore's order (state_parts.rs find_state_part_boundary, ops/iter.rs
// visit_nodes_interval). The nodes and values that the walk visits are the part.
type partWalk[P comparable] struct {
	src    partNodes[P]
	levels [Levels]uint64 // limits of the frontier's levels
	part   *Part          // receives the content that the walk finds; nil: the walk collects no content
	end    []byte         // path at which the walk ends, one nibble a byte; nil: the walk ends at the end of the trie
	path   []byte         // path to the current node, one nibble a byte
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

// afterAllKeys is the key at which nearcore begins a part after all keys. Such parts exist if more
// parts are requested than the state has bytes.
var afterAllKeys = []byte{1, 0}

// boundary returns the nibbles of the first key of part i of total. That is the key of the first
// value after the share i/total of the memory usage. last is true if there is no such key.
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
	path = []byte{} // a nil path would mean no end; a value at the root has an empty path
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
		return nil, false, fmt.Errorf("%w: the memory usages of the children at path %x add up to less than the parent states", ErrCorrupt, path)
	}
	return nil, false, checkWholeKey(path)
}

// checkWholeKey returns an error if a path is not a key.
func checkWholeKey(path []byte) error {
	if len(path)%2 != 0 || len(path) > 2*MaxKeyLen {
		return fmt.Errorf("%w: a key has %d nibbles, must be an even number up to %d", ErrCorrupt, len(path), 2*MaxKeyLen)
	}
	return nil
}

// ended returns whether the current path is at w.end or after w.end.
func (w *partWalk[P]) ended() bool { return w.end != nil && bytes.Compare(w.path, w.end) >= 0 }

// below visits the subtree of the node at. If bounded is set, below skips keys before `from`.
// Frontier entries are still needed for the subtree on the levels lower than `above`.
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
		return fmt.Errorf("%w: a path has %d nibbles, the limit is %d", ErrCorrupt, depth+n.key.n, 2*MaxKeyLen)
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
				// The path to the beginning of the part is visited even if that path is after the
				// part's end.
				return w.below(n.child, from.from(l), true, above)
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

// entries adds a frontier entry for the node at the path, on each level lower than `above` on which
// the node is an entry. A node is an entry of a level if the node's usage is below the level's
// limit, or if the node is a leaf. entries returns the level below which the node's descendants
// still need entries.
func (w *partWalk[P]) entries(n *partNode[P], above int) int {
	rest := 0
	for level := range above {
		switch {
		case n.kind != Leaf && n.usage >= w.levels[level]:
			rest = level + 1
		case len(w.path) == 0 && level > 0 && level < Top && n.usage < w.levels[level]: // see FrontierSince
		default:
			w.part.Frontier[level] = append(w.part.Frontier[level],
				FrontierEntry{Path: bytes.Clone(w.path), Hash: n.hash, Size: n.usage})
		}
	}
	return rest
}

// pair takes the value at the path, which is also an entry on the frontier levels lower than
// `above`.
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
