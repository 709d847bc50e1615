package epoch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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

// upgradeTime is the form of times in an override, in UTC.
const upgradeTime = "2006-1-2 15:4:5"

// NewUpgradeSchedule returns the schedule of a chain for a binary that supports the versions from
// oldest to newest. mainnet and testnet have dates (near-primitives 0.38.0 src/version.rs:58); on
// other chains newest is voted for at once. An override that is not empty replaces the schedule
// (neard's NEAR_TESTS_PROTOCOL_UPGRADE_OVERRIDE): "now" votes for newest at once, "sequential" for
// one version after the other, and a list like "2026-11-04 00:00:00=87,2026-11-06 00:00:00=88" has
// dates. Dates and versions must ascend, versions by one, and the last version must be newest.
// Errors: ErrConfig.
func NewUpgradeSchedule(chainID string, oldest, newest primitives.ProtocolVersion, override string) (*UpgradeSchedule, error) {
	votes := publicVotes(chainID, newest)
	if override != "" {
		var err error
		if votes, err = parseVotes(override, oldest, newest); err != nil {
			return nil, fmt.Errorf("%w: protocol upgrade override %q: %w", ErrConfig, override, err)
		}
	}
	for i, v := range votes {
		if i > 0 && v.From <= votes[i-1].From {
			return nil, fmt.Errorf("%w: protocol upgrades must be in the order of their dates", ErrConfig)
		}
		if i > 0 && v.Version != votes[i-1].Version+1 {
			return nil, fmt.Errorf("%w: protocol upgrade to %d after one to %d, must be to the next version", ErrConfig, v.Version, votes[i-1].Version)
		}
	}
	if n := len(votes); n > 0 && votes[n-1].Version != newest {
		return nil, fmt.Errorf("%w: the last protocol upgrade is to %d, must be to this binary's version %d", ErrConfig, votes[n-1].Version, newest)
	}
	return &UpgradeSchedule{newest, votes}, nil
}

// publicVotes returns the votes of a public network up to newest; empty for other chains.
func publicVotes(chainID string, newest primitives.ProtocolVersion) []UpgradeVote {
	at := func(year int, month time.Month, day int) int64 {
		return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix()
	}
	var votes []UpgradeVote
	switch chainID {
	case mainnet:
		votes = []UpgradeVote{{at(2026, time.November, 4), 87}, {at(2026, time.November, 6), 88}}
	case testnet:
		votes = []UpgradeVote{{at(2026, time.September, 23), 87}, {at(2026, time.October, 21), 88}}
	}
	return slices.DeleteFunc(votes, func(v UpgradeVote) bool { return v.Version > newest })
}

func parseVotes(text string, oldest, newest primitives.ProtocolVersion) ([]UpgradeVote, error) {
	var votes []UpgradeVote
	switch strings.ToLower(text) {
	case "now":
		return nil, nil
	case "sequential": // all dates are over, so that each epoch has the next version
		for v := oldest + 1; v <= newest; v++ {
			votes = append(votes, UpgradeVote{int64(v), v})
		}
		return votes, nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		date, version, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not date=version", pair)
		}
		from, err := time.Parse(upgradeTime, date)
		if err != nil {
			return nil, fmt.Errorf("%q is not a date like 2026-11-04 00:00:00", date)
		}
		v, err := strconv.ParseUint(version, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is not a protocol version", version)
		}
		votes = append(votes, UpgradeVote{from.Unix(), primitives.ProtocolVersion(v)})
	}
	return votes, nil
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
