package earlykickout

import (
	"errors"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// ErrAllListed means that no unlisted member of a settlement has a stake.
var ErrAllListed = errors.New("all chunk producers are excluded")

// Sampler draws producers from the unlisted members of a settlement (near-primitives 0.38.0
// src/epoch_info.rs:660). It is immutable.
type Sampler struct {
	members []uint64 // unlisted members of the settlement, in its order, with repeats
	table   *primitives.StakeWeightedIndex
}

// NewSampler returns a Sampler for the members of settlement that are not in listed. stake returns
// a member's stake. Errors: ErrAllListed; ErrOverflow of package primitives if the sum of the
// stakes overflows.
func NewSampler(settlement []uint64, stake func(id uint64) primitives.Balance, listed []uint64) (*Sampler, error) {
	s := &Sampler{members: Remaining(settlement, listed)}
	stakes := make([]primitives.Balance, len(s.members))
	for i, id := range s.members {
		stakes[i] = stake(id)
	}
	var err error
	if s.table, err = primitives.NewStakeWeightedIndex(stakes); err != nil {
		return nil, err
	}
	if s.table.StakeSum().IsZero() {
		return nil, ErrAllListed
	}
	return s, nil
}

// Sample returns the member that a seed selects. The seed is the same as for the canonical draw.
func (s *Sampler) Sample(seed [32]byte) uint64 { return s.members[s.table.Sample(seed)] }

// Remaining returns the members of a settlement that are not listed, in order and with repeats.
func Remaining(settlement, listed []uint64) []uint64 {
	out := make([]uint64, 0, len(settlement))
	for _, id := range settlement {
		if !slices.Contains(listed, id) {
			out = append(out, id)
		}
	}
	return out
}
