package workload

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/troupe-chain/troupe/engine"
)

// TestSplits: what TestWorkloads asks for holds on chains whose shards are split, with forks, skipped heights and missing
// chunks at the borders, receipts of all kinds on their way over them, and restarts in between.
func TestSplits(t *testing.T) {
	n, blocks := 8, 110
	if full() {
		n = 100
	}
	if testing.Short() || racing {
		n, blocks = 3, 60
	}
	var splits, waiting atomic.Int64
	t.Run("seed", func(t *testing.T) {
		for seed := range uint64(n) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				statuses := map[string]int{}
				o, course := RandomSplits(seed, blocks)
				runWorkload(t, o, course, statuses)
				splits.Add(int64(statuses["splits"]))
				waiting.Add(int64(statuses["over a split"]))
			})
		}
	})
	t.Logf("%d splits, %d with delayed, buffered or late receipts", splits.Load(), waiting.Load())
	if splits.Load() < int64(2*n) || !testing.Short() && !racing && waiting.Load() == 0 {
		t.Errorf("%d splits, %d of them with receipts that wait: the workload does not reach what it should", splits.Load(), waiting.Load())
	}
}

// countSplits counts the shards that end with a block's parent, and those of them that leave receipts behind.
func countSplits(statuses map[string]int, at, parent *engine.Entry) {
	for i := range parent.Shards {
		s := &parent.Shards[i]
		if at.Layout.Has(s.ID) {
			continue
		}
		statuses["splits"]++
		x := &s.Extra.CongestionInfo
		if !x.DelayedReceiptsGas.IsZero() || !x.BufferedReceiptsGas.IsZero() || s.Chunk == nil {
			statuses["over a split"]++
		}
	}
}
