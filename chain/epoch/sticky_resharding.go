package epoch

import (
	"cmp"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// stickyStrategy returns the strategy in which producers stay with the children of their shard
// after a split (nearcore sticky_resharding.rs:24). If next is not derived from prev, the lists
// start empty.
func stickyStrategy(prev, next primitives.ShardLayout) assignmentStrategy {
	children := make([][]int, prev.NumShards())
	for i, id := range prev.ShardIDs() {
		ids, ok := next.Children(id)
		if !ok {
			return assignmentStrategy{}
		}
		for _, child := range ids {
			index, err := next.Index(child)
			if err != nil {
				return assignmentStrategy{}
			}
			children[i] = append(children[i], int(index))
		}
	}
	return assignmentStrategy{children: children}
}

// packIntoChildren distributes a parent shard's producers among its children, in descending order
// of stake (at equal stake, in ascending order of account). Each producer goes to the child with
// the least stake so far. Among children of equal stake, the producer goes to the child with the
// fewest producers, and then to the child with the lowest index (nearcore sticky_resharding.rs:76).
// A shard that is not split is its own only child. The result replaces lists[child].
func packIntoChildren(lists [][]ValidatorID, stay []ValidatorID, children []int,
	producers []primitives.ValidatorStake) {
	children = slices.Sorted(slices.Values(children))
	stay = slices.Clone(stay)
	slices.SortFunc(stay, func(a, b ValidatorID) int { return compareStakes(producers[a], producers[b]) })
	stakes := make([]primitives.Balance, len(children))
	packed := make([][]ValidatorID, len(children))
	for _, id := range stay {
		best := 0
		for c := 1; c < len(children); c++ {
			if cmp.Or(stakes[c].Cmp(stakes[best]), cmp.Compare(len(packed[c]), len(packed[best]))) < 0 {
				best = c
			}
		}
		stakes[best] = stakes[best].SaturatingAdd(producers[id].Stake)
		packed[best] = append(packed[best], id)
	}
	for c, shard := range children {
		lists[shard] = packed[c]
	}
}
