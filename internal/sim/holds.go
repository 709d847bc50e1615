package sim

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// holds tells what validators have said that they hold where all hurry: as their nodes say it with
// each head, which stands while they are down.
func (w *World) holds() func(primitives.AccountID, primitives.ShardID) bool {
	if !w.s.Eager {
		return nil
	}
	return func(account primitives.AccountID, shard primitives.ShardID) bool {
		i := slices.IndexFunc(w.nodes, func(n *node) bool { return n.account == account })
		return i >= 0 && slices.Contains(w.nodes[i].says(), shard)
	}
}

// says is what a node last said that it holds.
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
