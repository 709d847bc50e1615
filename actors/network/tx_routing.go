package network

import (
	"slices"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// txRoutes caches the receivers of transactions by shard, for one head.
type txRoutes struct {
	head primitives.Hash
	of   map[primitives.ShardID]txRoute
}

type txRoute struct {
	to  []primitives.AccountID
	own bool
	// soon means that this node produces one of the next Route.Horizon chunks (nearcore
	// chain/client/src/rpc_handler.rs active_validator).
	soon bool
}

// chunkProducers returns the producers of the next chunks that may include an account's
// transactions, excluding this node. own says whether this node is a chunk producer of the shard in
// this epoch.
func (a *Actor) chunkProducers(account primitives.AccountID) ([]primitives.AccountID, bool) {
	w := a.txRoute(account)
	return w.to, w.own
}

// txRoute returns the route of an account's transactions from the head.
func (a *Actor) txRoute(account primitives.AccountID) txRoute {
	head := a.o.Engine.Head()
	if w := &a.routes; w.head != head.Hash {
		w.head, w.of = head.Hash, map[primitives.ShardID]txRoute{}
	}
	shard := head.Layout.ShardOf(account)
	w, ok := a.routes.of[shard]
	if !ok {
		var within bool
		if w, within = a.txRouteAt(head, account); within {
			a.routes.of[shard] = w
		}
	}
	return w
}

// txRouteAt computes txRoute for a head. within means that all heights of the producers are in the
// head's epoch. In that case the result holds for every account of the shard.
func (a *Actor) txRouteAt(head *engine.BlockNode, account primitives.AccountID) (w txRoute, within bool) {
	horizon := a.o.Route.Horizon
	if horizon == 0 {
		horizon = 4
	}
	// Errors are ignored, because the producers of an unknown epoch are unknown too.
	_ = a.o.Engine.Epochs(func(m *epoch.Manager) error {
		id, err := m.EpochIDFromPrev(head.Hash)
		if err != nil {
			return err
		}
		add := func(id primitives.EpochID, h primitives.Height) error {
			layout, err := m.ShardLayout(id)
			if err != nil {
				return err
			}
			v, err := m.ForecastChunkProducer(head.Hash, id, layout.ShardOf(account), h)
			if err == nil && v.AccountID != a.o.Account && !slices.Contains(w.to, v.AccountID) {
				w.to = append(w.to, v.AccountID)
			}
			return err
		}
		heights := []primitives.Height{2*horizon - 1}
		for d := primitives.Height(1); d < horizon; d++ {
			heights = append(heights, d)
		}
		slices.Sort(heights)
		layout, err := m.ShardLayout(id)
		if err != nil {
			return err
		}
		if a.o.Account != "" {
			list, err := m.ChunkProducersForShard(id, layout.ShardOf(account))
			if err != nil {
				return err
			}
			w.own = slices.Contains(list, a.o.Account)
		}
		for d := primitives.Height(1); w.own && !w.soon && d <= horizon; d++ {
			v, err := m.ForecastChunkProducer(head.Hash, id, layout.ShardOf(account), head.Height()+d)
			if err != nil {
				return err
			}
			w.soon = v.AccountID == a.o.Account
		}
		for _, d := range heights {
			if err := add(id, head.Height()+d); err != nil {
				return err
			}
		}
		if a.o.Route.All {
			list, err := m.BlockProducers(id)
			if err != nil {
				return err
			}
			for i := range list {
				if v := list[i].AccountID; v != a.o.Account && !slices.Contains(w.to, v) {
					w.to = append(w.to, v)
				}
			}
		}
		first, length, _, err := m.EpochSpan(head.Hash)
		if err != nil || head.Height()+horizon < first+primitives.Height(length) {
			within = err == nil
			return err
		}
		next, err := m.NextEpochIDFromPrev(head.Hash)
		if err != nil {
			return err
		}
		for _, d := range heights {
			if err := add(next, head.Height()+d); err != nil {
				return err
			}
		}
		return nil
	})
	return w, within
}
