package trie

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// Change sets a key to a value. A nil Value deletes the key; an empty value is not nil. Deleting an
// absent key is allowed.
type Change struct {
	Key   []byte
	Value []byte
	// Known means that the recording passed to Update already contains the key's whole path.
	Known bool
}

// Update derives a root from r by changes, which must be in strictly ascending order of keys.
// Update applies all changes in one descent, so each changed node is made and hashed only once. r
// does not change.
//
// rec, unless nil, records every old node that nearcore reads. nearcore updates key by key
// (ops/insert_delete.rs, ops/squash.rs). nearcore reads the root, even without changes, and all
// nodes on the paths of the keys. nearcore also reads any sibling that is alone in its branch after
// one of the deletions, even if a following change adds a child to the branch again. Old values are
// not read. After an error nothing has changed. Errors: ErrOrder, ErrKeyLen, ErrFull, and errors of
// loading a subtree.
func (f *Forest) Update(r *Root, changes []Change, rec *Recording) (*Root, error) {
	if r.forest != f {
		panic("trie: root of another forest")
	}
	for i := range changes {
		switch c := &changes[i]; {
		case len(c.Key) > MaxKeyLen:
			return nil, ErrKeyLen
		case i > 0 && bytes.Compare(changes[i-1].Key, c.Key) >= 0:
			return nil, fmt.Errorf("%w: key %x came after key %x, which is not below it", ErrOrder, c.Key, changes[i-1].Key)
		case uint64(len(c.Value)) > 1<<32-1:
			return nil, fmt.Errorf("trie: the value of key %x has %d bytes, the limit is %d", c.Key, len(c.Value), uint32(1<<32-1))
		}
	}
	f.mu.Lock()
	defer f.unlock()
	id := f.nextID()
	u := updater{nodeWriter: f.nodeWriter(id), rec: rec, killed: f.killed[:0]}
	ref, err := u.run(r.ref, changes)
	f.killed = u.killed
	defer u.done()
	if err != nil {
		u.undo()
		return nil, err
	}
	return f.publish(r, ref, id, slices.Clone(u.killed)), nil
}

// updater applies changes for one version.
type updater struct {
	nodeWriter
	rec    *Recording
	killed []dead
}

// cursor is a position in the old trie: the node at ref without the first skip nibbles of its key.
// A new node above that node contains these nibbles. The zero cursor is an empty position.
type cursor struct {
	ref  uint32
	skip int
}

func (u *updater) run(root uint32, changes []Change) (uint32, error) {
	if root == 0 && len(changes) == 0 {
		return 0, nil
	}
	if root != 0 {
		if err := u.touch(root); err != nil {
			return 0, err
		}
	}
	if root != 0 && len(changes) > 0 && onlySets(changes) {
		return u.set(root, 0, changes)
	}
	s, err := u.apply(cursor{ref: root}, 0, changes)
	if err != nil {
		return 0, err
	}
	return u.commit(&s)
}

// kill records that the new version does not contain the node at ref.
func (u *updater) kill(ref uint32) {
	u.killed = append(u.killed, deadOf(ref, u.mem.at(ref)))
}

// open returns the node at ref, through a hash node if needed, and records the node.
func (u *updater) open(ref uint32) (uint32, node, error) {
	ref, n, err := u.look(ref)
	if err == nil {
		u.rec.node(u.forest, ref, n)
	}
	return ref, n, err
}

// look is open without recording.
func (u *updater) look(ref uint32) (uint32, node, error) {
	n := u.mem.at(ref)
	if n.kind() == kindHash {
		var err error
		if ref, n, err = u.forest.resolve(ref, true); err != nil {
			return 0, nil, err
		}
		u.mem = u.forest.arena.mem()
	}
	return ref, n, nil
}

// touch records the node at ref.
func (u *updater) touch(ref uint32) error {
	_, _, err := u.open(ref)
	return err
}

