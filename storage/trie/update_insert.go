package trie

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"
)

// Most updates only set keys, most of which exist. Then no node disappears, and only a leaf or an
// extension that is split gets another key. So new nodes can be made at once, by copying the old
// nodes and overwriting what changes.

// onlySets returns whether no change is a deletion.
func onlySets(ops []Change) bool {
	for i := range ops {
		if ops[i].Value == nil {
			return false
		}
	}
	return true
}

// set applies changes to the subtree at place, which is depth nibbles deep. There must be at least
// one change and no deletion, and the keys of all changes must begin with the subtree's path. set
// returns the new top node, or place if nothing changed.
func (u *updater) set(place uint32, depth int, ops []Change) (uint32, error) {
	ref, n, err := u.look(place)
	if err != nil {
		return 0, err
	}
	if !ops[0].Known { // the nodes on the path of a known key are recorded already
		u.rec.node(u.forest, ref, n)
	}
	made := ref
	switch n.kind() {
	case kindLeaf:
		made, err = u.setLeaf(ref, n, depth, ops)
	case kindExtension:
		made, err = u.setExtension(ref, n, depth, ops)
	default:
		made, err = u.setBranch(ref, n, depth, ops)
	}
	if err != nil {
		return 0, err
	}
	if made == ref {
		return place, nil
	}
	if place != ref { // place is a hash node; the hash node is replaced together with the loaded top node
		u.kill(place)
	}
	return made, nil
}

// setLeaf sets the value of a leaf. If ops set keys other than the leaf's, setLeaf builds a new
// subtree.
func (u *updater) setLeaf(ref uint32, n node, depth int, ops []Change) (uint32, error) {
	if len(ops) > 1 || !matchLeaf(ops[0].Key, depth, n.ext()) {
		s, err := u.applyLeaf(cursor{ref: ref}, n, depth, ops)
		if err != nil {
			return 0, err
		}
		return u.commit(&s)
	}
	v := newValue(ops[0].Value)
	if v.Len == n.valueLen() && bytes.Equal(v.Hash[:], n.valueHash()) {
		return ref, nil
	}
	u.killed = append(u.killed, deadOf(ref, n))
	made, c, err := u.alloc(kindLeaf, 0, n.extLen(), valueSize(&v))
	if err != nil {
		return 0, err
	}
	copy(c.ext(), n.ext())
	u.setValue(c, &v)
	u.seal(c, keyCost(n.extLen())+valueCost(v.Len))
	return made, nil
}

// setExtension applies ops to what is below an extension. If a key diverges from the extension,
// setExtension builds a new subtree.
func (u *updater) setExtension(ref uint32, n node, depth int, ops []Change) (uint32, error) {
	l, first := matchExt(ops[0].Key, depth, n.ext())
	_, last := matchExt(ops[len(ops)-1].Key, depth, n.ext())
	if !first || !last {
		s, err := u.applyExtension(cursor{ref: ref}, n, depth, ops)
		if err != nil {
			return 0, err
		}
		return u.commit(&s)
	}
	child, err := u.set(n.child(), depth+l, ops)
	if err != nil {
		return 0, err
	}
	if child == n.child() {
		return ref, nil
	}
	u.killed = append(u.killed, deadOf(ref, n))
	made, c, err := u.alloc(kindExtension, 0, n.extLen(), 0)
	if err != nil {
		return 0, err
	}
	copy(c.ext(), n.ext())
	u.finishExtension(c, child)
	return made, nil
}

// setBranch changes a branch.
func (u *updater) setBranch(ref uint32, n node, depth int, ops []Change) (uint32, error) {
	var val *value // the branch's new value; nil: the value does not change
	if 2*len(ops[0].Key) == depth {
		v := newValue(ops[0].Value)
		if !n.hasValue() || v.Len != n.valueLen() || !bytes.Equal(v.Hash[:], n.valueHash()) {
			val = &v
		}
		ops = ops[1:]
	}
	var kids [16]uint32 // new node of each child to which ops apply
	var changed uint16
	for len(ops) > 0 {
		i, k := nibbleAt(ops[0].Key, depth), len(ops)
		if nibbleAt(ops[k-1].Key, depth) != i {
			k, _ = slices.BinarySearchFunc(ops, i+1, func(c Change, next byte) int {
				return cmp.Compare(nibbleAt(c.Key, depth), next)
			})
		}
		old := n.kid(i)
		var err error
		if old != 0 {
			kids[i], err = u.set(old, depth+1, ops[:k])
		} else {
			var s sub
			if s, err = u.build(depth+1, ops[:k], nil); err == nil {
				kids[i], err = u.commit(&s)
			}
		}
		if err != nil {
			return 0, err
		}
		if kids[i] != old {
			changed |= 1 << i
		}
		ops = ops[k:]
	}
	if changed == 0 && val == nil {
		return ref, nil
	}
	u.killed = append(u.killed, deadOf(ref, n))
	if val != nil || changed&^n.mask() != 0 {
		return u.setGrown(n, &kids, changed, val)
	}
	return u.setSame(n, &kids, changed)
}

// setSame makes a branch that differs from n only in the children in changed, all of which n has.
func (u *updater) setSame(n node, kids *[16]uint32, changed uint16) (uint32, error) {
	extra, large := 0, n.hasValue() && n.large()
	if n.hasValue() {
		extra = int(n.valueLen())
	}
	if large {
		extra = 4
	}
	ref, c, err := u.alloc(n.kind(), n.mask(), 0, extra)
	if err != nil {
		return 0, err
	}
	copy(c[4:offHash], n[4:offHash]) // copies the value's length and the mark of a large value
	end := n.tailAt()
	copy(c[bodyAt:end], n[bodyAt:end])
	if extra > 0 {
		copy(c[end+tailSize:end+tailSize+extra], n[end+tailSize:])
	}
	if large {
		u.forest.larges.get(n.slot()).refs++
	}
	usage, hashes := n.usage(), n.hashesAt()
	for m := changed; m != 0; m &= m - 1 {
		i := bits.TrailingZeros16(m)
		at := bits.OnesCount16(n.mask() & (1<<i - 1))
		kid := u.mem.at(kids[i])
		usage += kid.usage() - u.mem.at(n.kid(byte(i))).usage()
		binary.LittleEndian.PutUint32(c[bodyAt+4*at:], kids[i])
		copy(c[hashes+32*at:hashes+32*at+32], kid.hash())
	}
	u.seal(c, usage)
	return ref, nil
}

// setGrown makes a branch that differs from n only in the children in changed and, unless val is
// nil, in its value.
func (u *updater) setGrown(n node, kids *[16]uint32, changed uint16, val *value) (uint32, error) {
	var all [16]uint32
	usage := n.usage() - costNode
	if n.hasValue() {
		usage -= valueCost(n.valueLen())
		if val == nil {
			v := u.forest.oldValue(n)
			val = &v
		}
	}
	for i := range all {
		old := n.kid(byte(i))
		if all[i] = old; changed>>i&1 == 0 {
			continue
		}
		all[i] = kids[i]
		usage += u.mem.at(kids[i]).usage()
		if old != 0 {
			usage -= u.mem.at(old).usage()
		}
	}
	return u.branch(&all, val, usage, n)
}
