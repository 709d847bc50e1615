package epoch

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// UpgradeVote is a protocol version and the time from which validators vote for that version.
type UpgradeVote struct {
	From    int64 // time in seconds since 1970
	Version primitives.ProtocolVersion
}

// UpgradeSchedule determines the protocol version for which a block producer votes with
// latest_protocol_version in its headers (near-primitives 0.38.0 src/upgrade_schedule.rs). An
// UpgradeSchedule is immutable and safe for concurrent use.
type UpgradeSchedule struct {
	newest primitives.ProtocolVersion // the newest version that this program supports
	votes  []UpgradeVote              // votes by ascending time; empty: always vote for newest
}

// Upgrade dates of the public networks, at 00:00 UTC (near-primitives 0.38.0 src/version.rs:58).
var (
	mainnetUpgrades = []UpgradeVote{{1_793_750_400, 87}, {1_793_923_200, 88}} // 2026-11-04, 2026-11-06
	testnetUpgrades = []UpgradeVote{{1_790_121_600, 87}, {1_792_540_800, 88}} // 2026-09-23, 2026-10-21
)

// NewUpgradeSchedule returns the schedule of a chain. newest is the newest protocol version that
// the program supports. For mainnet and testnet the schedule contains the dates of the versions up
// to newest. On other chains the program always votes for newest.
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

// UpgradeScheduleOf returns a schedule with the given votes. The dates of the votes must ascend,
// the versions must ascend by one, and the last version must be newest. Without votes, the program
// always votes for newest. Errors: ErrConfig.
func UpgradeScheduleOf(votes []UpgradeVote, newest primitives.ProtocolVersion) (*UpgradeSchedule, error) {
	for i, v := range votes {
		if i > 0 && v.From <= votes[i-1].From {
			return nil, fmt.Errorf("%w: protocol upgrades must be in the order of their dates", ErrConfig)
		}
		if i > 0 && v.Version != votes[i-1].Version+1 {
			return nil, fmt.Errorf("%w: protocol upgrade to %d after one to %d, must be to the next version", ErrConfig,
				v.Version, votes[i-1].Version)
		}
	}
	if n := len(votes); n > 0 && votes[n-1].Version != newest {
		return nil, fmt.Errorf("%w: the last protocol upgrade is to %d, must be to this program's version %d", ErrConfig,
			votes[n-1].Version, newest)
	}
	return &UpgradeSchedule{newest, slices.Clone(votes)}, nil
}

// Votes returns the votes in ascending order. If the result is empty, the program always votes for
// newest.
func (s *UpgradeSchedule) Votes() []UpgradeVote { return slices.Clone(s.votes) }

// Vote returns the version to vote for. now is in ns since 1970. next is the protocol version of
// the next epoch. The result is the lowest version above next whose date has come, so that versions
// are voted for one by one even if their dates are close. If there is no such version, the result
// is the last version whose date has come; before the first date, the result is next. If next is at
// least s.newest, the result is s.newest.
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