// apply changes the subtree at c, which is depth nibbles deep. The keys of ops share these nibbles.
func (u *updater) apply(c cursor, depth int, ops []Change) (sub, error) {
	if len(ops) == 0 || c.ref == 0 && len(ops) == 1 && ops[0].Value == nil {
		return u.old(c)
	}
	if c.ref == 0 {
		return u.build(depth, ops, nil)
	}
	ref, n, err := u.open(c.ref)
	if err != nil {
		return sub{}, err
	}
	var s sub
	switch n.kind() {
	case kindLeaf:
		s, err = u.applyLeaf(cursor{ref, c.skip}, n, depth, ops)
	case kindExtension:
		s, err = u.applyExtension(cursor{ref, c.skip}, n, depth, ops)
	default:
		b := branchState{depth: depth, ref: ref}
		for i := range byte(16) {
			b.kids[i].ref = n.kid(i)
		}
		if n.hasValue() {
			v := u.forest.oldValue(n)
			b.val = &v
		}
		s, err = u.applyBranch(&b, ops)
	}
	if err != nil {
		return sub{}, err
	}
	if ref != c.ref { // c.ref is a hash node; the hash node is kept or killed together with the loaded top node
		if s.kind == subOld {
			s.ref = c.ref
		} else {
			u.kill(c.ref)
		}
	}
	return s, nil
}

// old returns the subtree at c without changes. If c skips a part of the node's key, the node has
// to be made again with the rest of the key.
func (u *updater) old(c cursor) (sub, error) {
	if c.ref == 0 {
		return sub{}, nil
	}
	if c.skip == 0 {
		return sub{kind: subOld, ref: c.ref}, nil
	}
	n := u.mem.at(c.ref)
	ext := extNibs(n.ext()).from(c.skip)
	if n.kind() == kindLeaf {
		return sub{kind: subLeaf, ext: ext, val: u.forest.oldValue(n)}, nil
	}
	return sub{kind: subExt, ext: ext, ref: n.child()}, nil
}

// applyLeaf applies ops to a position that holds a single pair.
func (u *updater) applyLeaf(c cursor, n node, depth int, ops []Change) (sub, error) {
	ext := extNibs(n.ext()).from(c.skip)
	// hit is the index of the change to the leaf's own key. sets counts the changes that set other
	// keys; before counts those of these changes whose keys are below the leaf's key.
	hit, sets, before := -1, 0, 0
	for i := range ops {
		switch o := compareNibs(keyNibs(ops[i].Key, depth), ext); {
		case o == 0:
			hit = i
		case ops[i].Value == nil:
		default:
			sets++
			if o < 0 {
				before++
			}
		}
	}
	switch {
	case hit < 0 && sets == 0:
		return u.old(c)
	case hit >= 0 && sets == 0 && ops[hit].Value != nil:
		v := newValue(ops[hit].Value)
		if v.Len == n.valueLen() && bytes.Equal(v.Hash[:], n.valueHash()) {
			return u.old(c)
		}
		u.killUncut(c)
		return sub{kind: subLeaf, ext: ext, val: v}, nil
	case hit >= 0 && sets == 0:
		u.killUncut(c)
		return sub{emptied: true}, nil
	}
	u.killUncut(c)
	if hit >= 0 {
		s, err := u.build(depth, ops, nil)
		s.emptied = ops[hit].Value == nil && before == 0
		return s, err
	}
	v := u.forest.oldValue(n)
	// All keys of ops share the nibbles above the leaf, so the leaf's whole key is these nibbles
	// and ext.
	key := concat(nibs{ops[0].Key, 0, depth}, ext)
	return u.build(depth, ops, &pair{bytesOf(key), v})
}

// bytesOf returns a whole number of bytes from the start of packed nibbles.
func bytesOf(x nibs) []byte {
	if x.off == 0 || x.n == 0 {
		return x.b[:x.n/2]
	}
	return concat(nibs{x.b, x.off, 1}, x.from(1)).b[:x.n/2]
}

// killUncut kills the node at c, unless cutting the node's key has killed the node already.
func (u *updater) killUncut(c cursor) {
	if c.skip == 0 {
		u.kill(c.ref)
	}
}

type pair struct {
	key []byte
	val value
}

// build makes a subtree of the pairs that ops set and, unless `more` is nil, of that pair.
func (u *updater) build(depth int, ops []Change, more *pair) (sub, error) {
	if len(ops) == 1 && more == nil && ops[0].Value != nil {
		return sub{kind: subLeaf, ext: keyNibs(ops[0].Key, depth), val: newValue(ops[0].Value)}, nil
	}
	b := builder{mk: &u.nodeWriter, base: depth}
	for i := range ops {
		if ops[i].Value == nil {
			continue
		}
		if more != nil && bytes.Compare(more.key, ops[i].Key) < 0 {
			if err := b.add(more.key, more.val); err != nil {
				return sub{}, err
			}
			more = nil
		}
		if err := b.add(ops[i].Key, newValue(ops[i].Value)); err != nil {
			return sub{}, err
		}
	}
	if more != nil {
		if err := b.add(more.key, more.val); err != nil {
			return sub{}, err
		}
	}
	return b.finish()
}

