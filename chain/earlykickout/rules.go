package earlykickout

import (
	"math/bits"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// AnchorHeightOffset plus the height of an anchor is the height for which the anchor's rows are
// drawn (nearcore CHUNK_GRANDPARENT_ANCHOR_HEIGHT_OFFSET).
const AnchorHeightOffset = 2

// Chunk contains the data that decides how a chunk's producer is determined. P is the parent of the
// block that includes the chunk.
type Chunk struct {
	Enabled   bool               // EarlyKickout is in force in the chunk's epoch
	HasAnchor bool               // P is not the genesis
	Epoch     primitives.EpochID // epoch of the chunk
}

// NeedsAnchor returns whether the anchor's epoch is needed to determine the producer. If
// NeedsAnchor returns false, the producer is the canonical producer.
func (c Chunk) NeedsAnchor() bool { return c.Enabled && c.HasAnchor }

// IsAnchored returns whether the anchor's row determines the producer. anchorEpoch is the anchor's
// epoch; the genesis counts as a block of the first epoch. If IsAnchored returns false, the
// producer is the canonical producer at P.height + 1.
func (c Chunk) IsAnchored(anchorEpoch primitives.EpochID) bool {
	return c.NeedsAnchor() && anchorEpoch == c.Epoch
}

// Production counts the chunks of one validator and shard in an epoch: those it produced, and those
// it was expected to produce.
type Production struct{ Produced, Expected uint64 }

// Missed returns the number of missed chunks. The number is 0 if more chunks were produced than
// expected.
func (p Production) Missed() uint64 { return p.Expected - min(p.Produced, p.Expected) }

// Thresholds decide which producers are listed, that is, excluded. Chains use Protocol. Tests use
// other values, because they cannot make a thousand blocks.
type Thresholds struct {
	// GraceBlocks is the minimum height of the last final block above the first block of its epoch.
	// Below that height, no producer is listed.
	GraceBlocks uint64
	// MinMissed is the minimum number of missed chunks of a candidate.
	MinMissed uint64
	// MinProducedPercent is the percentage of expected chunks below which a producer is a
	// candidate.
	MinProducedPercent uint64
}

// Protocol returns the thresholds of protocol version 87.
func Protocol() Thresholds {
	return Thresholds{GraceBlocks: 1000, MinMissed: 100, MinProducedPercent: 80}
}

// InGrace returns whether no producer is listed yet, because the last final block is less than
// GraceBlocks above the first block of its epoch.
func (t Thresholds) InGrace(final, epochStart primitives.Height) bool {
	return uint64(final-min(epochStart, final)) < t.GraceBlocks
}

// IsCandidate returns whether a producer with these counters is a candidate for the list. Apart
// from MinMissed, there is no minimum number of expected chunks. The result is exact for all 64-bit
// counters.
func (t Thresholds) IsCandidate(p Production) bool {
	if p.Missed() < t.MinMissed {
		return false
	}
	return less128(p.Produced, 100, p.Expected, t.MinProducedPercent)
}

// Blacklist returns the members of a shard's settlement that are not drawn, ascending by ID. It
// returns nil if all are drawn. counters returns one member's counters in this shard. If all
// members are candidates, the best candidate is not listed. The best candidate has the highest
// ratio of produced to expected chunks. Among candidates of equal ratio, the best has the fewest
// expected chunks, and then the lowest ID. So a sole producer is never listed. candidates is the
// number of candidates, including the best.
func (t Thresholds) Blacklist(settlement []uint64, counters func(id uint64) Production) (listed []uint64, candidates int) {
	members := slices.Clone(settlement)
	slices.Sort(members)
	members = slices.Compact(members)
	var best int // index in listed
	var bestCounters Production
	for _, id := range members {
		p := counters(id)
		if !t.IsCandidate(p) {
			continue
		}
		if len(listed) == 0 || isBetter(p, bestCounters) {
			best, bestCounters = len(listed), p
		}
		listed = append(listed, id)
	}
	candidates = len(listed)
	if candidates == len(members) && candidates > 0 {
		listed = slices.Delete(listed, best, best+1)
	}
	if len(listed) == 0 {
		return nil, candidates
	}
	return listed, candidates
}

// isBetter returns whether a has a higher ratio than b. At equal ratios, fewer expected chunks are
// better.
func isBetter(a, b Production) bool {
	switch {
	case less128(b.Produced, a.Expected, a.Produced, b.Expected):
		return true
	case less128(a.Produced, b.Expected, b.Produced, a.Expected):
		return false
	}
	return a.Expected < b.Expected
}

// less128 returns whether a·b < c·d.
func less128(a, b, c, d uint64) bool {
	hi1, lo1 := bits.Mul64(a, b)
	hi2, lo2 := bits.Mul64(c, d)
	return hi1 < hi2 || hi1 == hi2 && lo1 < lo2
}
