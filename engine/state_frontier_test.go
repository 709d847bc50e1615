package engine

import (
	"bytes"
	"fmt"
	"iter"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// TestFrontierRowsAreCompleteAndSorted: the frontier of a state that was built from pairs is
// complete, and is yielded in key order, so that the store's tables do not overlap.
func TestFrontierRowsAreCompleteAndSorted(t *testing.T) {
	var pairs iter.Seq2[[]byte, []byte] = func(yield func(k, v []byte) bool) {
		for i := range 20_000 {
			if i/1000%3 == 0 && i%300 != 0 {
				continue // leaves few keys: their entry is added after those of larger subtrees beside it
			}
			n := 1
			if i%100 == 0 {
				n = 3000
			}
			if !yield(fmt.Appendf(nil, "%05d", i), bytes.Repeat([]byte{byte(i)}, n)) {
				return
			}
		}
	}
	var rows frontierRows
	want := map[string]storage.FrontierNode{}
	_, err := trie.New(trie.Options{}).BuildFrontier(pairs, 0, func(level int, e *trie.FrontierEntry) {
		rows.add(level, e)
		s := storedNode(level, e)
		s.Path = bytes.Clone(s.Path)
		want[fmt.Sprint(level, s.Path)] = s
	})
	if err != nil {
		t.Fatal(err)
	}
	last, n := storage.FrontierNode{}, 0
	rows.each(7, func(c storage.FrontierChange) bool {
		if n > 0 && (c.Level < last.Level || c.Level == last.Level && bytes.Compare(c.Path, last.Path) <= 0) {
			t.Fatalf("entry %d %x behind %d %x", c.Level, c.Path, last.Level, last.Path)
		}
		w := want[fmt.Sprint(c.Level, c.Path)]
		if c.Shard != 7 || c.Removed || c.Hash != w.Hash || c.MemoryUsage != w.MemoryUsage || c.Level != w.Level || w.Hash == (primitives.Hash{}) {
			t.Fatalf("entry %+v, want %+v", c, w)
		}
		last, n = c.FrontierNode, n+1
		return true
	})
	if n != len(want) || n < 1000 {
		t.Errorf("%d entries, want %d", n, len(want))
	}
	n = 0
	if rows.each(7, func(storage.FrontierChange) bool { n++; return n < 3 }) || n != 3 {
		t.Errorf("%d entries, want 3 until yield returned false", n)
	}
}
