package epoch

import (
	"cmp"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// assignmentStrategy says how the chunk producers of T+1 seed those of T+2. The zero value starts without any.
type assignmentStrategy struct {
	carryOver bool // the layouts are equal: keep lists by shard index
	// children holds for each shard index of T+1's layout the indices of the shards it becomes: sticky over a split.
	children [][]int
}

// selectStrategy picks the strategy for an epoch boundary (nearcore shard_assignment/mod.rs:171). A new layout that was
// not derived from the old one starts afresh.
func selectStrategy(version primitives.ProtocolVersion, prev, next primitives.ShardLayout) assignmentStrategy {
	if prev.Equal(next) {
		return assignmentStrategy{carryOver: true}
	}
	if version < dynamicReshardingVersion {
		return assignmentStrategy{}
	}
	return stickyStrategy(prev, next)
}

// assignChunkProducers gives each shard its chunk producers, as ids (= places in producers, which are in stake order)
// (nearcore shard_assignment/mod.rs:409).
func assignChunkProducers(producers []primitives.ValidatorStake, numShards int, c *Config, seed primitives.Hash,
	strategy assignmentStrategy, prev *EpochInfo,
) ([][]ValidatorID, error) {
	least := int(min(c.MinimumValidatorsPerShard, 1<<32))
	if len(producers) < least {
		return nil, ErrNotEnoughValidators
	}
	if len(producers) < least*numShards {
		return assignWithRepeats(producers, numShards, least), nil
	}
	limit := int(min(c.ChunkProducerAssignmentChanges, 1<<32))
	if strategy.children != nil { // fresh children come with half their people: let them fill up in one go
		limit = max(limit, len(producers)/numShards)
	}
	start := initialAssignment(producers, numShards, strategy, prev)
	return balanceShards(start, len(producers), least, limit, shardAssignmentRng(seed)), nil
}

// assignWithRepeats deals the producers round and round until every shard has least of them, each to the shard with the
// fewest that lacks it; ties go to less stake, then to the lower index (nearcore shard_assignment/mod.rs:60).
func assignWithRepeats(producers []primitives.ValidatorStake, numShards, least int) [][]ValidatorID {
	lists := make([][]ValidatorID, numShards)
	stakes := make([]primitives.Balance, numShards)
	order := make([]int, numShards)
	for i := range order {
		order[i] = i
	}
	for turn := 0; ; turn++ {
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Or(cmp.Compare(len(lists[a]), len(lists[b])), stakes[a].Cmp(stakes[b]), cmp.Compare(a, b))
		})
		if len(lists[order[0]]) >= least {
			return lists
		}
		id := ValidatorID(turn % len(producers))
		for _, s := range order {
			if len(lists[s]) >= least {
				break // nobody else needs one: this producer sits out
			}
			if !slices.Contains(lists[s], id) {
				lists[s] = append(lists[s], id)
				stakes[s] = stakes[s].SaturatingAdd(producers[id].Stake)
				break
			}
		}
	}
}

// initialAssignment carries the lists of T+1 over, without those who are chunk producers no more.
func initialAssignment(producers []primitives.ValidatorStake, numShards int, strategy assignmentStrategy, prev *EpochInfo) [][]ValidatorID {
	lists := make([][]ValidatorID, numShards)
	if !strategy.carryOver && strategy.children == nil {
		return lists
	}
	index := make(map[primitives.AccountID]ValidatorID, len(producers))
	for i := range producers {
		index[producers[i].AccountID] = ValidatorID(i)
	}
	for shard, old := range prev.ChunkProducers {
		var stay []ValidatorID
		for _, id := range old {
			if now, ok := index[prev.Validators[id].AccountID]; ok {
				stay = append(stay, now)
			}
		}
		switch {
		case strategy.carryOver && shard < numShards:
			lists[shard] = stay
		case strategy.children != nil && shard < len(strategy.children):
			packIntoChildren(lists, stay, strategy.children[shard], producers)
		}
	}
	return lists
}

// balanceShards adds the new producers to the shortest lists and then moves old ones from the longest to the shortest
// until every list has least and either they differ by at most one or limit changes were made, the new ones counted
// (nearcore shard_assignment/mod.rs:287). Lists are returned in stake order.
func balanceShards(lists [][]ValidatorID, producers, least, limit int, rng *primitives.ChaChaRng) [][]ValidatorID {
	shorter := func(a, b int) int { return cmp.Or(cmp.Compare(len(lists[a]), len(lists[b])), cmp.Compare(a, b)) }
	order := make([]int, len(lists))
	assigned := make([]bool, producers)
	for s := range lists {
		order[s] = s
		for _, id := range lists[s] {
			assigned[id] = true
		}
	}
	changes := 0
	for id, old := range assigned {
		if !old {
			s := slices.MinFunc(order, shorter)
			lists[s] = append(lists[s], ValidatorID(id))
			changes++
		}
	}
	for {
		lo, hi := slices.MinFunc(order, shorter), slices.MaxFunc(order, shorter)
		if len(lists[lo]) >= least && (len(lists[hi])-len(lists[lo]) <= 1 || changes >= limit) {
			break
		}
		// There are enough producers and no repeats, so the longest list is longer than the shortest.
		i, last := int(rng.UniformUint64(uint64(len(lists[hi])))), len(lists[hi])-1
		moved := lists[hi][i]
		lists[hi][i] = lists[hi][last]
		lists[hi] = lists[hi][:last]
		lists[lo] = append(lists[lo], moved)
		changes++
	}
	for s := range lists {
		slices.Sort(lists[s])
	}
	return lists
}
