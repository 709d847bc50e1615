package sim

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// holds returns the function with which nodes in eager mode find out whether a validator tracks a
// shard. The function reports what the validator's node last announced, even if the node is down
// now. holds returns nil without Scenario.Eager.
func (w *World) holds() func(primitives.AccountID, primitives.ShardID) bool {
	if !w.s.Eager {
		return nil
	}
	return func(account primitives.AccountID, shard primitives.ShardID) bool {
		i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.account == account })
		return i >= 0 && slices.Contains(w.nodes[i].says(), shard)
	}
}

// says returns the shards that a node has last announced as tracked.
func (n *node) says() []primitives.ShardID {
	if n.engine != nil && !n.engine.Scheduled() {
		n.said = n.said[:0]
		for _, s := range n.engine.Head().Shards {
			if s.Held() {
				n.said = append(n.said, s.ID)
			}
		}
	}
	return n.said
}
