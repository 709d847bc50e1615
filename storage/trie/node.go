package trie

import (
	"encoding/binary"
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
)

// node is a node in memory, little-endian. A node never changes once a root holds it. Fields that a
// walk reads come first:
//
//	 0 kind u8, 1 size class u8, 2 mask of children u16, 4 length of the encoded key u16 (hash node:
//	   nibbles of its path), 6 value is large u8
//	 8 length of the value u32; or child (extension), row (hash node) u32
//	12 hash
//	44 children u32 by nibble (branches)
//	.. encoding (see RawNode); of a hash node only the memory usage u64
//	.. birth u64: id of the root that the node was made for; [value, or slot of a large value u32,
//	   or path of a hash node, two nibbles a byte]
//
// The node contains the encoding that is hashed and used in proofs, including the hashes of its
// children. So if one child of a branch changes, the branch can be hashed again without reading the
// other children, which are likely not in the processor's cache.
type node []byte

const (
	kindLeaf        = 1
	kindBranch      = 2
	kindBranchValue = 3
	kindExtension   = 4
	kindHash        = 5

	offHash  = 12
	bodyAt   = offHash + 32
	tailSize = 8 // bytes of the birth, which follows the encoding
	rawExt   = 5 // offset of the key in the raw encoding of a leaf or an extension
	rawUsage = 8 // bytes of the memory usage at the end of a raw encoding

	maxInline = 2048 // values with more bytes are stored outside the slabs
)

func (n node) kind() byte       { return n[0] }
func (n node) class() uint8     { return n[1] }
func (n node) mask() uint16     { return binary.LittleEndian.Uint16(n[2:]) }
func (n node) extLen() int      { return int(binary.LittleEndian.Uint16(n[4:])) }
func (n node) large() bool      { return n[6] != 0 }
func (n node) valueLen() uint32 { return binary.LittleEndian.Uint32(n[8:]) }
func (n node) child() uint32    { return binary.LittleEndian.Uint32(n[8:]) }
func (n node) usage() uint64    { return binary.LittleEndian.Uint64(n[n.tailAt()-rawUsage:]) }
func (n node) birth() uint64    { return binary.LittleEndian.Uint64(n[n.tailAt():]) }
func (n node) hash() []byte     { return n[offHash : offHash+32 : offHash+32] }
func (n node) hasValue() bool   { return n[0] == kindLeaf || n[0] == kindBranchValue }

// rawAt returns where the encoding begins. mask is 0 except for branches.
func (n node) rawAt() int { return bodyAt + 4*bits.OnesCount16(n.mask()) }

// tailAt returns where the encoding ends.
func (n node) tailAt() int { return n.rawAt() + int(n.rawLen()) }

// raw returns the encoding. The sha256 of the encoding is the node's hash. A hash node has no
// encoding.
func (n node) raw() []byte {
	from, to := n.rawAt(), n.tailAt()
	return n[from:to:to]
}

// valueIDAt returns where the encoding names the value: the value's length u32, then the value's
// hash.
func (n node) valueIDAt() int {
	if n[0] == kindLeaf {
		return bodyAt + rawExt + n.extLen()
	}
	return n.rawAt() + 1
}

func (n node) valueHash() []byte {
	at := n.valueIDAt() + 4
	return n[at : at+32 : at+32]
}

func (n node) setChild(ref uint32)   { binary.LittleEndian.PutUint32(n[8:], ref) }
func (n node) setUsage(usage uint64) { binary.LittleEndian.PutUint64(n[n.tailAt()-rawUsage:], usage) }

// hashesAt returns where a branch has the hashes of its children.
func (n node) hashesAt() int {
	at := n.rawAt() + 1 + 2
	if n[0] == kindBranchValue {
		at += 36
	}
	return at
}

// setKids stores the children that are not 0. The mask must match.
func (n node) setKids(kids *[16]uint32) {
	at := bodyAt
	for _, k := range kids {
		if k != 0 {
			binary.LittleEndian.PutUint32(n[at:], k)
			at += 4
		}
	}
}

// ext returns the encoded key of a leaf or an extension.
func (n node) ext() []byte {
	at := bodyAt + rawExt // leaves and extensions have no child mask before the encoding
	return n[at : at+n.extLen()]
}

// kid returns the child of a branch at a nibble, or 0.
func (n node) kid(nibble byte) uint32 {
	mask := n.mask()
	if mask>>nibble&1 == 0 {
		return 0
	}
	i := bits.OnesCount16(mask & (1<<nibble - 1))
	return binary.LittleEndian.Uint32(n[bodyAt+4*i:])
}

// childHash returns the hash of the child at a nibble. That child must exist.
func (n node) childHash(nibble int) []byte {
	at := n.hashesAt() + 32*bits.OnesCount16(n.mask()&(1<<nibble-1))
	return n[at : at+32 : at+32]
}

// valueAt returns where the value, or its slot, begins.
func (n node) valueAt() int { return n.tailAt() + tailSize }

func (n node) slot() uint32 { return binary.LittleEndian.Uint32(n[n.valueAt():]) }

// rawLen returns the length of the node's encoding.
func (n node) rawLen() uint32 {
	return rawLen(n[0], n.mask(), n.extLen())
}

func rawLen(kind byte, mask uint16, ext int) uint32 {
	switch kind {
	case kindLeaf:
		return uint32(1 + 4 + ext + 36 + rawUsage)
	case kindBranch:
		return uint32(1 + 2 + 32*bits.OnesCount16(mask) + rawUsage)
	case kindBranchValue:
		return uint32(1 + 36 + 2 + 32*bits.OnesCount16(mask) + rawUsage)
	case kindExtension:
		return uint32(1 + 4 + ext + 32 + rawUsage)
	}
	return rawUsage
}

func (n node) hashValue() (h primitives.Hash) {
	copy(h[:], n.hash())
	return h
}
