package primitives

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// PartialMerkleTree is the block Merkle tree reduced to what appending needs: the roots of its full
// subtrees, largest first, one for each binary 1 of the size. The leaves of the tree are the block
// hashes themselves. The tree stored for a block holds the block's ancestors and not the block. The
// root of that tree is the header's block_merkle_root, and its size the header's block_ordinal - 1
// (nearcore core/primitives/src/merkle.rs:161). The zero value is the empty tree.
type PartialMerkleTree struct {
	path []Hash
	size uint64
}

// Size returns the number of leaves.
func (t *PartialMerkleTree) Size() uint64 { return t.size }

// Path returns the subtrees' roots, largest subtree first; read only.
func (t *PartialMerkleTree) Path() []Hash { return t.path }

// Clone returns a copy that can be inserted into without changing t.
func (t *PartialMerkleTree) Clone() *PartialMerkleTree {
	return &PartialMerkleTree{slices.Clone(t.path), t.size}
}

// Equal returns whether t and o have the same leaves (up to collisions of sha256).
func (t *PartialMerkleTree) Equal(o *PartialMerkleTree) bool {
	return t.size == o.size && slices.Equal(t.path, o.path)
}

// Root returns the root over all leaves, or zeros if there are none.
func (t *PartialMerkleTree) Root() Hash {
	if len(t.path) == 0 {
		return Hash{}
	}
	root := t.path[len(t.path)-1]
	for i := len(t.path) - 2; i >= 0; i-- {
		root = CombineHash(t.path[i], root)
	}
	return root
}

// Insert appends a leaf.
func (t *PartialMerkleTree) Insert(leaf Hash) {
	for s := t.size; s%2 == 1; s /= 2 {
		last := len(t.path) - 1
		leaf = CombineHash(t.path[last], leaf)
		t.path = t.path[:last]
	}
	t.path = append(t.path, leaf)
	t.size++
}

// fromBottom yields the subtrees' roots, smallest first, with their levels (0: a leaf).
func (t *PartialMerkleTree) fromBottom(yield func(level int, root Hash)) {
	size := t.size
	for i := len(t.path) - 1; i >= 0; i-- {
		yield(bits.TrailingZeros64(size), t.path[i])
		size &= size - 1 // clear the lowest 1
	}
}

// AppendBorsh appends the path and the size.
func (t *PartialMerkleTree) AppendBorsh(b []byte) []byte {
	return borsh.AppendUint64(AppendHashes(b, t.path), t.size)
}

// DecodeBorsh reads a path and a size; the path must have one hash for each binary 1 of the size.
func (t *PartialMerkleTree) DecodeBorsh(r *borsh.Reader) {
	t.path, t.size = ReadHashes(r), r.Uint64()
	if r.Err() == nil && len(t.path) != bits.OnesCount64(t.size) {
		r.Failf("a Merkle tree of %d leaves with %d subtrees", t.size, len(t.path))
	}
}

// BlockMerkleSource is the store of the blocks of the canonical chain.
type BlockMerkleSource interface {
	// BlockMerkleTree returns the tree over the ancestors of a block. Its size is the block's leaf
	// index.
	BlockMerkleTree(block Hash) (*PartialMerkleTree, error)
	// BlockAtLeaf returns the block at the given leaf of the tree: the one with block_ordinal
	// leaf+1 (0: genesis). nearcore's store calls this number "ordinal".
	BlockAtLeaf(leaf uint64) (Hash, error)
}

// BlockMerkleProof proves that block is a leaf of head's block Merkle tree: it returns the path
// from block's hash to head's block_merkle_root, empty for head itself. BlockMerkleProof reads
// O(log n) trees and hashes, only of blocks from block to head (nearcore
// core/store/src/merkle_proof.rs).
func BlockMerkleProof(src BlockMerkleSource, block, head Hash) (MerklePath, error) {
	leafTree, err := src.BlockMerkleTree(block)
	if err != nil {
		return nil, fmt.Errorf("read the Merkle tree of block %v: %w", block, err)
	}
	headTree, err := src.BlockMerkleTree(head)
	if err != nil {
		return nil, fmt.Errorf("read the Merkle tree of head %v: %w", head, err)
	}
	leaf, n := leafTree.size, headTree.size
	if leaf >= n {
		if block == head {
			return MerklePath{}, nil
		}
		return nil, fmt.Errorf("block %v is ahead of head block %v", block, head)
	}
	path := MerklePath{}
	for level := 0; (n-1)>>level > 0; level++ {
		index := leaf >> level
		if index%2 == 1 {
			// The left sibling is a full subtree. It is part of the tree of the last block below
			// our node at this level.
			last := min((index+1)<<level, n) - 1
			root, err := fullSubtree(src, last, level)
			if err != nil {
				return nil, err
			}
			path = append(path, MerklePathItem{root, Left})
			continue
		}
		if index+1 > (n-1)>>level {
			continue // the node has no right sibling and moves up unchanged
		}
		// The right sibling, full or not, is its last block combined with the part of that block's
		// tree below this level.
		last := min((index+2)<<level, n) - 1
		root, err := src.BlockAtLeaf(last)
		if err != nil {
			return nil, fmt.Errorf("read the block at leaf %d: %w", last, err)
		}
		if level > 0 {
			tree, err := treeAtLeaf(src, last)
			if err != nil {
				return nil, err
			}
			tree.fromBottom(func(l int, sub Hash) {
				if l < level {
					root = CombineHash(sub, root)
				}
			})
		}
		path = append(path, MerklePathItem{root, Right})
	}
	return path, nil
}

func treeAtLeaf(src BlockMerkleSource, leaf uint64) (*PartialMerkleTree, error) {
	block, err := src.BlockAtLeaf(leaf)
	if err != nil {
		return nil, fmt.Errorf("read the block at leaf %d: %w", leaf, err)
	}
	tree, err := src.BlockMerkleTree(block)
	if err != nil {
		return nil, fmt.Errorf("read the Merkle tree of block %v: %w", block, err)
	}
	return tree, nil
}

// fullSubtree returns the root of the full subtree of the given level in the tree of the block at a
// leaf.
func fullSubtree(src BlockMerkleSource, leaf uint64, level int) (root Hash, err error) {
	tree, err := treeAtLeaf(src, leaf)
	if err != nil {
		return root, err
	}
	found := false
	tree.fromBottom(func(l int, sub Hash) {
		if l == level {
			root, found = sub, true
		}
	})
	if !found {
		return root, fmt.Errorf("the block Merkle tree at leaf %d, which has %d leaves, has no subtree of level %d", leaf, tree.size, level)
	}
	return root, nil
}
