package replay

import (
	"slices"
	"sync"
	"testing"
)

// par runs f on its own goroutines, as a node does.
func par(n int, do func(int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// TestModesAgree: the same chain run serially, in parallel, and with a restart in the middle gives the same roots.
func TestModesAgree(t *testing.T) {
	for name := range cuts {
		rec, err := Open("testdata/" + name + ".jsonl.gz")
		if err != nil {
			t.Fatal(err)
		}
		if all() {
			rec = openShared(t, name+".jsonl.gz")
		}
		middle := rec.Blocks[len(rec.Blocks)/2].Given.Header.Height
		var first *Report
		for mode, o := range map[string]Options{"serial": {}, "parallel": {Par: par}, "restart": {RestartAt: middle}} {
			report, err := Run(rec, o)
			if err != nil {
				t.Fatalf("%s %s: %v", name, mode, err)
			}
			for _, d := range report.Findings {
				t.Errorf("%s %s: %v", name, mode, d)
			}
			if first == nil {
				first = report
			}
			if !slices.Equal(report.Roots, first.Roots) {
				t.Errorf("%s: %s gives other state roots", name, mode)
			}
		}
	}
}
