package epoch

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// seconds parses a time and returns the seconds since 1970.
func seconds(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.DateTime, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.Unix()
}

// votesOf parses pairs of a date and a version.
func votesOf(t *testing.T, text string) (votes []UpgradeVote) {
	t.Helper()
	for pair := range strings.SplitSeq(text, ",") {
		date, version, _ := strings.Cut(pair, "=")
		v, err := strconv.ParseUint(version, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		votes = append(votes, UpgradeVote{seconds(t, date), primitives.ProtocolVersion(v)})
	}
	return votes
}

// TestUpgradeVotesFollowSchedule repeats the cases in near-primitives 0.38.0
// src/upgrade_schedule.rs, and tests the dates of both public networks.
func TestUpgradeVotesFollowSchedule(t *testing.T) {
	t.Parallel()
	const triple = "2000-01-10 00:00:00=101,2000-01-10 01:00:00=102,2000-01-10 02:00:00=103"
	const double = "2000-01-10 00:00:00=101,2000-01-15 00:00:00=102"
	for _, tt := range []struct {
		name, chain, votes string
		newest             primitives.ProtocolVersion
		now                string
		next, want         primitives.ProtocolVersion
	}{
		{"no schedule, older network", "localnet", "", 100, "2026-01-01 00:00:00", 98, 100},
		{"no schedule, same version", "localnet", "", 100, "2026-01-01 00:00:00", 100, 100},
		{"no schedule, newer network", "localnet", "", 100, "2026-01-01 00:00:00", 102, 100},
		{"before the date, older network", "localnet", "3000-01-01 00:00:00=100", 100, "2026-01-01 00:00:00", 98, 98},
		{"before the date, same version", "localnet", "3000-01-01 00:00:00=100", 100, "2026-01-01 00:00:00", 100, 100},
		{"before the date, newer network", "localnet", "3000-01-01 00:00:00=100", 100, "2026-01-01 00:00:00", 102, 100},
		{"after the date, older network", "localnet", "1900-01-01 00:00:00=100", 100, "2026-01-01 00:00:00", 98, 100},
		{"after the date, newer network", "localnet", "1900-01-01 00:00:00=100", 100, "2026-01-01 00:00:00", 102, 100},
		{"two dates, before both", "localnet", double, 102, "2000-01-05 00:00:00", 100, 100},
		{"two dates, at the first", "localnet", double, 102, "2000-01-10 00:00:00", 100, 101},
		{"two dates, between, upgraded", "localnet", double, 102, "2000-01-12 00:00:00", 101, 101},
		{"two dates, at the second", "localnet", double, 102, "2000-01-15 00:00:00", 101, 102},
		{"two dates, after both", "localnet", double, 102, "2000-01-20 00:00:00", 101, 102},
		{"one at a time, first", "localnet", triple, 103, "2000-01-10 10:00:00", 100, 101},
		{"one at a time, second", "localnet", triple, 103, "2000-01-10 10:00:00", 101, 102},
		{"one at a time, third", "localnet", triple, 103, "2000-01-10 10:00:00", 102, 103},

		{"mainnet before 87", "mainnet", "", 88, "2026-11-03 23:59:59", 86, 86},
		{"mainnet at 87", "mainnet", "", 88, "2026-11-04 00:00:00", 86, 87},
		{"mainnet between", "mainnet", "", 88, "2026-11-05 23:59:59", 87, 87},
		{"mainnet at 88", "mainnet", "", 88, "2026-11-06 00:00:00", 87, 88},
		{"mainnet late, still at 86", "mainnet", "", 88, "2026-12-01 00:00:00", 86, 87},
		{"mainnet, a binary that stops at 86", "mainnet", "", 86, "2026-12-01 00:00:00", 85, 86},
		{"mainnet, a binary that stops at 87", "mainnet", "", 87, "2026-12-01 00:00:00", 86, 87},
		{"testnet before 87", "testnet", "", 88, "2026-09-22 23:59:59", 86, 86},
		{"testnet at 87", "testnet", "", 88, "2026-09-23 00:00:00", 86, 87},
		{"testnet between", "testnet", "", 88, "2026-10-20 23:59:59", 87, 87},
		{"testnet at 88", "testnet", "", 88, "2026-10-21 00:00:00", 87, 88},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewUpgradeSchedule(tt.chain, tt.newest)
			if tt.votes != "" {
				var err error
				if s, err = UpgradeScheduleOf(votesOf(t, tt.votes), tt.newest); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.Vote(uint64(seconds(t, tt.now))*1e9, tt.next); got != tt.want {
				t.Errorf("vote at %s before an epoch of %d = %d, want %d", tt.now, tt.next, got, tt.want)
			}
		})
	}
}

// TestInvalidUpgradeVotesAreRefused repeats the error cases of the same file.
func TestInvalidUpgradeVotesAreRefused(t *testing.T) {
	t.Parallel()
	for _, votes := range []string{
		"2000-01-10 00:00:00=108,2000-01-15 00:00:00=109", // does not end with 110
		"2000-01-10 00:00:00=111,2000-01-15 00:00:00=110", // versions descend
		"2000-01-10 00:00:00=108,2000-01-15 00:00:00=110", // a version is skipped
		"2000-01-15 00:00:00=109,2000-01-10 00:00:00=110", // dates descend
		"2000-01-15 00:00:00=109,2000-01-15 00:00:00=110", // dates are equal
	} {
		if s, err := UpgradeScheduleOf(votesOf(t, votes), 110); !errors.Is(err, ErrConfig) || s != nil {
			t.Errorf("%q: %v, %v", votes, s, err)
		}
	}
}
