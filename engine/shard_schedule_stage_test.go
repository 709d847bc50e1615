package engine

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// TestShardIsKeptUntilHandedOver: a shard that is no longer needed stays held until the new epoch
// contains a chunk of it, because until then perhaps no other node has its state.
func TestShardIsKeptUntilHandedOver(t *testing.T) {
	p := newCatchupPair(t)
	wanted := true
	s := NewSchedule(p.maker.Engine, func(_ *BlockNode, shard primitives.ShardID) (bool, bool) {
		return wanted || shard == p.ids[0], wanted || shard == p.ids[0]
	}, nil)
	defer s.Close()
	step := func(want bool) {
		t.Helper()
		if err := p.maker.AdvanceFlatHead(); err != nil {
			t.Fatal(err)
		}
		if settled, err := p.maker.Settled(); err != nil || !settled {
			t.Fatalf("the shards are not settled: %v", err)
		}
		if err := s.Step(); err != nil {
			t.Fatal(err)
		}
		if held := p.maker.Tip().Shards[1].Held(); held != want {
			t.Fatalf("at %d the shard is held: %v, want %v", p.maker.Tip().Height(), held, want)
		}
	}
	p.blocks(6, func(int) bool { return false })
	step(true)
	first := p.maker.Tip().Header().EpochID
	for i := 0; p.maker.flatHead.Header().EpochID == first; i++ { // its chunks are missing over the end of the epoch
		if i == 40 {
			t.Fatal("no other epoch")
		}
		p.blocks(1, func(int) bool { return true })
		step(true)
	}
	wanted = false
	step(true)
	p.blocks(4, func(int) bool { return false })
	p.maker.removalsRunning.Add(1) // while rows of another shard are being removed, no shard is untracked
	step(true)
	p.maker.removalsRunning.Add(-1)
	step(false)
}

// TestNodeStartsWithTrackedAndAssignedShards: a node starts with the tracked shards and those of
// its validator. In a chain of two validators and two shards a validator has one shard.
func TestNodeStartsWithTrackedAndAssignedShards(t *testing.T) {
	g := testGenesis(t, "aa", "bb")
	g.Config.NumChunkProducerSeats = 2
	none := func(primitives.ShardLayout, primitives.ShardID) bool { return false }
	held := map[primitives.ShardID]int{}
	for _, of := range [][]primitives.AccountID{nil, {"aa"}, {"bb"}, {"aa", "bb"}} {
		n, err := openChanged(t, g, storage.NewMemDisk(), storage.Options{}, func(o *Options) { o.Tracks, o.Scheduled, o.Assigned = none, true, of })
		if err != nil {
			t.Fatal(err)
		}
		count, plan := 0, n.PlanOwn()
		for i := range n.Tip().Shards {
			s := &n.Tip().Shards[i]
			now, next := plan(n.Tip(), s.ID)
			if s.Held() != (now || next) {
				t.Errorf("%v: shard %d is held: %v, want %v or %v", of, s.ID, s.Held(), now, next)
			}
			if s.Held() {
				count++
				if len(of) == 1 {
					held[s.ID]++
				}
			}
		}
		if len(of) != 1 && count != len(of) {
			t.Errorf("%v: got %d held shards", of, count)
		}
	}
	if len(held) != 2 {
		t.Errorf("held shards of the two validators: %v, want one each", held)
	}
}
