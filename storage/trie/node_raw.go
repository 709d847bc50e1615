package trie

import (
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Kind is the tag of a node's encoding.
type Kind byte

// The four kinds (nearcore raw_node.rs:27).
const (
	Leaf            Kind = 0
	Branch          Kind = 1
	BranchWithValue Kind = 2
	Extension       Kind = 3
)

// TRIE_COSTS of nearcore (core/store/src/trie/mod.rs): the terms of memory_usage.
const (
	costNode    = 50 // memory usage of a node; costs of the node's value are added to it
	costKeyByte = 2  // usage of a byte of a hex-prefix encoded key
	costValByte = 1  // usage of a byte of a value
)

func valueCost(n uint32) uint64 { return uint64(n)*costValByte + costNode }
func keyCost(n int) uint64      { return costNode + uint64(n)*costKeyByte }

// ValueID names a value by its length and hash (nearcore ValueRef).
type ValueID struct {
	Len  uint32
	Hash primitives.Hash
}

// RawNode is a node in the form that is hashed and used in proofs (nearcore RawTrieNodeWithSize).
type RawNode struct {
	Kind        Kind
	Key         []byte              // hex-prefix encoding of the key; only of Leaf and Extension
	Value       ValueID             // only of Leaf and BranchWithValue
	Mask        uint16              // bit i is set if child i exists; only of branches
	Children    [16]primitives.Hash // hashes of the children by nibble; only of branches
	Child       primitives.Hash     // hash of the child; only of Extension
	MemoryUsage uint64              // memory usage of the whole subtree
}

// AppendBorsh appends the encoding. The sha256 of the encoding is the node's hash.
func (n *RawNode) AppendBorsh(b []byte) []byte {
	b = append(b, byte(n.Kind))
	value := func() { b = append(borsh.AppendUint32(b, n.Value.Len), n.Value.Hash[:]...) }
	switch n.Kind {
	case Leaf:
		b = borsh.AppendBytes(b, n.Key)
		value()
	case Extension:
		b = append(borsh.AppendBytes(b, n.Key), n.Child[:]...)
	case Branch, BranchWithValue:
		if n.Kind == BranchWithValue {
			value()
		}
		b = borsh.AppendUint16(b, n.Mask)
		for m := n.Mask; m != 0; m &= m - 1 {
			b = append(b, n.Children[bits.TrailingZeros16(m)][:]...)
		}
	}
	return borsh.AppendUint64(b, n.MemoryUsage)
}

// DecodeBorsh reads a node. Key aliases the input. Like nearcore, DecodeBorsh does not check
// whether the key is well formed.
func (n *RawNode) DecodeBorsh(r *borsh.Reader) {
	*n = RawNode{Kind: Kind(r.Byte())}
	value := func() { n.Value = ValueID{Len: r.Uint32(), Hash: primitives.ReadHash(r)} }
	switch n.Kind {
	case Leaf:
		n.Key = r.Bytes()
		value()
	case Extension:
		n.Key = r.Bytes()
		n.Child = primitives.ReadHash(r)
	case Branch, BranchWithValue:
		if n.Kind == BranchWithValue {
			value()
		}
		n.Mask = r.Uint16()
		for m := n.Mask; m != 0 && r.Err() == nil; m &= m - 1 {
			n.Children[bits.TrailingZeros16(m)] = primitives.ReadHash(r)
		}
	default:
		r.BadTag("RawTrieNode", byte(n.Kind))
	}
	n.MemoryUsage = r.Uint64()
}

// Hash returns sha256 of the encoding.
func (n *RawNode) Hash() primitives.Hash { return primitives.HashBorsh(n) }
