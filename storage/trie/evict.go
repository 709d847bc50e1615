package trie

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// minEvictUsage is the least memory usage of a subtree that may be replaced by a hash node. A
// quarter of the frontier's lowest limit applies instead if it is less.
const minEvictUsage = 1024

// Evict derives a root with the same pairs, in which hash nodes replace the least recently used
// subtrees. Evict frees at least `want` bytes, if so many can be evicted. Evict returns the new
// root and about how many bytes are freed. If there is nothing to evict, Evict returns r itself,
// with one more holder.
//
// base is the version that the forest's source has. Only subtrees that are equal in r and base are
// evicted, since the source can load them again. The memory of an evicted subtree is freed when the
// last root that contains the subtree is released. Errors: errors of loading a subtree, ErrFull.
// Evict panics if r or base belongs to another forest.
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

// Trie eviction.
//
// Problem: a state may be larger than the memory budget. Readers use roots without locks, so a node
// cannot be removed while a reader may visit it. And the writer must know which parts were not used
// lately, although readers take no locks.
//
// Invariants: eviction changes no root. Eviction derives a new root in which hash nodes replace
// subtrees and have the hashes of these subtrees. A subtree is evicted only if the base version has
// a subtree of equal hash at the same path, because the source can load only subtrees of the base
// version. Nodes are freed as usual, when the last root that contains them is released (Root).
//
// Outline: the age of a subtree is the number of versions that were made since a load or a walk
// last used it, rounded to a power of two. A first walk sums up the bytes of all evictable subtrees
// by age, and chooses the greatest age such that the subtrees of at least this age have `want`
// bytes. A second walk replaces these subtrees. The unit of eviction is a subtree below the
// frontier's lowest limit. If all children of a branch are evicted, the whole branch is replaced by
// one hash node, so that a rarely used area does not remain as many hash nodes.
//
// Rejected: a reference count or a clock bit in each node, because readers would have to write to
// it.

// evictor visits all subtrees of the size of a frontier entry twice: first to sum up their bytes by
// age, then to replace the oldest subtrees.
type evictor struct {
	want, found uint64
	least       uint64
	now         uint64
	// byAge sums up the bytes of the evictable subtrees by age. The age of a subtree is the bit
	// length of the number of versions since its last use.
	byAge     [65]uint64
	age       int  // subtrees with a lower age are not evicted
	replacing bool // this is the second pass, which replaces subtrees by hash nodes
	killed    []dead
}

// bytesOfUsage estimates how many bytes of memory nodes with the given memory usage take.
func bytesOfUsage(usage uint64) uint64 { return usage + usage/4 }

// walk processes the node at ref, which lies at path. walk returns the node that replaces the node
// at ref, and cold: whether nothing below the node has to stay in memory. cold is true if the
// subtree is evicted or not loaded, or if the subtree is old enough but too small for a hash node
// of its own.
//
// base is the node at the same path in the base version, 0 if there is no such node. same means
// that the subtrees at ref and at base are known to be equal. A branch whose children are all cold
// is evicted as a whole.
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
	if n.kind() == kindHash && n.usage() >= f.frontier { // the subtree contains hash nodes, or is a large leaf
		top := f.hashNodes.get(n.child()).target.Load()
		if top == 0 {
			return ref, same, nil
		}
		if mk.mem.at(top).kind() != kindLeaf {
			made, cold, err := e.walk(mk, top, base, same, path)
			if err != nil || made == top {
				return ref, cold, err
			}
			// Frees the hash node together with the loaded subtree's top node.
			e.killed = append(e.killed, deadOf(ref, n))
			return made, cold, nil
		}
	}
	if n.kind() == kindHash || n.kind() == kindLeaf || n.usage() < f.frontier {
		if !same {
			return ref, false, nil
		}
		return e.subtree(mk, ref, n, path)
	}
	if !same && b.kind() == kindHash { // r's subtree was changed after it was loaded; base still has the hash node
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
		// Free the hash nodes and copies that this call made; no reader has seen them.
		for _, x := range mk.made[made:] {
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

// subtree processes a subtree that is either evicted as a whole or stays as a whole.
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

// evictSubtree makes the hash node that replaces a subtree.
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

// copyNode copies a branch or an extension for the new version. In the copy, references to children
// can be replaced by references to other nodes with the same hashes.
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
