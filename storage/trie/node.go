package trie

import (
	"encoding/binary"
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
)

// A node in memory, little-endian; it never changes once a root holds it. What a walk reads comes first:
//
//	 0 kind u8, 1 size class u8, 2 mask of children u16, 4 length of the encoded key u16, 6 value is large u8
//	 8 length of the value u32; or child (extension), slot (stub) u32
//	12 hash
//	44 encoded key (leaf, extension) or children u32 by nibble (branches)
//	.. memory usage u64, id of the root it was made for u64, [value hash, value or slot of a large value u32]
type node []byte

const (
	kindLeaf        = 1
	kindBranch      = 2
	kindBranchValue = 3
	kindExtension   = 4
	kindStub        = 5

	offHash  = 12
	bodyAt   = offHash + 32
	tailSize = 16 // memory usage and birth

	maxInline = 2048 // longer values live outside the slabs
)

func (n node) kind() byte       { return n[0] }
func (n node) class() uint8     { return n[1] }
func (n node) mask() uint16     { return binary.LittleEndian.Uint16(n[2:]) }
func (n node) extLen() int      { return int(binary.LittleEndian.Uint16(n[4:])) }
func (n node) large() bool      { return n[6] != 0 }
func (n node) valueLen() uint32 { return binary.LittleEndian.Uint32(n[8:]) }
func (n node) child() uint32    { return binary.LittleEndian.Uint32(n[8:]) }
func (n node) usage() uint64    { return binary.LittleEndian.Uint64(n[n.tailAt():]) }
func (n node) birth() uint64    { return binary.LittleEndian.Uint64(n[n.tailAt()+8:]) }
func (n node) hash() []byte     { return n[offHash : offHash+32 : offHash+32] }
func (n node) hasValue() bool   { return n[0] == kindLeaf || n[0] == kindBranchValue }
func (n node) valueHash() []byte {
	at := n.tailAt() + tailSize
	return n[at : at+32 : at+32]
}

func (n node) setChild(ref uint32)   { binary.LittleEndian.PutUint32(n[8:], ref) }
func (n node) setUsage(usage uint64) { binary.LittleEndian.PutUint64(n[n.tailAt():], usage) }

// setKids stores the children that are not 0; the mask must be theirs.
func (n node) setKids(kids *[16]uint32) {
	at := bodyAt + n.extLen()
	for _, k := range kids {
		if k != 0 {
			binary.LittleEndian.PutUint32(n[at:], k)
			at += 4
		}
	}
}

// tailAt is where the body ends; extLen is 0 for branches, mask for all else.
func (n node) tailAt() int { return bodyAt + n.extLen() + 4*bits.OnesCount16(n.mask()) }

// ext returns the encoded key of a leaf or an extension.
func (n node) ext() []byte { return n[bodyAt : bodyAt+n.extLen()] }

// kid returns the child of a branch at a nibble, or 0.
func (n node) kid(nibble byte) uint32 {
	mask := n.mask()
	if mask>>nibble&1 == 0 {
		return 0
	}
	i := bits.OnesCount16(mask & (1<<nibble - 1))
	return binary.LittleEndian.Uint32(n[bodyAt+4*i:])
}

// valueAt is where the value, or its slot, begins.
func (n node) valueAt() int { return n.tailAt() + tailSize + 32 }

func (n node) slot() uint32 { return binary.LittleEndian.Uint32(n[n.valueAt():]) }

// rawLen is the length of the node's encoding.
func (n node) rawLen() uint32 {
	switch n[0] {
	case kindLeaf:
		return uint32(1 + 4 + n.extLen() + 36 + 8)
	case kindBranch:
		return uint32(1 + 2 + 32*bits.OnesCount16(n.mask()) + 8)
	case kindBranchValue:
		return uint32(1 + 36 + 2 + 32*bits.OnesCount16(n.mask()) + 8)
	default:
		return uint32(1 + 4 + n.extLen() + 32 + 8)
	}
}

// appendRaw appends the node's encoding (see RawNode); n must not be a stub.
func (m mem) appendRaw(b []byte, n node) []byte {
	le := binary.LittleEndian
	appendValue := func() { b = append(le.AppendUint32(b, n.valueLen()), n.valueHash()...) }
	appendExt := func() { b = append(le.AppendUint32(b, uint32(n.extLen())), n.ext()...) }
	switch n[0] {
	case kindLeaf:
		b = append(b, byte(Leaf))
		appendExt()
		appendValue()
	case kindExtension:
		b = append(b, byte(Extension))
		appendExt()
		b = append(b, m.at(n.child()).hash()...)
	default:
		if n[0] == kindBranchValue {
			b = append(b, byte(BranchWithValue))
			appendValue()
		} else {
			b = append(b, byte(Branch))
		}
		b = le.AppendUint16(b, n.mask())
		at := bodyAt
		for range bits.OnesCount16(n.mask()) {
			b = append(b, m.at(le.Uint32(n[at:])).hash()...)
			at += 4
		}
	}
	return le.AppendUint64(b, n.usage())
}

func (n node) hashValue() (h primitives.Hash) {
	copy(h[:], n.hash())
	return h
}
