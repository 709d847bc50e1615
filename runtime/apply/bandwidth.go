package apply

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/bandwidth"
	"github.com/troupe-chain/troupe/runtime/state"
)

// scheduleBandwidth runs the bandwidth scheduler. Every shard runs the scheduler in every block
// with the same input, even if the shard's own chunk is missing.
func (c *chunk) scheduleBandwidth() error {
	in := c.in
	var prev bandwidth.State
	value, err := c.u.Get(primitives.BandwidthSchedulerKey)
	if err != nil {
		return err
	}
	if value != nil {
		if err := borsh.Unmarshal(value, &prev); err != nil {
			return state.Inconsistent("bandwidth scheduler: %w", err)
		}
	}
	if c.params, err = bandwidth.NewParams(c.cfg, in.Layout.NumShards()); err != nil {
		return err
	}
	statuses := make([]bandwidth.Status, len(in.Congestion))
	for i := range in.Congestion {
		statuses[i] = bandwidth.NewStatus(in.Congestion[i].Shard, c.control(&in.Congestion[i]))
	}
	var next bandwidth.State
	next, c.grants = bandwidth.Schedule(&prev, &bandwidth.Input{
		Params: c.params, Shards: in.Layout.ShardIDs(), Statuses: statuses, Requests: in.Requests, Seed: in.Block.PrevHash,
	})
	c.u.Set(primitives.BandwidthSchedulerKey, next.AppendBorsh(nil))
	c.u.Commit(primitives.CauseBandwidthSchedulerStateUpdate, primitives.Hash{})
	return nil
}

// makeRequests builds the bandwidth requests for the receipts in the outgoing buffers, one request
// per receiving shard. After a split, the buffer towards the parent shard still holds receipts for
// the parent's children, so the requests towards a child count the parent's buffer first. A shard
// that was not split may be its own parent. The buffer towards such a shard counts twice, as in
// nearcore.
func (c *chunk) makeRequests() ([]primitives.BandwidthRequest, error) {
	values := c.params.Values()
	most := values[len(values)-1]
	var out []primitives.BandwidthRequest
	for _, id := range c.in.Layout.ShardIDs() {
		var sizes []uint64
		var total uint64
		sources := []primitives.ShardID{id}
		if parent, err := c.in.Layout.Parent(id); err == nil {
			sources = []primitives.ShardID{parent, id}
		}
		for _, source := range sources {
			err := c.groupSizes(source, func(size uint64) bool {
				size = min(size, c.params.MaxReceiptSize)
				sizes = append(sizes, size)
				total += size
				return total <= most // stop once total exceeds `most`, because no request can be larger
			})
			if err != nil {
				return nil, err
			}
			if total > most {
				break
			}
		}
		if r, ok := c.params.Request(id, sizes); ok {
			out = append(out, r)
		}
	}
	return out, nil
}

// groupSizes yields the sizes of the receipt groups in the buffer towards a shard. If the groups
// do not contain all receipts of the buffer, groupSizes yields a single group of the largest size
// instead.
func (c *chunk) groupSizes(shard primitives.ShardID, yield func(uint64) bool) error {
	n := c.buffers.To(shard).Len()
	if n == 0 {
		return nil
	}
	g := c.groupsOf(shard)
	if g == nil || g.Receipts != n {
		yield(c.params.MaxReceiptSize)
		return nil
	}
	for i := g.First; i < g.Next; i++ {
		group, err := c.u.Group(shard, i)
		if err != nil {
			return err
		}
		if !yield(group.Size) {
			return nil
		}
	}
	return nil
}
