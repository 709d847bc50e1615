package primitives

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestCombineHashVectorA18 compares with nearcore's literals: combining two zero hashes.
func TestCombineHashVectorA18(t *testing.T) {
	t.Parallel()
	got := CombineHash(Hash{}, Hash{})
	if want := "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b"; fmt.Sprintf("%x", got[:]) != want {
		t.Errorf("combine(0, 0) = %x, want %s", got[:], want)
	}
}

// TestHashesVectorA19A20A21 compares with nearcore's literals: hashes of borsh and of bytes.
func TestHashesVectorA19A20A21(t *testing.T) {
	t.Parallel()
	tests := []struct {
		row  string
		got  Hash
		want string
	}{
		{"A19", HashBytes(borsh.AppendString(nil, "foo")), "CuoNgQBWsXnTqup6FY3UXNz6RRufnYyQVxx8HKZLUaRt"},
		{"A20", HashBytes([]byte("foo")), "3yMApqCuCjXDWPrbjfR5mjCPTHqFG8Pux1TxQrEM35jj"},
		{"A21", HashBytes([]byte{0, 1, 2}), "CjNSmWXTWhC3EhRVtqLhRmWMTkRbU96wUACqxMtV1uGf"},
	}
	for _, tt := range tests {
		if tt.got.String() != tt.want {
			t.Errorf("%s: %v, want %s", tt.row, tt.got, tt.want)
		}
	}
}

// slowRoot is the root by definition: the left part holds the largest power of two below the number
// of leaves.
func slowRoot(leaves []Hash) Hash {
	switch len(leaves) {
	case 0:
		return Hash{}
	case 1:
		return leaves[0]
	}
	half := 1
	for half*2 < len(leaves) {
		half *= 2
	}
	return CombineHash(slowRoot(leaves[:half]), slowRoot(leaves[half:]))
}

func TestMerklizeMatchesDefinition(t *testing.T) {
	t.Parallel()
	var leaves []Hash
	for n := range 70 {
		want := slowRoot(leaves)
		root, paths := Merklize(leaves)
		if root != want || MerkleRoot(slices.Clone(leaves)) != want || len(paths) != n {
			t.Fatalf("%d leaves: root %v, %v, want %v", n, root, MerkleRoot(slices.Clone(leaves)), want)
		}
		tree := NewMerkleTree(leaves)
		if tree.Root() != root || tree.Len() != n {
			t.Errorf("tree of %d leaves: root %v, %d", n, tree.Root(), tree.Len())
		}
		for i, p := range paths {
			if !slices.Equal(tree.Path(i), p) {
				t.Errorf("proof %d of %d differs from its tree's", i, n)
			}
			if !p.Verify(root, leaves[i]) || !p.VerifyAt(root, leaves[i], uint64(i), uint64(n)) {
				t.Errorf("proof %d of %d does not verify", i, n)
			}
			if j := (i + 1) % n; n > 1 && (p.Verify(root, leaves[j]) || p.VerifyAt(root, leaves[i], uint64(j), uint64(n))) {
				t.Errorf("proof %d of %d verifies for %d", i, n, j)
			}
			if p.VerifyAt(root, leaves[i], uint64(n), uint64(n)) || p.VerifyAt(root, leaves[i], uint64(i), uint64(2*n+1)) {
				t.Errorf("proof %d of %d verifies for another number of leaves", i, n)
			}
			var again MerklePath
			if err := borsh.Unmarshal(borsh.Marshal(p), &again); err != nil || !slices.Equal(again, p) {
				t.Errorf("proof %d of %d: borsh gives %v, %v", i, n, again, err)
			}
		}
		leaves = append(leaves, HashBytes([]byte{byte(n)}))
	}
	items := []Hash{{1}, {2}, {3}}
	root, _ := MerklizeItems(items)
	if want := slowRoot([]Hash{HashBytes(items[0][:]), HashBytes(items[1][:]), HashBytes(items[2][:])}); root != want || MerkleRootOf(items) != want {
		t.Errorf("root of items %v, want %v", root, want)
	}
	out, err := json.Marshal(MerklePath{{Hash{}, Left}, {Hash{}, Right}})
	want := `[{"hash":"11111111111111111111111111111111","direction":"Left"},{"hash":"11111111111111111111111111111111","direction":"Right"}]`
	if err != nil || string(out) != want {
		t.Errorf("JSON %s, %v, want %s", out, err, want)
	}
}

