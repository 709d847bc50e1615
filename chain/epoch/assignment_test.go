package epoch

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// equalStakes returns n producers test00, test01, ... with equal stakes, as in nearcore's tests.
func equalStakes(n int) []primitives.ValidatorStake {
	var out []primitives.ValidatorStake
	for i := range n {
		out = append(out, primitives.ValidatorStake{AccountID: primitives.AccountID(fmt.Sprintf("test%02d", i)), Stake: primitives.Yocto(1)})
	}
	return out
}

// assignedBefore returns an EpochInfo of T+1 with the validators test00 to test19 and these lists
// of chunk producers.
func assignedBefore(lists [][]ValidatorID) *EpochInfo {
	return &EpochInfo{Validators: equalStakes(20), ChunkProducers: lists}
}

type lists = [][]ValidatorID

// TestChunkProducerListsVectorA56: nearcore shard_assignment/mod.rs:600, 625, 670, and the other
// tests of that file.
func TestChunkProducerListsVectorA56(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                            string
		producers, shards, least, limit int
		prev                            lists
		carry                           bool
		want                            lists
	}{
		{"minimal", 1, 1, 1, 1, nil, false, lists{{0}}},
		{"the only producer leaves", 1, 1, 1, 0, lists{{1}}, true, lists{{0}}},
		{"repeats", 3, 3, 2, 0, lists{{0, 1, 2}, {0, 1, 2}, {3, 4, 5}}, true, lists{{0, 1}, {1, 0}, {2, 0}}},
		{"reassignment", 4, 4, 1, 0, lists{{0, 1, 2}, {3}, {}, {}}, true, lists{{0}, {3}, {1}, {2}}},
		{"stable", 4, 2, 1, 1, lists{{2, 3}, {0, 1}}, true, lists{{2, 3}, {0, 1}}},
		{"limit", 6, 3, 1, 1, lists{{0, 1, 2, 3}, {4}, {5}}, true, lists{{0, 1, 3}, {2, 4}, {5}}},
		{"empty start", 10, 3, 1, 1, nil, false, lists{{0, 3, 6, 9}, {1, 4, 7}, {2, 5, 8}}},
		{"imperfect", 7, 3, 1, 5, lists{{0, 1, 2, 3, 4}, {5}, {6}}, true, lists{{0, 1, 4}, {3, 5}, {2, 6}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := &Config{MinimumValidatorsPerShard: uint64(c.least), ChunkProducerAssignmentChanges: uint64(c.limit)}
			got, err := assignChunkProducers(equalStakes(c.producers), c.shards, config, primitives.Hash{},
				assignmentStrategy{carryOver: c.carry}, assignedBefore(c.prev))
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// TestAssignmentBalancesAfterFiveEpochs repeats nearcore's shard_assignment/mod.rs:758: with two
// changes per epoch, the lists are balanced after five epochs.
func TestAssignmentBalancesAfterFiveEpochs(t *testing.T) {
	t.Parallel()
	current := lists{{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {11, 12, 13, 14}, {}}
	config := &Config{MinimumValidatorsPerShard: 1, ChunkProducerAssignmentChanges: 2}
	for range 5 {
		next, err := assignChunkProducers(equalStakes(15), 3, config, primitives.Hash{}, assignmentStrategy{carryOver: true}, assignedBefore(current))
		if err != nil {
			t.Fatal(err)
		}
		current = next
	}
	for s, l := range current {
		if len(l) != 5 {
			t.Errorf("shard %d has %v, want five producers", s, l)
		}
	}
}

// TestChildShardAssignmentVectorA83: nearcore shard_assignment/sticky_resharding.rs:239-345.
func TestChildShardAssignmentVectorA83(t *testing.T) {
	t.Parallel()
	pack := func(amounts ...uint64) lists {
		vs := stakes("test0", amounts...)
		var all []ValidatorID
		for i := range vs {
			all = append(all, ValidatorID(i))
		}
		out := make(lists, 21)
		packIntoChildren(out, all, []int{20, 10}, vs)
		return lists{out[10], out[20]}
	}
	for _, c := range []struct {
		name    string
		amounts []uint64
		want    lists
	}{
		{"no validators", nil, lists{nil, nil}},
		{"one", []uint64{100}, lists{{0}, nil}},
		{"equal stakes alternate", []uint64{10, 10, 10, 10}, lists{{0, 2}, {1, 3}}},
		{"a whale alone", []uint64{100, 10, 10, 10}, lists{{0}, {1, 2, 3}}},
		{"balanced", []uint64{100, 70, 60, 50}, lists{{0, 3}, {1, 2}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := pack(c.amounts...); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}

	layout := func(boundaries []primitives.AccountID, ids ...primitives.ShardID) primitives.ShardLayout {
		l, err := primitives.NewShardLayoutV2(boundaries, ids, nil)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	derive := func(l primitives.ShardLayout, boundary primitives.AccountID) primitives.ShardLayout {
		next, err := l.DeriveV2(boundary)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	config := &Config{MinimumValidatorsPerShard: 1}
	for _, c := range []struct {
		name      string
		prev      primitives.ShardLayout
		boundary  primitives.AccountID
		producers int
		before    lists
		want      map[primitives.ShardID][]ValidatorID // the lists that do not depend on chance
	}{
		{"split of shard 1", layout([]primitives.AccountID{"mm"}, 0, 1), "tt", 6, lists{{0, 1}, {2, 3, 4, 5}},
			map[primitives.ShardID][]ValidatorID{0: {0, 1}, 2: {2, 4}, 3: {3, 5}}},
		{"others keep theirs", layout([]primitives.AccountID{"bb", "mm", "tt"}, 0, 1, 2, 3), "hh", 8, lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}},
			map[primitives.ShardID][]ValidatorID{0: {0, 1}, 2: {4, 5}, 3: {6, 7}, 4: {2}, 5: {3}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			next := derive(c.prev, c.boundary)
			got, err := assignChunkProducers(equalStakes(c.producers), next.NumShards(), config, primitives.Hash{},
				selectStrategy(86, c.prev, next), assignedBefore(c.before))
			if err != nil {
				t.Fatal(err)
			}
			for i, id := range next.ShardIDs() {
				if !reflect.DeepEqual(got[i], c.want[id]) {
					t.Errorf("shard %d has %v, want %v", id, got[i], c.want[id])
				}
			}
		})
	}

	// Without a derived layout, and with the rules before version 85, the lists start empty.
	other := layout([]primitives.AccountID{"aa", "bb"}, 2, 3, 4)
	base := layout([]primitives.AccountID{"aa"}, 0, 1)
	if s := selectStrategy(86, base, other); s.carryOver || s.children != nil {
		t.Errorf("strategy for unrelated layouts = %+v, want a fresh start", s)
	}
	if s := selectStrategy(84, base, derive(base, "bb")); s.carryOver || s.children != nil {
		t.Errorf("strategy at 84 = %+v, want a fresh start", s)
	}
	if s := selectStrategy(86, base, base); !s.carryOver {
		t.Errorf("strategy for equal layouts = %+v, want to carry over", s)
	}
}
