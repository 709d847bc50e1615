package trie

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// minEvictUsage is the memory usage of the least subtree that is worth a stub, unless the frontier is finer.
const minEvictUsage = 1024

// Evict derives a root that has the same pairs, of which what was not used for the longest time is known by its hash only: at least
// want bytes of it, if there is so much. Only subtrees go that are those of base, the version of the forest's source, where they can be
// lastLoad from again. Their memory comes back when the last root that has them is released. It returns r itself, retained, if there is
// nothing to do, and how many bytes go, about.
func (f *Forest) Evict(r, base *Root, want uint64) (*Root, uint64, error) {
	if r.forest != f || base.forest != f {
		panic("trie: root of another forest")
	}
	f.mu.Lock()
	defer f.unlock()
	if r.ref == 0 || base.ref == 0 || want == 0 {
		return r.Retain(), 0, nil
	}
	e := evictor{want: want, least: min(minEvictUsage, f.frontier/4), now: f.lastID}
	if _, _, err := e.walk(&nodeWriter{forest: f, mem: f.arena.mem()}, r.ref, base.ref, false, nil); err != nil {
		return nil, 0, err
	}
	var found uint64
	for e.age = len(e.byAge) - 1; e.age > 0; e.age-- {
		if found += e.byAge[e.age]; found >= want {
			break
		}
	}
	id := f.nextID()
	mk := f.nodeWriter(id)
	e.replacing = true
	ref, _, err := e.walk(&mk, r.ref, base.ref, false, nil)
	if err != nil {
		mk.undo()
		return nil, 0, err
	}
	mk.done()
	if ref == r.ref {
		return r.Retain(), 0, nil
	}
	return f.publish(r, ref, id, e.killed), e.found, nil
}

// evictor looks at all subtrees of a frontier's size, first to sum them up by age, then to replace the oldest.
type evictor struct {
	want, found uint64
	least       uint64
	now         uint64
	byAge       [65]uint64 // bytes, by the bits of the number of versions since the last use
	age         int        // what is younger stays
	replacing      bool
	killed      []dead
}

// bytesOfUsage estimates the memory that nodes of some memory usage take.
func bytesOfUsage(usage uint64) uint64 { return usage + usage/4 }

