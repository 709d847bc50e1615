package workload

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// TestSplitWorkloadsLoseNoToken: the properties of TestWorkloadsLoseNoToken hold on chains whose
// shards are split, with forks, skipped heights and missing chunks at the boundaries, receipts of
// all kinds in transit, and restarts in between.
func TestSplitWorkloadsLoseNoToken(t *testing.T) {
	n, blocks := 8, 110
	if full() {
		n = 40
	}
	if testing.Short() || testutil.Racing {
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
	if splits.Load() < int64(2*n) || !testing.Short() && !testutil.Racing && waiting.Load() == 0 {
		t.Errorf("%d splits, %d of them with receipts that wait: the workload does not reach what it should", splits.Load(), waiting.Load())
	}
}

// TestConfiguredLayoutSplitsShard: a protocol version with a configured layout of one more shard
// splits a shard when it takes effect.
func TestConfiguredLayoutSplitsShard(t *testing.T) {
	for seed, at := range []primitives.AccountID{"c0", "j5.w", "w1"} {
		o, course := RandomSplits(uint64(seed), 45)
		o.Splitting = &Splitting{Static: at}
		statuses := map[string]int{}
		runWorkload(t, o, course, statuses)
		if statuses["splits"] == 0 {
			t.Errorf("seed %d: no split", seed)
		}
	}
}

// TestUnloadedShardsAreSplit: shards are split whose subtrees are only on disk. These are loaded
// from disk, from the parent shard in memory, or from history. The background verification after a
// start runs meanwhile and finds no fault. The results are those without restarts.
func TestUnloadedShardsAreSplit(t *testing.T) {
	blocks := 160
	o := ChainOptions{Options: Options{Seed: 5, Accounts: 3000, Shards: 1, Skew: 0.5, OneKey: true}}
	o.EpochLength, o.Validity = 9, 18
	o.Splitting = &Splitting{Threshold: 100_000, MinChild: 20_000, MaxShards: 9, MinEpochs: 1}
	o.Store.FlatHeadBlocks = 3
	course := Course{Blocks: blocks, PerStep: 6}
	run := func(restarts bool) (prints []primitives.Hash, splits int) {
		c, err := OpenChain(o)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		script := NewScript(c, course)
		var check *engine.Verification
		for i := range blocks {
			m, err := script.Step()
			if err != nil {
				t.Fatalf("block %d: %v", i, err)
			}
			at := m.Accepted.Entry
			prints = append(prints, Fingerprint(at))
			if !at.Layout.Equal(script.Find(at.Header().PrevHash).Layout) {
				splits++
			}
			if check != nil && (i%17 == 5 || i%17 == 15) { // a little at once, the rest when folds have passed by
				for done, n := false, 0; !done && (i%17 == 15 || n < 2); n++ {
					if done, err = check.Step(2); err != nil {
						t.Fatalf("block %d: %v", i, err)
					}
				}
			}
			if restarts && (i%7 == 3 && i < 30 || i%17 == 3) {
				if check != nil {
					check.Stop()
				}
				if err := c.Restart(); err != nil {
					t.Fatalf("restart after block %d: %v", i, err)
				}
				check = c.Engine.Verify()
			}
		}
		if check != nil {
			for done := false; !done; {
				if done, err = check.Step(5); err != nil {
					t.Fatal(err)
				}
			}
		}
		return prints, splits
	}
	want, splits := run(false)
	if splits < 3 {
		t.Fatalf("%d splits", splits)
	}
	got, _ := run(true)
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("block %d: other results with restarts", i)
		}
	}
}

// countSplits counts the shards that end with a block's parent, and those of them with remaining
// receipts.
func countSplits(statuses map[string]int, at, parent *engine.BlockNode) {
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
