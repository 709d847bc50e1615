package trie

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
)

// value is a value for a new node: new bytes, or the bytes of an existing node.
type value struct {
	ValueID
	data   []byte
	slot   uint32 // slot of the large value; only if shared is set
	shared bool
}

// newValue hashes data, which must not change until a node is made.
func newValue(data []byte) value {
	return value{ValueID: ValueID{uint32(len(data)), primitives.HashBytes(data)}, data: data}
}

// oldValue returns the value of a node in memory.
func (f *Forest) oldValue(n node) value {
	v := value{ValueID: ValueID{Len: n.valueLen()}, data: f.valueOf(n)}
	copy(v.Hash[:], n.valueHash())
	if n.large() {
		v.slot, v.shared = n.slot(), true
	}
	return v
}

// nodeWriter makes nodes for one new version.
type nodeWriter struct {
	forest *Forest
	mem    mem
	birth  uint64   // birth of the nodes that it makes
	made   []uint32 // nodes made so far, which undo frees
}

// done returns the scratch memory for the next nodeWriter.
func (mk *nodeWriter) done() { mk.forest.made = mk.made }

func (f *Forest) nodeWriter(birth uint64) nodeWriter {
	mk := nodeWriter{forest: f, mem: f.arena.mem(), birth: birth, made: f.made[:0]}
	f.made = nil // mk uses the memory until it ends
	return mk
}

// undo frees all nodes that were made.
func (mk *nodeWriter) undo() {
	for _, ref := range mk.made {
		mk.forest.freeDead(deadOf(ref, mk.forest.arena.mem().at(ref)))
	}
	mk.made = nil
}

// alloc returns a node with kind, class, mask, key length and birth set, the head of the node's
// encoding written and the rest of the node's header cleared. extra is the size of the node's
// value.
func (mk *nodeWriter) alloc(kind byte, mask uint16, ext, extra int) (uint32, node, error) {
	rawAt := bodyAt + 4*bits.OnesCount16(mask)
	tail := rawAt + int(rawLen(kind, mask, ext))
	ref, class, err := mk.forest.arena.alloc(tail + tailSize + extra)
	if err != nil {
		return 0, nil, err
	}
	mk.made = append(mk.made, ref)
	mk.mem = mk.forest.arena.mem()
	n := mk.mem.at(ref)
	clear(n[:bodyAt])
	n[0], n[1] = kind, class
	le := binary.LittleEndian
	le.PutUint16(n[2:], mask)
	le.PutUint16(n[4:], uint16(ext))
	le.PutUint64(n[tail:], mk.birth)
	switch raw := n[rawAt:tail]; kind {
	case kindLeaf:
		raw[0] = byte(Leaf)
		le.PutUint32(raw[1:], uint32(ext))
	case kindExtension:
		raw[0] = byte(Extension)
		le.PutUint32(raw[1:], uint32(ext))
	case kindBranch:
		raw[0] = byte(Branch)
		le.PutUint16(raw[1:], mask)
	case kindBranchValue:
		raw[0] = byte(BranchWithValue)
		le.PutUint16(raw[1+36:], mask)
	}
	return ref, n, nil
}

// seal sets the memory usage and hash of a node that is otherwise complete.
func (mk *nodeWriter) seal(n node, usage uint64) {
	raw := n.raw()
	binary.LittleEndian.PutUint64(raw[len(raw)-rawUsage:], usage)
	sum := sha256.Sum256(raw)
	copy(n[offHash:], sum[:])
}

// valueSize returns the number of bytes that a value takes in a node in addition to the encoding.
func valueSize(v *value) int {
	if v.Len > maxInline {
		return 4
	}
	return int(v.Len)
}

// setValue stores v in n.
func (mk *nodeWriter) setValue(n node, v *value) {
	binary.LittleEndian.PutUint32(n[8:], v.Len)
	binary.LittleEndian.PutUint32(n[n.valueIDAt():], v.Len)
	copy(n.valueHash(), v.Hash[:])
	at := n.valueAt()
	if v.Len <= maxInline {
		copy(n[at:], v.data)
		return
	}
	n[6] = 1
	slot := v.slot
	if v.shared {
		mk.forest.larges.get(slot).refs++
	} else {
		slot = mk.forest.larges.put(&large{data: bytes.Clone(v.data), refs: 1})
		mk.forest.largeBytes += uint64(v.Len)
	}
	binary.LittleEndian.PutUint32(n[at:], slot)
}

