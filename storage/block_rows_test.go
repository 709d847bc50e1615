package storage

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestRowOfHeadsBranchWins: if blocks of several branches put a row with the same name, readers get
// the row of the head's branch, whichever block was committed last. A row that only one branch has
// is found on any branch. The rows of an abandoned branch are removed.
func TestRowOfHeadsBranchWins(t *testing.T) {
	disk := NewMemDisk()
	s, err := OpenMemory(disk, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	g := BlockRef{1, hashOf("g")}
	if err := s.Import(&Block{Ref: g, Epoch: hashOf("epoch"), Head: true}, nil, func(func(Pair) error) error { return nil }); err != nil {
		t.Fatal(err)
	}
	shared := hashOf("shared")
	block := func(name string, h primitives.Height, prev BlockRef, head bool, final BlockRef) BlockRef {
		b := &Block{Ref: BlockRef{h, hashOf(name)}, Prev: prev, Ordinal: uint64(h), Epoch: hashOf("epoch"), Head: head, Final: final, Puts: new(Batch)}
		start := Uint64(h)
		EpochStart.Put(b.Puts, shared, &start)
		EpochStart.Put(b.Puts, b.Ref.Hash, &start)
		if err := s.Commit(b); err != nil {
			t.Fatal(err)
		}
		return b.Ref
	}
	want := func(when string, height primitives.Height, there ...BlockRef) {
		t.Helper()
		if got, err := EpochStart.Get(s.Reader(), shared); err != nil || got != Uint64(height) {
			t.Errorf("%s: the shared row is of height %d, %v, want %d", when, got, err, height)
		}
		for _, ref := range there {
			if got, err := EpochStart.Get(s.Reader(), ref.Hash); err != nil || got != Uint64(ref.Height) {
				t.Errorf("%s: row of block %v = %d, %v", when, ref, got, err)
			}
		}
	}
	reopen := func() {
		_ = s.Close()
		if s, err = OpenMemory(disk, testOptions()); err != nil {
			t.Fatal(err)
		}
	}
	a := block("a", 2, g, true, BlockRef{})
	b := block("b", 3, g, false, BlockRef{}) // another branch, which came last
	want("beside", 2, a, b)
	reopen()
	want("beside, opened", 2, a, b)
	c := block("c", 4, b, true, BlockRef{}) // now that branch has the head
	want("the other wins", 4, a, b, c)
	d := block("d", 5, a, false, BlockRef{})
	want("the first goes on", 4, a, b, c, d)
	e := block("e", 6, c, true, c)
	if err := s.AdvanceFlatHead(c, nil); err != nil {
		t.Fatal(err)
	}
	want("folded", 6, b, c, e)
	f := block("f", 7, c, false, BlockRef{}) // beside the head, above the flat head
	want("beside again", 6, f)
	if _, err := EpochStart.Get(s.Reader(), a.Hash); !errors.Is(err, ErrNotFound) {
		t.Errorf("row of a block that lost: %v", err)
	}
	reopen()
	defer func() { _ = s.Close() }()
	want("at the end", 6, b, c, e, f)
}
