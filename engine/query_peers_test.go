package engine

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestPeerWithLocatorGetsHeadersUpToHead: WholeBlock, FindChunk and HeadersAfter return data below
// and above the flat head. A peer that requests headers with its locator gets them from the last
// common block on, and so reaches the head from any state.
func TestPeerWithLocatorGetsHeadersUpToHead(t *testing.T) {
	g := testGenesis(t, "aa", "bb", "cc")
	maker, n := openNode(t, g), openNode(t, g)
	var list []*primitives.Block
	var bodies [][]*primitives.Chunk
	for len(list) < 60 {
		height := maker.Head().Height() + 1
		if len(list)%7 == 3 {
			height++ // a skipped height
		}
		b, chunks := maker.make(maker.Head().Hash, height, false)
		maker.accept(b, chunks)
		list, bodies = append(list, b), append(bodies, chunks)
		if len(list) == 40 {
			if err := maker.AdvanceFlatHead(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if folded := maker.store.Tip().FlatHead.Height; folded < 20 {
		t.Fatalf("flat head at %d, want 20 or more", folded)
	}
	for i, b := range list {
		got, err := maker.WholeBlock(b.Hash())
		if err != nil || !bytes.Equal(got.AppendBorsh(nil), b.AppendBorsh(nil)) {
			t.Fatalf("block %d: %v", i, err)
		}
		for _, c := range bodies[i] {
			if c == nil {
				continue
			}
			if got := maker.FindChunk(c.Hash); got == nil || !bytes.Equal(got.ChunkBody.AppendBorsh(nil), c.ChunkBody.AppendBorsh(nil)) {
				t.Fatalf("chunk of block %d: %v", i, got)
			}
		}
	}
	if _, err := maker.WholeBlock(primitives.Hash{1}); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("no block: %v", err)
	}
	if c := maker.FindChunk(primitives.Hash{1}); c != nil {
		t.Errorf("no chunk: %v", c)
	}
	for _, tt := range []struct {
		locator []primitives.Hash
		first   int // index in list of the first returned header; -1: none is returned
	}{
		{[]primitives.Hash{maker.Genesis().Hash}, 0},
		{[]primitives.Hash{{1}, list[9].Hash(), maker.Genesis().Hash}, 10},
		{[]primitives.Hash{list[50].Hash()}, 51},
		{[]primitives.Hash{list[59].Hash(), list[3].Hash()}, 60},
		{[]primitives.Hash{{1}}, -1},
		{nil, -1},
	} {
		for _, most := range []int{1, 25, 512} {
			got, err := maker.HeadersAfter(tt.locator, most)
			want := 0
			if tt.first >= 0 {
				want = min(most, len(list)-tt.first)
			}
			if err != nil || len(got) != want || want > 0 && got[want-1].Hash() != list[tt.first+want-1].Hash() {
				t.Fatalf("behind %v, %d: %d headers, %v; want %d", tt.locator, most, len(got), err, want)
			}
		}
	}

	// The second node imports some blocks first. Then it receives headers in responses of 7, then
	// the blocks of those headers.
	for i := range 5 {
		n.accept(list[i], bodies[i])
	}
	if path, err := n.HeaderChain().Path(); err != nil || len(path) != 0 {
		t.Errorf("path %v, %v", path, err)
	}
	for range 20 {
		path, err := n.HeaderChain().Path()
		if err != nil {
			t.Fatal(err)
		}
		locator := n.Locator(path, 20)
		if len(locator) > 20 || locator[len(locator)-1] != n.Genesis().Hash || len(slices.Compact(slices.Clone(locator))) != len(locator) {
			t.Fatalf("locator of %d: %v", len(locator), locator)
		}
		heads, err := maker.HeadersAfter(locator, 7)
		if err != nil {
			t.Fatal(err)
		}
		if len(heads) == 0 {
			break
		}
		if taken, err := n.HeaderChain().Add(heads); err != nil || taken != len(heads) {
			t.Fatalf("%d of %d taken: %v", taken, len(heads), err)
		}
	}
	path, err := n.HeaderChain().Path()
	if err != nil || len(path) != 55 {
		t.Fatalf("path of %d, %v", len(path), err)
	}
	for i, r := range path {
		if r.Hash != list[5+i].Hash() || r.Height != list[5+i].Header.Height {
			t.Fatalf("path %d is %v", i, r)
		}
		n.accept(list[5+i], bodies[5+i])
	}
	if path, err := n.HeaderChain().Path(); err != nil || len(path) != 0 {
		t.Errorf("path at the end %v, %v", path, err)
	}
}
