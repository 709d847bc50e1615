package consensus

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/chain/partialwitness"
	"github.com/troupe-chain/troupe/engine/metrics"
	"github.com/troupe-chain/troupe/primitives"
)

// ProductionCounters count what a validator has produced and received since the start, for metrics
// only. Safe for concurrent use. The zero value is ready to use.
type ProductionCounters struct {
	Blocks, Chunks atomic.Uint64 // number of produced blocks and chunks
	// Doomslug's heights (nearcore chain/chain/src/doomslug.rs:147): the highest height that this
	// node has approved or skipped to, the highest height with an approval, the highest height with
	// enough approvals, and the head's last final height.
	LargestTarget, LargestApproval, LargestThreshold, LargestFinal atomic.Uint64

	// Measured has the metrics that Families lists.
	Measured metrics.Set

	mu           sync.Mutex
	endorsements map[EndorsementResult]uint64
}

// EndorsementResult is what became of a chunk endorsement that a peer sent. Reason is empty if the
// endorsement was stored. Otherwise Reason is nearcore's name of the reason (nearcore
// chain/client/src/stateless_validation/validate.rs, ChunkRelevance).
type EndorsementResult struct {
	Shard  primitives.ShardID
	Reason string
}

// Endorsements returns the numbers of endorsements by result.
func (c *ProductionCounters) Endorsements() map[EndorsementResult]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.endorsements)
}

// CountEndorsement counts an endorsement with this result.
func (c *ProductionCounters) CountEndorsement(r EndorsementResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endorsements == nil {
		c.endorsements = map[EndorsementResult]uint64{}
	}
	c.endorsements[r]++
}

// countEndorsement counts an endorsement with the error of storing it. An endorsement for a shard
// that the head's children do not have is not counted, because a peer could name any number of
// shards.
func (n *Node) countEndorsement(m *primitives.ChunkEndorsementMetadata, err error) {
	if n.head == nil || !n.head.layout.Has(m.ShardID) {
		return
	}
	r := EndorsementResult{Shard: m.ShardID}
	switch {
	case err == nil:
	case !errors.Is(err, partialwitness.ErrIrrelevant):
		return // known already, or invalid; nearcore does not count these either
	case m.HeightCreated <= n.e.Final().Height:
		r.Reason = "TooLate"
	case m.HeightCreated > n.e.Head().Height()+partialwitness.MaxAhead:
		r.Reason = "TooEarly"
	default:
		r.Reason = "UnknownEpochId"
	}
	n.counters.CountEndorsement(r)
}

// countHeights publishes doomslug's heights.
func (n *Node) countHeights() {
	c, t := n.counters, n.tracker
	c.LargestTarget.Store(uint64(t.LargestTarget()))
	c.LargestApproval.Store(uint64(t.LargestApproval()))
	c.LargestThreshold.Store(uint64(t.LargestReady()))
	if n.head != nil {
		c.LargestFinal.Store(uint64(n.head.final))
	}
}
