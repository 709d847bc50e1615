package workload

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestReappliedChunksHaveTheSameResults applies every chunk of a chain of several epochs again,
// when most of its states exist only as history, with the same results, also where shards are
// split.
func TestReappliedChunksHaveTheSameResults(t *testing.T) {
	o := ChainOptions{Disk: storage.NewMemDisk(), Options: Options{Seed: 11, Accounts: 80, Shards: 4, Skew: 0.5}}
	o.EpochLength, o.Validity = 15, 30
	t.Run("shards=4", func(t *testing.T) { reapply(t, o, true) })
	o.Disk, o.Shards, o.GasLimit = storage.NewMemDisk(), 1, 20_000_000_000_000
	o.EpochLength, o.Validity = 7, 14
	o.Splitting = &Splitting{Threshold: 8_000, MinChild: 1_000, MaxShards: 6, MinEpochs: 2}
	t.Run("split", func(t *testing.T) {
		reapply(t, o, true)
		o.Disk, o.Store.FlatHeadBlocks = storage.NewMemDisk(), 1000
		reapply(t, o, false)
	})
}

func reapply(t *testing.T, o ChainOptions, fold bool) {
	c, err := OpenChain(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	gen := NewGenerator(o.Options)
	var blocks []primitives.Hash
	for range 60 {
		var txs []*primitives.SignedTransaction
		for range 25 {
			txs = append(txs, gen.Transaction(c.Base()))
		}
		a, err := c.Next(txs)
		if err != nil {
			t.Fatal(err)
		}
		blocks = append(blocks, a.Entry.Hash)
	}
	if fold {
		if err := c.Engine.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
	}
	splits := map[int]bool{}
	again, old, outcomes := 0, 0, 0
	for _, hash := range blocks {
		if c.Engine.BlockNode(hash) == nil {
			old++
		}
		at, err := c.Engine.StateAt(hash)
		if errors.Is(err, storage.ErrGone) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		splits[len(at.Shards)] = true
		for i := range at.Shards {
			if at.Height() == 1 { // on the genesis, whose state may be collected
				continue
			}
			r, err := c.Engine.Reapply(t.Context(), hash, primitives.ShardIndex(i), nil)
			if err != nil {
				t.Fatal(err)
			}
			again++
			outcomes += len(r.Outcomes)
			if want := at.Shards[i].Extra; r.OutcomeRoot != want.OutcomeRoot || r.GasUsed != want.GasUsed || r.BalanceBurnt != want.BalanceBurnt ||
				r.Congestion != want.CongestionInfo {
				t.Errorf("block %d, shard %d: outcome root %v, gas %d, burnt %v, %+v; it was %v, %d, %v, %+v", at.Height(), i,
					r.OutcomeRoot, r.GasUsed, r.BalanceBurnt, r.Congestion, want.OutcomeRoot, want.GasUsed, want.BalanceBurnt, want.CongestionInfo)
			}
		}
		at.Release()
	}
	if again < 100 || fold && old < 30 || outcomes < 1000 || o.Splitting != nil && len(splits) < 3 {
		t.Errorf("%d chunks with %d outcomes applied again, %d blocks out of memory, shards %v", again, outcomes, old, splits)
	}
}