// blockTrees is a BlockMerkleSource that refuses blocks outside of [lo, hi].
type blockTrees struct {
	trees  map[Hash]*PartialMerkleTree
	blocks []Hash
	lo, hi uint64
}

var errOutside = errors.New("outside")

func (b *blockTrees) BlockMerkleTree(block Hash) (*PartialMerkleTree, error) {
	tree := b.trees[block]
	if tree == nil || tree.Size() < b.lo || tree.Size() > b.hi {
		return nil, errOutside
	}
	return tree, nil
}

func (b *blockTrees) BlockAtLeaf(leaf uint64) (Hash, error) {
	if leaf < b.lo || leaf > b.hi {
		return Hash{}, errOutside
	}
	return b.blocks[leaf], nil
}

// TestBlockProofReadsOnlyItsRange proves every block against every later one, reading only the data
// of blocks between them.
func TestBlockProofReadsOnlyItsRange(t *testing.T) {
	t.Parallel()
	const n = 100
	src := &blockTrees{trees: map[Hash]*PartialMerkleTree{}}
	var tree PartialMerkleTree
	for i := range n {
		h := HashBytes([]byte{byte(i)})
		if got, want := tree.Root(), slowRoot(src.blocks); got != want {
			t.Fatalf("root of %d = %v, want %v", i, got, want)
		}
		var again PartialMerkleTree
		if err := borsh.Unmarshal(borsh.Marshal(&tree), &again); err != nil || !again.Equal(&tree) {
			t.Fatalf("borsh of %d leaves: %v", i, err)
		}
		src.blocks = append(src.blocks, h)
		src.trees[h] = tree.Clone()
		tree.Insert(h)
	}
	for i := range src.blocks {
		for j := i; j < n; j++ {
			src.lo, src.hi = uint64(i), uint64(j)
			proof, err := BlockMerkleProof(src, src.blocks[i], src.blocks[j])
			if err != nil {
				t.Fatalf("%d in %d: %v", i, j, err)
			}
			if i == j {
				if len(proof) != 0 {
					t.Errorf("%d in itself: %v", i, proof)
				}
				continue
			}
			root := src.trees[src.blocks[j]].Root()
			_, paths := Merklize(src.blocks[:j])
			if !proof.VerifyAt(root, src.blocks[i], uint64(i), uint64(j)) || !slices.Equal(proof, paths[i]) {
				t.Errorf("%d in %d: proof %v, want %v", i, j, proof, paths[i])
			}
		}
	}
	src.lo, src.hi = 0, n
	if _, err := BlockMerkleProof(src, src.blocks[5], src.blocks[4]); err == nil {
		t.Error("a block is proved in an earlier one")
	}
	src.lo = 1
	if _, err := BlockMerkleProof(src, src.blocks[1], Hash{}); !errors.Is(err, errOutside) {
		t.Errorf("unknown head: %v", err)
	}
}

func FuzzPartialMerkleTree(f *testing.F) {
	var tree PartialMerkleTree
	for i := range 6 {
		f.Add(borsh.Marshal(&tree))
		tree.Insert(Hash{byte(i)})
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var tree PartialMerkleTree
		if borsh.Unmarshal(in, &tree) != nil {
			return
		}
		if got := borsh.Marshal(&tree); !bytes.Equal(got, in) {
			t.Errorf("%x became %x", in, got)
		}
		tree.Root()
		if tree.Size() != ^uint64(0) {
			tree.Insert(Hash{1})
		}
	})
}

func FuzzMerklePath(f *testing.F) {
	f.Add(borsh.Marshal(MerklePath{{Hash{1}, Left}, {Hash{2}, Right}}), uint64(1), uint64(4))
	f.Fuzz(func(t *testing.T, in []byte, index, n uint64) {
		var p MerklePath
		if borsh.Unmarshal(in, &p) != nil {
			return
		}
		if got := borsh.Marshal(p); !bytes.Equal(got, in) {
			t.Errorf("%x became %x", in, got)
		}
		p.VerifyAt(Hash{}, Hash{}, index, n)
	})
}

func BenchmarkMerklize(b *testing.B) {
	leaves := make([]Hash, 1000)
	b.Run("leaves=1000/op=paths", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			Merklize(leaves)
		}
	})
	b.Run("leaves=1000/op=root", func(b *testing.B) {
		scratch := make([]Hash, 1000)
		for b.Loop() {
			copy(scratch, leaves)
			MerkleRoot(scratch)
		}
	})
}
