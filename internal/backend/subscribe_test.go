package backend

import (
	"encoding/binary"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestParents: of so many blocks as are kept it is known where they came from, of the last ones.
func TestParents(t *testing.T) {
	var p parents
	hash := func(i int) (h primitives.Hash) {
		binary.BigEndian.PutUint32(h[:], uint32(i))
		return h
	}
	const n = 3*keptParents + 7
	for i := 1; i < n; i++ {
		for range 2 { // many tell the same
			p.put(hash(i), view.At{Height: primitives.Height(i - 1), Hash: hash(i - 1)})
		}
	}
	if len(p.of) != keptParents || len(p.ring) != keptParents {
		t.Errorf("%d and %d are kept, want %d", len(p.of), len(p.ring), keptParents)
	}
	for i := range n {
		at, ok := p.get(hash(i))
		if want := i >= n-keptParents; ok != want || ok && at.Hash != hash(i-1) {
			t.Fatalf("of block %d: %v %v", i, at, ok)
		}
	}
}
