package replay

import (
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// par runs f on its own goroutines, as a node does.
func par(n int, do func(int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// atBorders calls a function for every block shortly before or after a change of the number of
// shards, and for some others.
func atBorders(rec *Recording) func(primitives.Height) bool {
	near := map[primitives.Height]bool{}
	for i := 1; i < len(rec.Blocks); i++ {
		a, b := &rec.Blocks[i-1].Given, &rec.Blocks[i].Given
		for d := primitives.Height(0); len(a.Chunks) != len(b.Chunks) && d < 8; d++ {
			near[a.Header.Height-3+d] = true
		}
	}
	return func(h primitives.Height) bool { return near[h] || h%97 == 0 }
}

// chains returns the recordings for a test: all, or the named ones if the race detector makes all
// too slow.
func chains(few ...string) []string {
	if testutil.Racing {
		return few
	}
	return slices.Sorted(maps.Keys(cuts))
}

// TestExecutionModesHaveTheSameRoots: the same chain run serially, in parallel, and with restarts
// in the middle and at every step over a split gives the same roots.
func TestExecutionModesHaveTheSameRoots(t *testing.T) {
	for _, name := range chains("four", "storm") {
		rec := openCut(t, name)
		if all() && name != "storm" { // takes a minute each time; TestWholeRecordingsReplay runs it
			rec = openShared(t, name+".jsonl.gz")
		}
		middle := rec.Blocks[len(rec.Blocks)/2].Given.Header.Height
		var first *Report
		for mode, o := range map[string]Options{"serial": {}, "parallel": {Par: par}, "restart": {RestartAt: middle}, "restarts": {Restart: atBorders(rec), Par: par}} {
			o.EpochConfig = epochConfigs(t, name)
			report, err := Run(rec, o)
			if err != nil {
				t.Fatalf("%s %s: error %v", name, mode, err)
			}
			for _, d := range report.Findings {
				t.Errorf("%s %s: difference %v", name, mode, d)
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