// applyExtension applies ops to a position below which all keys begin with the nibbles of an
// extension.
func (u *updater) applyExtension(c cursor, n node, depth int, ops []Change) (sub, error) {
	ext := extNibs(n.ext()).from(c.skip)
	split := ext.n // number of nibbles after which a key to be set diverges from the extension
	for i := range ops {
		if ops[i].Value != nil && split > 0 {
			split = min(split, commonPrefix(keyNibs(ops[i].Key, depth), ext))
		}
	}
	// The other changes delete keys that diverge within the extension. No such keys exist.
	from, to := 0, len(ops)
	for from < to && commonPrefix(keyNibs(ops[from].Key, depth), ext) < split {
		from++
	}
	for from < to && commonPrefix(keyNibs(ops[to-1].Key, depth), ext) < split {
		to--
	}
	ops = ops[from:to]
	if len(ops) == 0 {
		return u.old(c)
	}
	child := n.child()
	var s sub
	var err error
	if split == ext.n {
		if s, err = u.apply(cursor{ref: child}, depth+split, ops); err != nil {
			return sub{}, err
		}
		if s.kind == subOld && s.ref == child {
			return u.old(c)
		}
		u.killUncut(c)
	} else {
		u.killUncut(c)
		b := branchState{depth: depth + split, changed: true}
		if split+1 < ext.n {
			b.kids[ext.at(split)] = cursor{c.ref, c.skip + split + 1}
		} else {
			b.kids[ext.at(split)] = cursor{ref: child}
		}
		if s, err = u.applyBranch(&b, ops); err != nil {
			return sub{}, err
		}
	}
	return u.prepend(ext.first(split), s)
}

// prepend puts ext above s and joins keys.
func (u *updater) prepend(ext nibs, s sub) (sub, error) {
	if ext.n == 0 {
		return s, nil
	}
	out := sub{kind: subExt, emptied: s.emptied, ext: ext, ref: s.ref}
	switch s.kind {
	case subNone:
		return s, nil
	case subLeaf, subExt:
		s.ext = concat(ext, s.ext)
		return s, nil
	case subOld:
		ref, n, err := u.open(s.ref)
		if err != nil {
			return sub{}, err
		}
		switch n.kind() {
		case kindLeaf:
			out.kind, out.val = subLeaf, u.forest.oldValue(n)
		case kindExtension:
			out.ref = n.child()
		default:
			return out, nil // a branch stays unchanged, and so does its hash node
		}
		out.ext = concat(ext, extNibs(n.ext()))
		u.kill(s.ref)
		if ref != s.ref {
			u.kill(ref)
		}
	}
	return out, nil
}

// branchState is a branch of the old trie or, if ref is 0, a new branch at which an extension is
// split.
type branchState struct {
	depth   int
	ref     uint32
	kids    [16]cursor
	val     *value
	changed bool
}

// keepsTwo returns whether ops delete nothing from at least two children. Then the branch stays a
// branch in any case.
func (b *branchState) keepsTwo(ops []Change) bool {
	kept := 0
	for i := range b.kids {
		if b.kids[i].ref != 0 {
			kept |= 1 << i
		}
	}
	for i := range ops {
		if ops[i].Value == nil && 2*len(ops[i].Key) > b.depth {
			kept &^= 1 << nibbleAt(ops[i].Key, b.depth)
		}
	}
	return kept&(kept-1) != 0
}

