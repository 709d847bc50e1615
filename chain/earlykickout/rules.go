package earlykickout

import (
	"math/bits"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// AnchorHeightOffset is the number of heights between an anchor and the height at which its rows
// are drawn (nearcore CHUNK_GRANDPARENT_ANCHOR_HEIGHT_OFFSET).
const AnchorHeightOffset = 2

// Chunk is what decides how the producer of a chunk is found. P is the parent of its block.
type Chunk struct {
	Enabled   bool               // EarlyKickout is in force in the chunk's epoch
	HasAnchor bool               // P is not the genesis
	Epoch     primitives.EpochID // of the chunk
}

// NeedsAnchor returns whether the anchor's epoch decides. If not, the producer is the canonical
// one, and the anchor need not be known.
func (c Chunk) NeedsAnchor() bool { return c.Enabled && c.HasAnchor }

// IsAnchored returns whether the producer is the row of the anchor, whose epoch is given. If not,
// it is the canonical one at P.height + 1. The genesis counts as a block of the first epoch.
func (c Chunk) IsAnchored(anchorEpoch primitives.EpochID) bool {
	return c.NeedsAnchor() && anchorEpoch == c.Epoch
}

// Production counts the chunks of one shard that a validator was expected to produce in an epoch,
// and those that it produced.
type Production struct{ Produced, Expected uint64 }

// Missed returns the number of missed chunks. 0 if more were produced than expected.
func (p Production) Missed() uint64 { return p.Expected - min(p.Produced, p.Expected) }

// Thresholds decide which producers are listed. Chains use Protocol. Other values are for tests,
// which cannot make a thousand blocks.
type Thresholds struct {
	// GraceBlocks is the height that the last final block must have above the first block of its
	// epoch before any producer is listed.
	GraceBlocks uint64
	// MinMissed is the smallest number of missed chunks of a candidate.
	MinMissed uint64
	// MinProducedPercent is the part of the expected chunks below which a producer is a candidate.
	MinProducedPercent uint64
}

// Protocol returns the thresholds of protocol version 87.
func Protocol() Thresholds {
	return Thresholds{GraceBlocks: 1000, MinMissed: 100, MinProducedPercent: 80}
}

// InGrace returns whether no producer is listed yet, since the last final block is too close to the
// first block of its epoch. The distance saturates at 0.
func (t Thresholds) InGrace(final, epochStart primitives.Height) bool {
	return uint64(final-min(epochStart, final)) < t.GraceBlocks
}

// IsCandidate returns whether a producer with these counters is listed if it is not the last one.
// There is no smallest number of expected chunks besides MinMissed. Exact for all 64-bit counters.
func (t Thresholds) IsCandidate(p Production) bool {
	if p.Missed() < t.MinMissed {
		return false
	}
	return less128(p.Produced, 100, p.Expected, t.MinProducedPercent)
}

// Blacklist returns the IDs of a shard's settlement that are not drawn, ascending; nil: all are.
// counters returns the counters of one ID for this shard. IDs outside the settlement are never
// asked for. If all members are candidates, the one with the best ratio stays: of equal ratios that
// with fewer expected chunks, then the lower ID. So a lone producer is never listed. candidates is
// how many there were before that.
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

// isBetter returns whether a has a greater ratio than b, or the same and fewer expected chunks.
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
