package epoch

import (
	"errors"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// nanos returns a time of an override in ns since 1970; 0 for earlier ones.
func nanos(t *testing.T, text string) uint64 {
	t.Helper()
	at, err := time.Parse(upgradeTime, text)
	if err != nil {
		t.Fatal(err)
	}
	return uint64(max(at.UnixNano(), 0))
}

// TestUpgradeVotes has the cases of near-primitives 0.38.0 src/upgrade_schedule.rs tests, and the
// dates of both public networks.
func TestUpgradeVotes(t *testing.T) {
	const triple = "2000-01-10 00:00:00=101,2000-01-10 01:00:00=102,2000-01-10 02:00:00=103"
	const double = "2000-01-10 00:00:00=101,2000-01-15 00:00:00=102"
	for _, tt := range []struct {
		name, chain, override string
		oldest, newest        primitives.ProtocolVersion
		now                   string
		next, want            primitives.ProtocolVersion
	}{
		{"no schedule, older network", "localnet", "", 89, 100, "2026-01-01 00:00:00", 98, 100},
		{"no schedule, same version", "localnet", "", 89, 100, "2026-01-01 00:00:00", 100, 100},
		{"no schedule, newer network", "localnet", "", 89, 100, "2026-01-01 00:00:00", 102, 100},
		{"before the date, older network", "localnet", "3000-01-01 00:00:00=100", 89, 100, "2026-01-01 00:00:00", 98, 98},
		{"before the date, same version", "localnet", "3000-01-01 00:00:00=100", 89, 100, "2026-01-01 00:00:00", 100, 100},
		{"before the date, newer network", "localnet", "3000-01-01 00:00:00=100", 89, 100, "2026-01-01 00:00:00", 102, 100},
		{"after the date, older network", "localnet", "1900-01-01 00:00:00=100", 89, 100, "2026-01-01 00:00:00", 98, 100},
		{"after the date, newer network", "localnet", "1900-01-01 00:00:00=100", 89, 100, "2026-01-01 00:00:00", 102, 100},
		{"two dates, before both", "localnet", double, 89, 102, "2000-01-05 00:00:00", 100, 100},
		{"two dates, at the first", "localnet", double, 89, 102, "2000-01-10 00:00:00", 100, 101},
		{"two dates, between, upgraded", "localnet", double, 89, 102, "2000-01-12 00:00:00", 101, 101},
		{"two dates, at the second", "localnet", double, 89, 102, "2000-01-15 00:00:00", 101, 102},
		{"two dates, after both", "localnet", double, 89, 102, "2000-01-20 00:00:00", 101, 102},
		{"one at a time, first", "localnet", triple, 89, 103, "2000-01-10 10:00:00", 100, 101},
		{"one at a time, second", "localnet", triple, 89, 103, "2000-01-10 10:00:00", 101, 102},
		{"one at a time, third", "localnet", triple, 89, 103, "2000-01-10 10:00:00", 102, 103},
		{"now", "mainnet", "NOW", 85, 88, "2000-01-01 00:00:00", 86, 88},
		{"sequential, first", "localnet", "Sequential", 85, 88, "2026-01-01 00:00:00", 85, 86},
		{"sequential, second", "localnet", "sequential", 85, 88, "2026-01-01 00:00:00", 86, 87},
		{"sequential, done", "localnet", "sequential", 85, 88, "2026-01-01 00:00:00", 88, 88},

		{"mainnet before 87", "mainnet", "", 85, 88, "2026-11-03 23:59:59", 86, 86},
		{"mainnet at 87", "mainnet", "", 85, 88, "2026-11-04 00:00:00", 86, 87},
		{"mainnet between", "mainnet", "", 85, 88, "2026-11-05 23:59:59", 87, 87},
		{"mainnet at 88", "mainnet", "", 85, 88, "2026-11-06 00:00:00", 87, 88},
		{"mainnet late, still at 86", "mainnet", "", 85, 88, "2026-12-01 00:00:00", 86, 87},
		{"mainnet, a binary that stops at 86", "mainnet", "", 85, 86, "2026-12-01 00:00:00", 85, 86},
		{"mainnet, a binary that stops at 87", "mainnet", "", 85, 87, "2026-12-01 00:00:00", 86, 87},
		{"testnet before 87", "testnet", "", 85, 88, "2026-09-22 23:59:59", 86, 86},
		{"testnet at 87", "testnet", "", 85, 88, "2026-09-23 00:00:00", 86, 87},
		{"testnet between", "testnet", "", 85, 88, "2026-10-20 23:59:59", 87, 87},
		{"testnet at 88", "testnet", "", 85, 88, "2026-10-21 00:00:00", 87, 88},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := NewUpgradeSchedule(tt.chain, tt.oldest, tt.newest, tt.override)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Vote(nanos(t, tt.now), tt.next); got != tt.want {
				t.Errorf("vote at %s before an epoch of %d = %d, want %d", tt.now, tt.next, got, tt.want)
			}
		})
	}
}

// TestUpgradeOverrideIsRefused has the errors of the same file.
func TestUpgradeOverrideIsRefused(t *testing.T) {
	for _, override := range []string{
		"2000-01-10 00:00:00=108,2000-01-15 00:00:00=109", // not up to 110
		"2000-01-10 00:00:00=111,2000-01-15 00:00:00=110", // versions descend
		"2000-01-10 00:00:00=108,2000-01-15 00:00:00=110", // a version is skipped
		"2000-01-15 00:00:00=109,2000-01-10 00:00:00=110", // dates descend
		"2000-01-15 00:00:00=109,2000-01-15 00:00:00=110", // dates are equal
		"123", "123=110", "2000-01-15 00:00:00", "2000-01-15 00:00:00=", "2000-01-15 00:00:00=x", "2000-01-15 00:00:00=4294967296", "=110", ",",
		"2000-01-15 00:00:00=110=110", "2000-01-15=110", "2000-13-15 00:00:00=110",
	} {
		if s, err := NewUpgradeSchedule("localnet", 89, 110, override); !errors.Is(err, ErrConfig) || s != nil {
			t.Errorf("%q: %v, %v", override, s, err)
		}
	}
	s, err := NewUpgradeSchedule("localnet", 100, 103, "2001-1-1 23:59:59=101,2001-01-02 23:59:59=102,2001-01-03 23:59:59=103")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Votes(); len(got) != 3 || got[0] != (UpgradeVote{978393599, 101}) || got[2].Version != 103 {
		t.Errorf("votes %v", got)
	}
}
