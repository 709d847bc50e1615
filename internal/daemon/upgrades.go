package daemon

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// upgradeOverride is neard's environment variable that replaces the dates of protocol upgrades.
const upgradeOverride = "NEAR_TESTS_PROTOCOL_UPGRADE_OVERRIDE"

// upgradeTime is the format of the override's dates, in UTC.
const upgradeTime = "2006-1-2 15:4:5"

// upgrades returns the schedule by which this node votes for protocol versions.
func (h *Daemon) upgrades(chain *engine.ChainSpec) (*epoch.UpgradeSchedule, error) {
	newest := parameters.Newest(chain.Version.Numbering)
	override := os.Getenv(upgradeOverride)
	if override == "" {
		return epoch.NewUpgradeSchedule(chain.ID, newest), nil
	}
	votes, err := parseUpgradeVotes(override, parameters.OldestProtocol, newest)
	if err != nil {
		return nil, fmt.Errorf("environment variable %s: %w", upgradeOverride, err)
	}
	s, err := epoch.UpgradeScheduleOf(votes, newest)
	if err != nil {
		return nil, fmt.Errorf("environment variable %s: %w", upgradeOverride, err)
	}
	h.log.Warnf("%s is set: blocks vote for protocol upgrades as it says; use it in tests only", upgradeOverride)
	return s, nil
}

// parseUpgradeVotes parses an override (near-primitives 0.38.0 src/upgrade_schedule.rs). "now"
// votes for newest at once. "sequential" votes for one version after another from oldest on. A list
// like "2026-11-04 00:00:00=87,2026-11-06 00:00:00=88" contains dates.
func parseUpgradeVotes(text string, oldest, newest primitives.ProtocolVersion) ([]epoch.UpgradeVote, error) {
	var votes []epoch.UpgradeVote
	switch strings.ToLower(text) {
	case "now":
		return nil, nil
	case "sequential": // all voting dates are in the past, so that each epoch gets the next version
		for v := oldest + 1; v <= newest; v++ {
			votes = append(votes, epoch.UpgradeVote{From: int64(v), Version: v})
		}
		return votes, nil
	}
	for pair := range strings.SplitSeq(text, ",") {
		date, version, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("%q does not have the form DATE=VERSION", pair)
		}
		from, err := time.Parse(upgradeTime, date)
		if err != nil {
			return nil, fmt.Errorf("%q is not a date of the form 2026-11-04 00:00:00", date)
		}
		v, err := strconv.ParseUint(version, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is not a protocol version", version)
		}
		votes = append(votes, epoch.UpgradeVote{From: from.Unix(), Version: primitives.ProtocolVersion(v)})
	}
	return votes, nil
}

// warn logs what the engine reports. The network leaves this program behind at a known height, so
// that is an error.
func (h *Daemon) warn(err error) {
	if errors.Is(err, engine.ErrUpgradeNeeded) {
		h.log.Error(err)
		return
	}
	h.log.Warn(err)
}
