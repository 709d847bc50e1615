package primitives

import (
	"fmt"
	"math/bits"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Direction is the side on which an item of a proof is combined with the hash computed so far.
type Direction byte

// The two sides, with their borsh tags.
const (
	Left  Direction = 0
	Right Direction = 1
)

// String returns "Left" or "Right".
func (d Direction) String() string {
	if d == Left {
		return "Left"
	}
	return "Right"
}

// MarshalText returns "Left" or "Right".
func (d Direction) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses "Left" or "Right".
func (d *Direction) UnmarshalText(text []byte) error {
	switch string(text) {
	case "Left":
		*d = Left
	case "Right":
		*d = Right
	default:
		return fmt.Errorf("unknown variant `%s`, expected `Left` or `Right`", text)
	}
	return nil
}

// MerklePathItem is the sibling of one node on the path from a leaf to the root.
type MerklePathItem struct {
	Hash      Hash      `json:"hash"`
	Direction Direction `json:"direction"`
}

// MerklePath is the proof of a leaf: siblings, the leaf's own first.
type MerklePath []MerklePathItem

// AppendBorsh appends hash ‖ side.
func (m *MerklePathItem) AppendBorsh(b []byte) []byte {
	return append(m.Hash.AppendBorsh(b), byte(m.Direction))
}

// DecodeBorsh reads hash ‖ side.
func (m *MerklePathItem) DecodeBorsh(r *borsh.Reader) {
	m.Hash.DecodeBorsh(r)
	m.Direction = Direction(r.Byte())
	if m.Direction > Right {
		r.BadTag("Direction", byte(m.Direction))
	}
}

// AppendBorsh appends the items as a vector.
func (p MerklePath) AppendBorsh(b []byte) []byte {
	return borsh.AppendSlice(b, p, func(b []byte, m *MerklePathItem) []byte { return m.AppendBorsh(b) })
}

// DecodeBorsh reads a vector of items.
func (p *MerklePath) DecodeBorsh(r *borsh.Reader) {
	*p = borsh.Slice(r, 33, func(r *borsh.Reader) (m MerklePathItem) {
		m.DecodeBorsh(r)
		return m
	})
}

// Root returns the root that follows from p and the leaf hash.
func (p MerklePath) Root(leaf Hash) Hash {
	for i := range p {
		if p[i].Direction == Left {
			leaf = CombineHash(p[i].Hash, leaf)
		} else {
			leaf = CombineHash(leaf, p[i].Hash)
		}
	}
	return leaf
}

// Verify returns whether p leads from the leaf hash to root.
func (p MerklePath) Verify(root, leaf Hash) bool { return p.Root(leaf) == root }

// VerifyAt is Verify, and also checks that p has the length and directions of the path of leaf
// index among n leaves (nearcore merkle.rs: verify_path_with_index).
func (p MerklePath) VerifyAt(root, leaf Hash, index, n uint64) bool {
	return p.matches(index, n) && p.Verify(root, leaf)
}

func (p MerklePath) matches(index, n uint64) bool {
	if index >= n {
		return false
	}
	used := 0
	for k := range bits.Len64(n - 1) {
		sibling := index>>k ^ 1
		if sibling > (n-1)>>k { // the node has no sibling and moves up unchanged
			continue
		}
		want := Right
		if index>>k&1 == 1 {
			want = Left
		}
		if used == len(p) || p[used].Direction != want {
			return false
		}
		used++
	}
	return used == len(p)
}

// MerkleRoot returns the root over leaf hashes, zeros if there are none. Nodes are paired from the
// left; an odd last node moves up unchanged. MerkleRoot overwrites leaves.
func MerkleRoot(leaves []Hash) Hash {
	if len(leaves) == 0 {
		return Hash{}
	}
	for len(leaves) > 1 {
		leaves = merkleLevel(leaves, leaves)
	}
	return leaves[0]
}

// merkleLevel writes the parents of nodes to the front of dst, which may be nodes.
func merkleLevel(dst, nodes []Hash) []Hash {
	n := 0
	for i := 0; i < len(nodes); i += 2 {
		if i+1 < len(nodes) {
			dst[n] = CombineHash(nodes[i], nodes[i+1])
		} else {
			dst[n] = nodes[i]
		}
		n++
	}
	return dst[:n]
}

// MerkleTree has all levels of a tree over leaf hashes, the leaves first, to prove some of the
// leaves.
type MerkleTree [][]Hash

// NewMerkleTree returns the tree, which keeps leaves. The tree of no leaves is empty.
func NewMerkleTree(leaves []Hash) MerkleTree {
	if len(leaves) == 0 {
		return nil
	}
	t := MerkleTree{leaves}
	for nodes := leaves; len(nodes) > 1; {
		nodes = merkleLevel(make([]Hash, (len(nodes)+1)/2), nodes)
		t = append(t, nodes)
	}
	return t
}

// Len returns the number of leaves.
func (t MerkleTree) Len() int {
	if len(t) == 0 {
		return 0
	}
	return len(t[0])
}

// Root returns the root.
func (t MerkleTree) Root() Hash {
	if len(t) == 0 {
		return Hash{}
	}
	return t[len(t)-1][0]
}

// Path returns the proof of leaf i.
func (t MerkleTree) Path(i int) MerklePath {
	return t.appendPath(make(MerklePath, 0, len(t)-1), i)
}

// Paths returns the proofs of all leaves.
func (t MerkleTree) Paths() []MerklePath {
	if len(t) == 0 {
		return nil
	}
	paths := make([]MerklePath, len(t[0]))
	backing := make(MerklePath, 0, len(paths)*bits.Len(uint(len(paths)-1)))
	for i := range paths {
		start := len(backing)
		backing = t.appendPath(backing, i)
		paths[i] = backing[start:len(backing):len(backing)]
	}
	return paths
}

func (t MerkleTree) appendPath(to MerklePath, i int) MerklePath {
	for k := 0; k < len(t)-1; i, k = i/2, k+1 {
		if sibling := i ^ 1; sibling < len(t[k]) {
			side := Right
			if sibling < i {
				side = Left
			}
			to = append(to, MerklePathItem{t[k][sibling], side})
		}
	}
	return to
}

// Merklize returns the root over leaf hashes and the proof of each leaf (nearcore
// core/primitives/src/merkle.rs). A leaf is the sha256 of an item's borsh form, even if the item is
// itself a hash: see HashBorsh and MerklizeItems.
func Merklize(leaves []Hash) (Hash, []MerklePath) {
	tree := NewMerkleTree(leaves)
	return tree.Root(), tree.Paths()
}

// MerklizeItems is Merklize over the hashes of the items' borsh forms.
func MerklizeItems[T borsh.Appender](items []T) (Hash, []MerklePath) {
	return Merklize(merkleLeaves(items))
}

// MerkleRootOf is the root of MerklizeItems without the proofs.
func MerkleRootOf[T borsh.Appender](items []T) Hash { return MerkleRoot(merkleLeaves(items)) }

func merkleLeaves[T borsh.Appender](items []T) []Hash {
	leaves := make([]Hash, len(items))
	var buf []byte
	for i := range items {
		buf = items[i].AppendBorsh(buf[:0])
		leaves[i] = HashBytes(buf)
	}
	return leaves
}