// leaf makes a leaf.
func (mk *nodeWriter) leaf(ext nibs, v *value) (uint32, error) {
	l := hexPrefixLen(ext.n)
	ref, n, err := mk.alloc(kindLeaf, 0, l, valueSize(v))
	if err != nil {
		return 0, err
	}
	putHexPrefix(n.ext(), ext, true)
	mk.setValue(n, v)
	mk.seal(n, keyCost(l)+valueCost(v.Len))
	return ref, nil
}

// extension makes an extension of at least one nibble over a branch.
func (mk *nodeWriter) extension(ext nibs, child uint32) (uint32, error) {
	l := hexPrefixLen(ext.n)
	ref, n, err := mk.alloc(kindExtension, 0, l, 0)
	if err != nil {
		return 0, err
	}
	putHexPrefix(n.ext(), ext, false)
	mk.finishExtension(n, child)
	return ref, nil
}

// finishExtension completes an extension that has its key.
func (mk *nodeWriter) finishExtension(n node, child uint32) {
	n.setChild(child)
	below := mk.mem.at(child)
	copy(n[n.tailAt()-rawUsage-32:], below.hash())
	mk.seal(n, keyCost(n.extLen())+below.usage())
}

// branch makes a branch of those children that are not 0. v is the new branch's value, or nil. rest
// is the sum of the children's memory usages. old is the branch that the new branch replaces, or
// nil. branch copies from old the hashes of children that old and the new branch have.
func (mk *nodeWriter) branch(kids *[16]uint32, v *value, rest uint64, old node) (uint32, error) {
	var mask uint16
	for i, k := range kids {
		if k != 0 {
			mask |= 1 << i
		}
	}
	kind, extra := byte(kindBranch), 0
	if v != nil {
		kind, extra = kindBranchValue, valueSize(v)
	}
	ref, n, err := mk.alloc(kind, mask, 0, extra)
	if err != nil {
		return 0, err
	}
	n.setKids(kids)
	if v != nil {
		mk.setValue(n, v)
	}
	at := n.hashesAt()
	for i, k := range kids {
		if k == 0 {
			continue
		}
		if old != nil && old.kid(byte(i)) == k {
			copy(n[at:at+32], old.childHash(i))
		} else {
			copy(n[at:at+32], mk.mem.at(k).hash())
		}
		at += 32
	}
	mk.seal(n, rest+branchCost(v))
	return ref, nil
}

// branchCost returns the memory usage of a branch itself.
func branchCost(v *value) uint64 {
	if v == nil {
		return costNode
	}
	return costNode + valueCost(v.Len)
}

// usageOf returns the memory usage of children.
func (mk *nodeWriter) usageOf(kids *[16]uint32) (rest uint64) {
	for _, k := range kids {
		if k != 0 {
			rest += mk.mem.at(k).usage()
		}
	}
	return rest
}

// sub is a subtree under construction. The key of its top node depends on the node above. So a top
// that is a leaf or an extension is made only once the node above is known.
type sub struct {
	kind    subKind
	emptied bool   // at some point in the ordered changes, the subtree was empty
	ref     uint32 // the node of subOld and subNode; the branch below subExt
	skip    int    // of subOld: number of nibbles of the node's key that the node above takes over
	ext     nibs   // own key of subLeaf and subExt
	val     value  // value of subLeaf
}

type subKind uint8

const (
	subNone subKind = iota // the subtree has no keys
	subOld                 // an existing node, unchanged except for skip
	subLeaf                // a leaf that is not made yet
	subExt                 // an extension that is not made yet
	subNode                // a new branch
)

// commit makes the top node unless the top node exists, and returns a reference to the top node.
func (mk *nodeWriter) commit(s *sub) (uint32, error) {
	switch s.kind {
	case subNone:
		return 0, nil
	case subLeaf:
		return mk.leaf(s.ext, &s.val)
	case subExt:
		return mk.extension(s.ext, s.ref)
	case subOld:
		if s.skip != 0 {
			panic("trie: commit of a cut node")
		}
	}
	return s.ref, nil
}
