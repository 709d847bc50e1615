package trie

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// pairsOf makes a root of alternating hex keys and values.
func rootOf(t *testing.T, f *Forest, pairs ...string) *Root {
	t.Helper()
	var changes []Change
	for i := 0; i < len(pairs); i += 2 {
		changes = append(changes, Change{Key: unhex(t, pairs[i]), Value: unhex(t, pairs[i+1])})
	}
	empty := f.Empty()
	defer empty.Release()
	root, err := f.Update(empty, changes, nil)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTrieRootVectorA22: nearcore core/store/src/trie/mem/memtrie_update.rs:1259.
func TestTrieRootVectorA22(t *testing.T) {
	t.Parallel()
	root := rootOf(t, New(Options{}), "ff00", "0000", "ff01", "0100")
	if got, want := root.Hash().String(), "8utD1no12bD972DPzij3ydnaNGkLBRzuxGTKhbqrx39Q"; got != want {
		t.Errorf("root = %s, want %s", got, want)
	}
}

// TestTrieRootVectorA23: nearcore core/store/src/trie/mem/memtrie_update.rs:1261.
func TestTrieRootVectorA23(t *testing.T) {
	t.Parallel()
	root := rootOf(t, New(Options{}), "ff00", "0000", "ff01", "0100", "ff0101", "0101")
	if got, want := root.Hash().String(), "87gK6ZaJBgtuBLL3MZ5GB1rVKJmpJ1gYBLusRbTHyZuu"; got != want {
		t.Errorf("root = %s, want %s", got, want)
	}
}

func testRaw(t *testing.T, n RawNode, encoded string) {
	t.Helper()
	n.MemoryUsage = 42
	if got, want := hex.EncodeToString(borsh.Marshal(&n)), encoded; got != want {
		t.Errorf("encoding = %s, want %s", got, want)
	}
	var back RawNode
	if err := borsh.Unmarshal(unhex(t, encoded), &back); err != nil {
		t.Fatal(err)
	}
	if got, want := borsh.Marshal(&back), borsh.Marshal(&n); !bytes.Equal(got, want) {
		t.Errorf("decoded = %x, want %x", got, want)
	}
	if err := borsh.Unmarshal(append(unhex(t, encoded), '!'), &back); !errors.Is(err, borsh.ErrTrailing) {
		t.Errorf("trailing byte: %v, want %v", err, borsh.ErrTrailing)
	}
}

const (
	mem42   = "2a00000000000000"
	valueA  = "03000000c228081840db458456346eaf39c6a5c853edd30bc253fb21918aeae207f2ba49"
	ones32  = "0101010101010101010101010101010101010101010101010101010101010101"
	twos32  = "0202020202020202020202020202020202020202020202020202020202020202"
	zeros32 = "0000000000000000000000000000000000000000000000000000000000000000"
)

func hashOf(c byte) (h primitives.Hash) {
	for i := range h {
		h[i] = c
	}
	return h
}

func vectorValue() ValueID { return newValue([]byte{123, 245, 255}).ValueID }

func branchOf(kids map[int]byte) RawNode {
	n := RawNode{Kind: Branch}
	for i, c := range kids {
		n.Mask |= 1 << i
		n.Children[i] = hashOf(c)
	}
	return n
}

// TestLeafBytesVectorA24: nearcore core/store/src/trie/raw_node.rs:139.
func TestLeafBytesVectorA24(t *testing.T) {
	t.Parallel()
	testRaw(t, RawNode{Kind: Leaf, Key: []byte{1, 2, 3}, Value: vectorValue()}, "0003000000010203"+valueA+mem42)
}

// TestBranchBytesVectorA25: nearcore core/store/src/trie/raw_node.rs:152.
func TestBranchBytesVectorA25(t *testing.T) {
	t.Parallel()
	testRaw(t, branchOf(map[int]byte{3: 1, 5: 2}), "012800"+ones32+twos32+mem42)
}

// TestOuterChildrenVectorA26: branches with only the first or the last child, nearcore
// core/store/src/trie/raw_node.rs:165, 177.
func TestOuterChildrenVectorA26(t *testing.T) {
	t.Parallel()
	testRaw(t, branchOf(map[int]byte{0: 1}), "010100"+ones32+mem42)
	testRaw(t, branchOf(map[int]byte{15: 1}), "010080"+ones32+mem42)
}

// TestValueBranchVectorA27: nearcore core/store/src/trie/raw_node.rs:189.
func TestValueBranchVectorA27(t *testing.T) {
	t.Parallel()
	n := branchOf(map[int]byte{3: 1})
	n.Kind, n.Value = BranchWithValue, vectorValue()
	testRaw(t, n, "02"+valueA+"0800"+ones32+mem42)
}

// TestExtensionVectorA28: nearcore core/store/src/trie/raw_node.rs:200.
func TestExtensionVectorA28(t *testing.T) {
	t.Parallel()
	testRaw(t, RawNode{Kind: Extension, Key: []byte{123, 245, 255}}, "03030000007bf5ff"+zeros32+mem42)
}

// TestHexPrefixVectorA77: nearcore core/store/src/trie/nibble_slice.rs:319.
func TestHexPrefixVectorA77(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from int
		leaf bool
		want string
	}{{0, false, "00012345"}, {0, true, "20012345"}, {1, false, "112345"}, {1, true, "312345"}} {
		x := keyNibs([]byte{0x01, 0x23, 0x45}, c.from)
		enc := make([]byte, hexPrefixLen(x.n))
		putHexPrefix(enc, x, c.leaf)
		if got := hex.EncodeToString(enc); got != c.want {
			t.Errorf("nibbles from %d, leaf %v = %s, want %s", c.from, c.leaf, got, c.want)
		}
		if got := compareNibs(extNibs(enc), x); got != 0 {
			t.Errorf("decoding %s: compares as %d, want 0", c.want, got)
		}
		shifted := concat(single(7), x).from(1) // the same nibbles at another alignment
		putHexPrefix(enc, shifted, c.leaf)
		if got := hex.EncodeToString(enc); got != c.want {
			t.Errorf("shifted nibbles from %d, leaf %v = %s, want %s", c.from, c.leaf, got, c.want)
		}
	}
}
