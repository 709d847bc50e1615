package epoch

import (
	"cmp"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// assignmentStrategy determines the initial lists of chunk producers for epoch T+2. The zero value
// means empty lists.
type assignmentStrategy struct {
	carryOver bool // the layouts are equal, so each shard index starts with its list of T+1
	// children contains, for each shard index in T+1's layout, the indices of the shard's children
	// in T+2's layout. The shard's producers are distributed among its children.
	children [][]int
}

// selectStrategy returns the strategy for an epoch boundary (nearcore shard_assignment/mod.rs:171).
// If the layout next is not derived from the layout prev, the lists start empty.
func selectStrategy(version primitives.ProtocolVersion, prev, next primitives.ShardLayout) assignmentStrategy {
	if prev.Equal(next) {
		return assignmentStrategy{carryOver: true}
	}
	if version < dynamicReshardingVersion {
		return assignmentStrategy{}
	}
	return stickyStrategy(prev, next)
}

// assignChunkProducers assigns chunk producers to each shard. The results are IDs: indices into
// producers, which are in stake order (nearcore shard_assignment/mod.rs:409).
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
	if strategy.children != nil { // each child starts with half of the producers; fill its list in one epoch
		limit = max(limit, len(producers)/numShards)
	}
	start := initialAssignment(producers, numShards, strategy, prev)
	return balanceShards(start, len(producers), least, limit, shardAssignmentRng(seed)), nil
}

// assignWithRepeats assigns producers in turn, repeatedly, until each shard has `least` of them.
// Each producer goes to the shard with the fewest producers among those that do not have it yet.
// Among shards with equally few producers, the producer goes to the shard with the least stake, and
// then to the shard with the lowest index (nearcore shard_assignment/mod.rs:60).
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
				break // only the shards before s lack producers, and each of them has this producer already
			}
			if !slices.Contains(lists[s], id) {
				lists[s] = append(lists[s], id)
				stakes[s] = stakes[s].SaturatingAdd(producers[id].Stake)
				break
			}
		}
	}
}

// initialAssignment returns T+1's lists as changed by the strategy. initialAssignment leaves out
// accounts that are not chunk producers in T+2.
func initialAssignment(producers []primitives.ValidatorStake, numShards int, strategy assignmentStrategy,
	prev *EpochInfo) [][]ValidatorID {
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

// balanceShards adds the new producers to the shortest lists. Then it moves producers from the
// longest to the shortest list. It stops when each list has at least `least` producers and, in
// addition, either the lengths differ by at most one or `limit` changes (including the additions)
// were made (nearcore shard_assignment/mod.rs:287). The returned lists are in stake order.
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
		// There are enough producers and no repeats. So the longest list is longer than the
		// shortest.
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
