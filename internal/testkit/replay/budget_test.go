package replay

import (
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// TestTinyMemoryBudgetChangesNoResult: with a memory budget of 1 MiB for the tries, and with a tiny
// one and small subtrees that are evicted at nearly every advance of the flat head and loaded
// again, a chain has the same results as with all tries in memory. Freed memory is filled with a
// pattern.
func TestTinyMemoryBudgetChangesNoResult(t *testing.T) {
	for _, name := range chains("four", "reshard") {
		rec := openCut(t, name)
		run := func(o Options) *Report {
			disk := storage.NewMemDisk()
			o.Open = func(so storage.Options) (*storage.Store, error) {
				so.FlatHeadBlocks, so.StaleReadSize, so.WriteBuffer = 3, 1, 64<<10 // loads read an index of before
				return storage.OpenMemory(disk, so)
			}
			o.EpochConfig = epochConfigs(t, name)
			report, err := Run(rec, o)
			if err != nil {
				t.Fatalf("%s: error %v", name, err)
			}
			for _, d := range report.Findings {
				t.Errorf("%s: difference %v", name, d)
			}
			return report
		}
		small := trie.Options{Frontier: 512, Poison: true}
		all := run(Options{Tries: small})
		for _, o := range []Options{
			{StateBytes: 1 << 20, Tries: trie.Options{Poison: true}, Par: par},
			{StateBytes: 1 << 20, Tries: small},
			{StateBytes: 1, Tries: small, Par: par},
			{StateBytes: 1, Tries: small, Restart: atBorders(rec)},
		} {
			got := run(o)
			if !slices.Equal(got.Roots, all.Roots) {
				t.Errorf("%s: a budget of %d gives other state roots", name, o.StateBytes)
			}
			t.Logf("%s: %d bytes have left under a budget of %d", name, got.Evicted, o.StateBytes)
			if all.Evicted != 0 || o.StateBytes == 1 && got.Evicted == 0 {
				t.Errorf("%s: %d bytes evicted under a budget of %d, %d without one", name, got.Evicted, o.StateBytes, all.Evicted)
			}
		}
	}
}