// applyBranch applies ops to a branch. Like nearcore, applyBranch counts the children after each
// change, to record the nodes that nearcore reads. If a deletion leaves a branch with one child and
// no value, nearcore squashes the branch and reads that child.
func (u *updater) applyBranch(b *branchState, ops []Change) (sub, error) {
	var res [16]sub
	var done uint16
	count := 0
	for i := range b.kids {
		if b.kids[i].ref != 0 {
			count++
		}
	}
	emptied := false
	afterDeletion := func() error {
		if b.val != nil || count > 1 {
			return nil
		}
		if count == 0 {
			emptied = true
			return nil
		}
		for i := range b.kids {
			switch {
			case done>>i&1 == 1 && res[i].kind == subOld:
				return u.touch(res[i].ref)
			case done>>i&1 == 0 && b.kids[i].ref != 0:
				return u.touch(b.kids[i].ref)
			}
		}
		return nil // the only child is new, so the child need not be read
	}
	stays := b.keepsTwo(ops) // if set, the branch stays, so its children's nodes can be made at once
	if 2*len(ops[0].Key) == b.depth {
		if data := ops[0].Value; data != nil {
			v := newValue(data)
			if b.val == nil || b.val.ValueID != v.ValueID {
				b.val, b.changed = &v, true
			}
		} else if b.val != nil {
			b.val, b.changed = nil, true
			if err := afterDeletion(); err != nil {
				return sub{}, err
			}
		}
		ops = ops[1:]
	}
	for len(ops) > 0 {
		i, n := nibbleAt(ops[0].Key, b.depth), len(ops)
		if nibbleAt(ops[n-1].Key, b.depth) != i {
			n, _ = slices.BinarySearchFunc(ops, i+1, func(c Change, next byte) int {
				return cmp.Compare(nibbleAt(c.Key, b.depth), next)
			})
		}
		var s sub
		var err error
		if old := b.kids[i]; stays && old.ref != 0 && old.skip == 0 && onlySets(ops[:n]) {
			s = sub{kind: subOld}
			if s.ref, err = u.set(old.ref, b.depth+1, ops[:n]); s.ref != old.ref {
				s.kind = subNode
			}
		} else {
			s, err = u.apply(old, b.depth+1, ops[:n])
		}
		if err != nil {
			return sub{}, err
		}
		ops = ops[n:]
		if b.kids[i].ref != 0 {
			count--
		}
		if s.emptied {
			done |= 1 << i // afterDeletion must see the child as empty; res[i] is set below
			if err := afterDeletion(); err != nil {
				return sub{}, err
			}
		}
		done |= 1 << i
		res[i] = s
		if s.kind != subNone {
			count++
		}
		if s.kind != subOld && (s.kind != subNone || b.kids[i].ref != 0) {
			b.changed = true
		}
	}
	if !b.changed {
		return sub{kind: subOld, ref: b.ref}, nil
	}
	if b.ref != 0 {
		u.kill(b.ref)
	}
	return u.join(b.ref, &b.kids, &res, done, b.val, count, emptied)
}

// restOf returns the sum of the memory usages of a branch's new children. If n is the old branch,
// restOf starts with the sum of the old children and visits only the children that changed, because
// the unchanged children are likely not in the processor's cache.
func (u *updater) restOf(n node, kids *[16]cursor, refs *[16]uint32) uint64 {
	if n == nil {
		return u.usageOf(refs)
	}
	rest := n.usage() - costNode
	if n.hasValue() {
		rest -= valueCost(n.valueLen())
	}
	for i, k := range refs {
		if k == kids[i].ref {
			continue
		}
		if kids[i].ref != 0 {
			rest -= u.mem.at(kids[i].ref).usage()
		}
		if k != 0 {
			rest += u.mem.at(k).usage()
		}
	}
	return rest
}

// join makes the node that replaces a changed branch. old is the branch; 0: there is none. Child i
// is res[i] if bit i of done is set, else the unchanged kids[i].
func (u *updater) join(old uint32, kids *[16]cursor, res *[16]sub, done uint16, val *value, count int,
	emptied bool) (s sub, err error) {
	switch {
	case count == 0 && val == nil:
	case count == 0:
		s = sub{kind: subLeaf, val: *val}
	case count == 1 && val == nil:
		for i := range res {
			if done>>i&1 == 0 {
				if res[i], err = u.old(kids[i]); err != nil {
					return sub{}, err
				}
			}
			if res[i].kind != subNone {
				s, err = u.prepend(single(byte(i)), res[i])
			}
		}
	default:
		var refs [16]uint32
		for i := range refs {
			switch {
			case done>>i&1 == 1:
				refs[i], err = u.commit(&res[i])
			case kids[i].skip == 0:
				refs[i] = kids[i].ref
			default:
				if res[i], err = u.old(kids[i]); err == nil {
					refs[i], err = u.commit(&res[i])
				}
			}
			if err != nil {
				return sub{}, err
			}
		}
		s.kind = subNode
		var before node
		if old != 0 {
			before = u.mem.at(old)
		}
		s.ref, err = u.branch(&refs, val, u.restOf(before, kids, &refs), before)
	}
	s.emptied = emptied
	return s, err
}
