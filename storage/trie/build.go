package trie

import (
	"bytes"
	"fmt"
	"iter"
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
)

// builder makes a subtree from pairs in ascending order of keys, in one pass. The builder completes
// a branch as soon as a key arrives that is not below the branch. The first base nibbles are common
// to all keys and are not part of the subtree.
type builder struct {
	mk     *nodeWriter
	base   int
	frames []frame // open branches, by ascending depth
	key    []byte  // the last key
	data   []byte  // bytes of the last value
	val    value
	some   bool   // there is a last pair
	branch uint32 // finished branch below the last frame, at depth; 0: the last pair is a leaf there
	depth  int

	// emit receives the frontier entries of all levels, in no order. nil: not called.
	emit func(level int, e *FrontierEntry)
	// If the nodes take more than maxBytes, finished subtrees become hash nodes. 0: no bound.
	maxBytes uint64
}

// minHashNodeUsage is the least memory usage of a finished subtree that becomes a hash node when
// the nodes take more than maxBytes.
const minHashNodeUsage = 1 << 20

type frame struct {
	depth int
	kids  [16]uint32
	val   *value
}

// add takes the next pair. key and v.data may be reused afterwards.
func (b *builder) add(key []byte, v value) error {
	if len(key) > MaxKeyLen {
		return ErrKeyLen
	}
	if b.some {
		prev, next := keyNibs(b.key, b.base), keyNibs(key, b.base)
		l := commonPrefix(prev, next)
		if l == next.n || l < prev.n && prev.at(l) > next.at(l) {
			return fmt.Errorf("%w: key %x came after key %x, which is not below it", ErrOrder, key, b.key)
		}
		if err := b.fold(l + b.base); err != nil {
			return err
		}
	}
	b.some, b.branch = true, 0
	b.key = append(b.key[:0], key...)
	b.val = v
	if v.data != nil {
		b.data = append(b.data[:0], v.data...)
		b.val.data = b.data
	}
	return nil
}

// attach returns the node below the last frame, in the form for a place in the trie at depth `at`:
// a leaf with the last pair, the finished branch, or an extension to that branch.
func (b *builder) attach(at int) (uint32, error) {
	switch {
	case b.branch == 0:
		return b.mk.leaf(keyNibs(b.key, at), &b.val)
	case b.depth == at:
		return b.branch, nil
	}
	return b.mk.extension(nibs{b.key, at, b.depth - at}, b.branch)
}

// hang adds the node below the last frame to the last frame's children.
func (b *builder) hang() error {
	top := &b.frames[len(b.frames)-1]
	ref, err := b.attach(top.depth + 1)
	top.kids[keyNibs(b.key, top.depth).at(0)] = ref
	return err
}

// fold closes the branches below depth l, where the next key diverges, and opens a branch at depth
// l.
func (b *builder) fold(l int) error {
	if err := b.close(l); err != nil {
		return err
	}
	if len(b.frames) == 0 || b.frames[len(b.frames)-1].depth < l {
		b.frames = append(b.frames, frame{depth: l})
		if 2*len(b.key) == l { // the last key ends at the new branch
			v := b.val
			v.data = bytes.Clone(v.data)
			b.frames[len(b.frames)-1].val = &v
			return nil
		}
	}
	return b.hang()
}

// close makes the branches deeper than l.
func (b *builder) close(l int) error {
	for len(b.frames) > 0 && b.frames[len(b.frames)-1].depth > l {
		if err := b.hang(); err != nil {
			return err
		}
		top := &b.frames[len(b.frames)-1]
		ref, err := b.mk.branch(&top.kids, top.val, b.mk.usageOf(&top.kids), nil)
		if err != nil {
			return err
		}
		if b.emit != nil {
			if ref, err = b.emitBranch(ref, top.depth); err != nil {
				return err
			}
		}
		b.branch, b.depth = ref, top.depth
		b.frames = b.frames[:len(b.frames)-1]
	}
	return nil
}

// finish returns the subtree. Its key aliases the builder.
func (b *builder) finish() (sub, error) {
	if !b.some {
		return sub{}, nil
	}
	if err := b.close(-1); err != nil {
		return sub{}, err
	}
	switch {
	case b.branch == 0:
		return sub{kind: subLeaf, ext: keyNibs(b.key, b.base), val: b.val}, nil
	case b.depth == b.base:
		return sub{kind: subNode, ref: b.branch}, nil
	}
	return sub{kind: subExt, ext: nibs{b.key, b.base, b.depth - b.base}, ref: b.branch}, nil
}

