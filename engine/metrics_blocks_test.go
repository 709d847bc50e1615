package engine

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestImportsAreMeasured: each attempt counts. Only valid blocks have a time of preprocessing, and only
// imported ones a time of postprocessing.
func TestImportsAreMeasured(t *testing.T) {
	n := openNode(t, testGenesis(t, "aa"))
	b, chunks := n.make(n.Head().Hash, 1, false)
	if _, err := n.BeginImport(b, make([]*primitives.Chunk, len(chunks)), false); !errors.Is(err, ErrMissing) {
		t.Fatalf("without chunks: %v", err)
	}
	p, err := n.BeginImport(b, chunks, false)
	if err != nil {
		t.Fatal(err)
	}
	m := &n.times.Imports
	if a, pre, post := m.Value(blockAttempts), m.Count(preprocessTime), m.Count(postprocessTime); a != 2 || pre != 1 || post != 0 {
		t.Errorf("%d attempts, times of %d validated and %d imported blocks, want 2, 1 and 0", a, pre, post)
	}
	for i := range p.Jobs() {
		p.Jobs()[i].Run()
	}
	if _, err := n.Commit(p); err != nil {
		t.Fatal(err)
	}
	if _, err := n.BeginImport(b, chunks, false); !errors.Is(err, ErrKnown) {
		t.Fatalf("again: %v", err)
	}
	if a, pre, post := m.Value(blockAttempts), m.Count(preprocessTime), m.Count(postprocessTime); a != 3 || pre != 1 || post != 1 {
		t.Errorf("%d attempts, times of %d validated and %d imported blocks, want 3, 1 and 1", a, pre, post)
	}
}
