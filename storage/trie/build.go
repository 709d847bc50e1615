package trie

import (
	"bytes"
	"fmt"
	"iter"
)

// builder makes a subtree of pairs that come in ascending order, in one pass: a branch is made as soon as a key lies
// beyond it. All keys share the first base nibbles.
type builder struct {
	mk     *maker
	base   int
	frames []frame // open branches, by ascending depth
	key    []byte  // the last key
	data   []byte  // its value's bytes
	val    value
	some   bool
	branch uint32 // what hangs below the last frame: this branch at depth, or if 0 the leaf of the last pair
	depth  int
}

type frame struct {
	depth int
	kids  [16]uint32
	val   *value
}

// add takes the next pair; key and v.data may be reused afterwards.
func (b *builder) add(key []byte, v value) error {
	if len(key) > MaxKeyLen {
		return ErrKeyLen
	}
	if b.some {
		prev, next := keyNibs(b.key, b.base), keyNibs(key, b.base)
		l := commonPrefix(prev, next)
		if l == next.n || l < prev.n && prev.at(l) > next.at(l) {
			return fmt.Errorf("%w: %x after %x", ErrOrder, key, b.key)
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

// attach makes what hangs below, seen from depth at.
func (b *builder) attach(at int) (uint32, error) {
	switch {
	case b.branch == 0:
		return b.mk.leaf(keyNibs(b.key, at), &b.val)
	case b.depth == at:
		return b.branch, nil
	}
	return b.mk.extension(nibs{b.key, at, b.depth - at}, b.branch)
}

// hang attaches what hangs below to the last frame.
func (b *builder) hang() error {
	top := &b.frames[len(b.frames)-1]
	ref, err := b.attach(top.depth + 1)
	top.kids[keyNibs(b.key, top.depth).at(0)] = ref
	return err
}

// fold closes the branches below depth l, where the next key parts, and opens one there.
func (b *builder) fold(l int) error {
	if err := b.close(l); err != nil {
		return err
	}
	if len(b.frames) == 0 || b.frames[len(b.frames)-1].depth < l {
		b.frames = append(b.frames, frame{depth: l})
		if 2*len(b.key) == l { // the last key ends here
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
		b.branch, b.depth = ref, top.depth
		b.frames = b.frames[:len(b.frames)-1]
	}
	return nil
}

// finish returns the subtree; its key aliases the builder.
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

// Build makes a root of pairs in strictly ascending order of keys. What pairs yields may be reused.
func (f *Forest) Build(pairs iter.Seq2[[]byte, []byte]) (*Root, error) {
	f.mu.Lock()
	defer f.unlock()
	id := f.nextID()
	mk := f.maker(id)
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
			return 0, fmt.Errorf("trie: value of %x has %d bytes", key, len(data))
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
