package epoch

import (
	"cmp"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// stickyStrategy maps each shard of prev to its child shards in next, so that producers follow
// their shard over a split (nearcore sticky_resharding.rs:24). If next was not derived from prev,
// assignment starts without producers.
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

// packIntoChildren deals a parent's producers to its child shards, largest stake first (then the
// smaller account), each to the child with the least stake so far, then the fewest producers, then
// the lowest index (nearcore sticky_resharding.rs:76). A shard that was not split is its own only
// child. It replaces lists[child].
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
