package epoch

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// UpgradeVote is a version for which a validator votes from a time on.
type UpgradeVote struct {
	From    int64 // seconds since 1970
	Version primitives.ProtocolVersion
}

// UpgradeSchedule determines for which protocol version a block producer votes: the
// latest_protocol_version of its block headers (near-primitives 0.38.0 src/upgrade_schedule.rs). It
// is immutable and safe for concurrent use.
type UpgradeSchedule struct {
	newest primitives.ProtocolVersion // of the binary
	votes  []UpgradeVote              // ascending; empty: newest at once
}

// The dates of public networks, at 00:00 UTC (near-primitives 0.38.0 src/version.rs:58).
var (
	mainnetUpgrades = []UpgradeVote{{1_793_750_400, 87}, {1_793_923_200, 88}} // 2026-11-04, 2026-11-06
	testnetUpgrades = []UpgradeVote{{1_790_121_600, 87}, {1_792_540_800, 88}} // 2026-09-23, 2026-10-21
)

// NewUpgradeSchedule returns the schedule of a chain for a binary whose last version is newest.
// mainnet and testnet have dates, of which later versions are left out. On other chains newest is
// voted for at once.
func NewUpgradeSchedule(chainID string, newest primitives.ProtocolVersion) *UpgradeSchedule {
	s := &UpgradeSchedule{newest: newest}
	switch chainID {
	case mainnet:
		s.votes = slices.Clone(mainnetUpgrades)
	case testnet:
		s.votes = slices.Clone(testnetUpgrades)
	}
	s.votes = slices.DeleteFunc(s.votes, func(v UpgradeVote) bool { return v.Version > newest })
	return s
}

// UpgradeScheduleOf returns a schedule with given votes. Dates must ascend, versions ascend by one,
// and the last version must be newest. No votes: newest is voted for at once. Errors: ErrConfig.
func UpgradeScheduleOf(votes []UpgradeVote, newest primitives.ProtocolVersion) (*UpgradeSchedule, error) {
	for i, v := range votes {
		if i > 0 && v.From <= votes[i-1].From {
			return nil, fmt.Errorf("%w: protocol upgrades must be in the order of their dates", ErrConfig)
		}
		if i > 0 && v.Version != votes[i-1].Version+1 {
			return nil, fmt.Errorf("%w: protocol upgrade to %d after one to %d, must be to the next version", ErrConfig, v.Version, votes[i-1].Version)
		}
	}
	if n := len(votes); n > 0 && votes[n-1].Version != newest {
		return nil, fmt.Errorf("%w: the last protocol upgrade is to %d, must be to this program's version %d", ErrConfig, votes[n-1].Version, newest)
	}
	return &UpgradeSchedule{newest, slices.Clone(votes)}, nil
}

// Votes returns the dates, ascending; empty: newest is voted for at once.
func (s *UpgradeSchedule) Votes() []UpgradeVote { return slices.Clone(s.votes) }

// Vote returns the version to vote for at a time, in ns since 1970, in an epoch whose next epoch
// has the version next. It is next before the first date, then the lowest version above next whose
// date has come: versions are voted for one at a time, however close their dates are. Without such
// a version it is the last one whose date has come. On a network that is ahead of this binary it is
// the binary's newest.
func (s *UpgradeSchedule) Vote(now uint64, next primitives.ProtocolVersion) primitives.ProtocolVersion {
	if next >= s.newest || len(s.votes) == 0 {
		return s.newest
	}
	vote := next
	for _, v := range s.votes {
		if int64(now/1e9) < v.From {
			break
		}
		if vote = v.Version; vote > next {
			break
		}
	}
	return vote
}