// walk returns what the node at ref, which lies at path, has become, and whether nothing below it has to stay: it is known by its hash
// only, or is too small to have a stub of its own and as old as what goes. base is the node there in the base version, or 0; same tells
// that all below is as in the base. Where nothing below a branch has to stay, it goes as a whole: else stubs were all that is left of what
// is cold, and there are many.
func (e *evictor) walk(mk *nodeWriter, ref, base uint32, same bool, path []byte) (_ uint32, cold bool, err error) {
	f := mk.forest
	if e.replacing && e.found >= e.want {
		return ref, false, nil
	}
	n := mk.mem.at(ref)
	var b node
	if !same {
		if base == 0 {
			return ref, false, nil
		}
		b = mk.mem.at(base)
		same = bytes.Equal(n.hash(), b.hash())
	}
	if n.kind() == kindHash && n.usage() >= f.frontier { // whose subtree has stubs itself; or is a great leaf
		top := f.hashNodes.get(n.child()).target.Load()
		if top == 0 {
			return ref, same, nil
		}
		if mk.mem.at(top).kind() != kindLeaf {
			made, cold, err := e.walk(mk, top, base, same, path)
			if err != nil || made == top {
				return ref, cold, err
			}
			e.killed = append(e.killed, deadOf(ref, n)) // a stub goes with its top node
			return made, cold, nil
		}
	}
	if n.kind() == kindHash || n.kind() == kindLeaf || n.usage() < f.frontier {
		if !same {
			return ref, false, nil
		}
		return e.subtree(mk, ref, n, path)
	}
	if !same && b.kind() == kindHash { // what is changed below it was loaded for that
		if base = f.hashNodes.get(b.child()).target.Load(); base == 0 {
			return ref, false, nil
		}
		b = mk.mem.at(base)
	}
	if n.kind() == kindExtension {
		below := uint32(0)
		if !same {
			if b.kind() != kindExtension || !bytes.Equal(n.ext(), b.ext()) {
				return ref, false, nil
			}
			below = b.child()
		}
		child, cold, err := e.walk(mk, n.child(), below, same, extNibs(n.ext()).appendNibbles(path))
		if err != nil || child == n.child() {
			return ref, cold && same, err
		}
		made, c, err := mk.copyNode(n)
		if err == nil {
			c.setChild(child)
			e.killed = append(e.killed, deadOf(ref, n))
		}
		return made, cold && same, err
	}
	if !same && b.kind() != kindBranch && b.kind() != kindBranchValue {
		return ref, false, nil
	}
	var kids [16]uint32
	var changed uint16
	made, killed := len(mk.made), len(e.killed)
	cold = same
	for m := n.mask(); m != 0; m &= m - 1 {
		i := bits.TrailingZeros16(m)
		below := uint32(0)
		if !same {
			below = b.kid(byte(i))
		}
		old := n.kid(byte(i))
		var gone bool
		if kids[i], gone, err = e.walk(mk, old, below, same, append(path, byte(i))); err != nil {
			return 0, false, err
		}
		if kids[i] != old {
			changed |= 1 << i
		}
		cold = cold && gone
	}
	if cold && e.replacing {
		for _, x := range mk.made[made:] { // stubs and twins that nobody has seen
			f.freeDead(deadOf(x, mk.mem.at(x)))
		}
		mk.made, e.killed = mk.made[:made], e.killed[:killed]
		return e.evictSubtree(mk, ref, n, path)
	}
	if changed == 0 {
		return ref, cold, nil
	}
	at, c, err := mk.copyNode(n)
	if err != nil {
		return 0, false, err
	}
	for m := changed; m != 0; m &= m - 1 {
		i := bits.TrailingZeros16(m)
		binary.LittleEndian.PutUint32(c[bodyAt+4*bits.OnesCount16(n.mask()&(1<<i-1)):], kids[i])
	}
	e.killed = append(e.killed, deadOf(ref, n))
	return at, false, nil
}

// subtree looks at a subtree that goes as a whole, or stays.
func (e *evictor) subtree(mk *nodeWriter, ref uint32, n node, path []byte) (_ uint32, cold bool, err error) {
	used, size := n.birth(), bytesOfUsage(n.usage())
	if n.kind() == kindHash {
		row := mk.forest.hashNodes.get(n.child())
		if row.target.Load() == 0 {
			return ref, true, nil
		}
		used = max(used, row.used.Load())
	}
	age := bits.Len64(e.now - min(used, e.now))
	if !e.replacing {
		if n.usage() >= e.least {
			e.byAge[age] += size
		}
		return ref, false, nil
	}
	if age < e.age {
		return ref, false, nil
	}
	if n.usage() < e.least {
		return ref, true, nil
	}
	e.found += size
	return e.evictSubtree(mk, ref, n, path)
}

// evictSubtree makes the stub that stands for a subtree from now on.
func (e *evictor) evictSubtree(mk *nodeWriter, ref uint32, n node, path []byte) (uint32, bool, error) {
	made, err := mk.hashNode(n, path)
	if err != nil {
		return 0, false, err
	}
	d := deadOf(ref, n)
	d.flags |= deadDeep
	e.killed = append(e.killed, d)
	return made, true, nil
}

// copyNode makes a branch or an extension that differs from n in nothing but the version it is made for, so that references to children can
// be replaced by others to nodes of the same hashes.
func (mk *nodeWriter) copyNode(n node) (uint32, node, error) {
	extra, large := 0, n.hasValue() && n.large()
	switch {
	case large:
		extra = 4
	case n.hasValue():
		extra = int(n.valueLen())
	}
	ref, c, err := mk.alloc(n.kind(), n.mask(), n.extLen(), extra)
	if err != nil {
		return 0, nil, err
	}
	end := n.tailAt()
	copy(c[4:end], n[4:end])
	copy(c[end+tailSize:end+tailSize+extra], n[end+tailSize:])
	if large {
		mk.forest.larges.get(n.slot()).refs++
	}
	return ref, c, nil
}