// Build makes a root from pairs in strictly ascending order of keys. The slices that pairs yields
// may be reused. Errors: ErrOrder, ErrKeyLen, ErrFull.
func (f *Forest) Build(pairs iter.Seq2[[]byte, []byte]) (*Root, error) {
	f.mu.Lock()
	defer f.unlock()
	id := f.nextID()
	mk := f.nodeWriter(id)
	b := builder{mk: &mk}
	ref, err := b.run(pairs)
	if err != nil {
		mk.undo()
		return nil, err
	}
	return f.publish(nil, ref, id, nil), nil
}

// run builds all pairs and makes the top node.
func (b *builder) run(pairs iter.Seq2[[]byte, []byte]) (uint32, error) {
	for key, data := range pairs {
		if uint64(len(data)) > 1<<32-1 {
			return 0, fmt.Errorf("trie: the value of key %x has %d bytes, the limit is %d", key, len(data), uint32(1<<32-1))
		}
		if err := b.add(key, newValue(data)); err != nil {
			return 0, err
		}
	}
	s, err := b.finish()
	if err != nil {
		return 0, err
	}
	return b.mk.commit(&s)
}

// BuildFrontier does the same as Build, and also calls emit for all entries of all levels of the
// frontier, in no particular order. An entry is valid during the call only. Once the nodes in
// memory take `keep` bytes, BuildFrontier replaces finished subtrees by hash nodes. So it can build
// a state larger than memory; a source that has the emitted entries can load the subtrees again.
// With keep 0 no subtree is replaced. After an error the forest must not be used any more.
func (f *Forest) BuildFrontier(pairs iter.Seq2[[]byte, []byte], keep uint64,
	emit func(level int, e *FrontierEntry)) (*Root, error) {
	f.mu.Lock()
	defer f.unlock()
	id := f.nextID()
	mk := f.nodeWriter(id)
	b := builder{mk: &mk, emit: emit, maxBytes: keep}
	ref, err := b.run(pairs)
	if err != nil {
		return nil, err
	}
	if ref != 0 {
		b.top(ref)
	}
	return f.publish(nil, ref, id, nil), nil
}

// emitBranch emits the frontier entries of the branch at ref. emitBranch returns the branch, or the
// hash node that replaced the branch.
func (b *builder) emitBranch(ref uint32, depth int) (uint32, error) {
	mk := b.mk
	n := mk.mem.at(ref)
	if n.usage() < mk.forest.frontier {
		return ref, nil
	}
	path := keyNibs(b.key, 0).appendNibbles(nil)[:depth:depth]
	for m := n.mask(); m != 0; m &= m - 1 {
		i := bits.TrailingZeros16(m)
		b.below(n.usage(), mk.mem.at(n.kid(byte(i))), append(path, byte(i)))
	}
	if n.kind() == kindBranchValue {
		e := FrontierEntry{Path: path, Hash: primitives.Hash(n.valueHash()), Size: uint64(n.valueLen()), IsValue: true}
		for level := 0; level < Top && mk.forest.levels[level] <= n.usage(); level++ {
			b.emit(level, &e)
		}
	}
	if b.maxBytes == 0 || mk.forest.arena.inUse < b.maxBytes || n.usage() < minHashNodeUsage {
		return ref, nil
	}
	made, err := mk.hashNode(n, path)
	if err == nil {
		mk.forest.freeTree(ref, 0)
		mk.made = mk.made[:0]
	}
	return made, err
}

// below emits the child n at path as an entry of some levels: the levels whose limit the parent's
// usage reaches and n's usage does not reach. If n is a leaf, n's usage does not matter.
func (b *builder) below(parent uint64, n node, path []byte) {
	f := b.mk.forest
	for level := 0; level < Top && f.levels[level] <= parent; level++ {
		if n.kind() == kindLeaf || n.usage() < f.levels[level] {
			b.emit(level, &FrontierEntry{Path: path, Hash: n.hashValue(), Size: n.usage()})
		}
	}
	if n.kind() == kindExtension {
		b.below(n.usage(), b.mk.mem.at(n.child()), extNibs(n.ext()).appendNibbles(path[:len(path):len(path)]))
	}
}

// top emits the entries of the root itself.
func (b *builder) top(ref uint32) {
	f, n := b.mk.forest, b.mk.mem.at(ref)
	e := FrontierEntry{Hash: n.hashValue(), Size: n.usage()}
	b.emit(Top, &e)
	for level := 0; level < Top; level++ {
		if n.kind() == kindLeaf && n.usage() >= f.levels[level] || level == 0 && n.usage() < f.frontier {
			b.emit(level, &e)
		}
	}
	if n.kind() == kindExtension {
		b.below(n.usage(), b.mk.mem.at(n.child()), extNibs(n.ext()).appendNibbles(nil))
	}
}
