package trie

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
)

// value is a value on its way into a node: new bytes, or those of an existing node.
type value struct {
	ValueID
	data   []byte
	slot   uint32 // of the large value, if shared
	shared bool
}

// newValue hashes data, which must stay as it is until a node is made.
func newValue(data []byte) value {
	return value{ValueID: ValueID{uint32(len(data)), primitives.HashBytes(data)}, data: data}
}

// oldValue is the value of a node in memory.
func (f *Forest) oldValue(n node) value {
	v := value{ValueID: ValueID{Len: n.valueLen()}, data: f.valueOf(n)}
	copy(v.Hash[:], n.valueHash())
	if n.large() {
		v.slot, v.shared = n.slot(), true
	}
	return v
}

// maker makes nodes for one new version.
type maker struct {
	forest *Forest
	mem    mem
	birth  uint64
	made   []uint32 // to be taken back if the update fails
	raw    []byte   // scratch: the encoding to be hashed
}

// done gives the scratch memory back for the next maker.
func (mk *maker) done() { mk.forest.made, mk.forest.raw = mk.made, mk.raw }

func (f *Forest) maker(birth uint64) maker {
	mk := maker{forest: f, mem: f.arena.mem(), birth: birth, made: f.made[:0], raw: f.raw[:0]}
	f.made, f.raw = nil, nil // lent
	return mk
}

// undo frees all that was made.
func (mk *maker) undo() {
	for _, ref := range mk.made {
		mk.forest.freeDead(deadOf(ref, mk.forest.arena.mem().at(ref)))
	}
	mk.made = nil
}

// alloc returns a node with kind, class, mask, key length and birth set and the rest of its header cleared; extra is
// what its value takes.
func (mk *maker) alloc(kind byte, mask uint16, ext, extra int) (uint32, node, error) {
	tail := bodyAt + ext + 4*bits.OnesCount16(mask)
	ref, class, err := mk.forest.arena.alloc(tail + tailSize + extra)
	if err != nil {
		return 0, nil, err
	}
	mk.made = append(mk.made, ref)
	mk.mem = mk.forest.arena.mem()
	n := mk.mem.at(ref)
	clear(n[:bodyAt])
	n[0], n[1] = kind, class
	binary.LittleEndian.PutUint16(n[2:], mask)
	binary.LittleEndian.PutUint16(n[4:], uint16(ext))
	binary.LittleEndian.PutUint64(n[tail+8:], mk.birth)
	return ref, n, nil
}

// seal sets memory usage and hash of a node that is otherwise complete.
func (mk *maker) seal(n node, usage uint64) {
	n.setUsage(usage)
	mk.raw = mk.mem.appendRaw(mk.raw[:0], n)
	sum := sha256.Sum256(mk.raw)
	copy(n[offHash:], sum[:])
}

// valueSize is what a value and its hash take in a node.
func valueSize(v *value) int {
	if v.Len > maxInline {
		return 32 + 4
	}
	return 32 + int(v.Len)
}

// setValue stores v in n.
func (mk *maker) setValue(n node, v *value) {
	binary.LittleEndian.PutUint32(n[8:], v.Len)
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
	}
	binary.LittleEndian.PutUint32(n[at:], slot)
}

// leaf makes a leaf.
func (mk *maker) leaf(ext nibs, v *value) (uint32, error) {
	l := hexPrefixLen(ext.n)
	ref, n, err := mk.alloc(kindLeaf, 0, l, valueSize(v))
	if err != nil {
		return 0, err
	}
	putHexPrefix(n[bodyAt:], ext, true)
	mk.setValue(n, v)
	mk.seal(n, keyCost(l)+valueCost(v.Len))
	return ref, nil
}

// extension makes an extension of at least one nibble over a branch.
func (mk *maker) extension(ext nibs, child uint32) (uint32, error) {
	l := hexPrefixLen(ext.n)
	ref, n, err := mk.alloc(kindExtension, 0, l, 0)
	if err != nil {
		return 0, err
	}
	n.setChild(child)
	putHexPrefix(n[bodyAt:], ext, false)
	mk.seal(n, keyCost(l)+mk.mem.at(child).usage())
	return ref, nil
}

// branch makes a branch of the children that are not 0; v may be nil. rest is the memory usage of the children.
func (mk *maker) branch(kids *[16]uint32, v *value, rest uint64) (uint32, error) {
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
	mk.seal(n, rest+branchCost(v))
	return ref, nil
}

// branchCost is the memory usage of a branch itself.
func branchCost(v *value) uint64 {
	if v == nil {
		return costNode
	}
	return costNode + valueCost(v.Len)
}

// usageOf sums the memory usage of children.
func (mk *maker) usageOf(kids *[16]uint32) (rest uint64) {
	for _, k := range kids {
		if k != 0 {
			rest += mk.mem.at(k).usage()
		}
	}
	return rest
}

// sub is a subtree under construction. What hangs above decides the key of its top node, so a leaf or an extension at
// the top is made only when that is known.
type sub struct {
	kind    subKind
	emptied bool   // after some deletion in the order of the changes, the subtree held nothing
	ref     uint32 // subOld, subNode: the node; subExt: the branch below
	skip    int    // subOld: nibbles of the node's key that now lie above it
	ext     nibs   // subLeaf, subExt
	val     value  // subLeaf
}

type subKind uint8

const (
	subNone subKind = iota // no keys
	subOld                 // a node as it was, but for skip
	subLeaf                // a leaf to be made
	subExt                 // an extension to be made
	subNode                // a branch, made
)

// commit makes the top node if need be.
func (mk *maker) commit(s *sub) (uint32, error) {
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
