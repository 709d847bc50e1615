package epoch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// VersionVotes are the votes of an epoch's block producers for protocol versions. A block producer
// votes by the latest_protocol_version in its latest block of the epoch.
type VersionVotes struct {
	Total  primitives.Balance // stake of all block producers of the epoch
	Stakes []VersionStake     // by ascending version
}

// VersionStake is the stake of the block producers that vote for a version.
type VersionStake struct {
	Version primitives.ProtocolVersion
	Stake   primitives.Balance
}

// Percent returns the share of a stake in all block producers' stake, in percent, rounded down. It
// returns 0 if there are no block producers.
func (v *VersionVotes) Percent(stake primitives.Balance) uint64 {
	if v.Total.IsZero() {
		return 0
	}
	percent, ok := stake.Mul64(100)
	if !ok { // more than all tokens that exist
		return 100
	}
	q, _ := quoRem(percent, v.Total)
	return q.Lo
}

// Above returns the votes for versions above newest: their stake, and the version with the most
// stake. The version is 0 if there are none.
func (v *VersionVotes) Above(newest primitives.ProtocolVersion) (stake primitives.Balance, version primitives.ProtocolVersion) {
	var most primitives.Balance
	for _, x := range v.Stakes {
		if x.Version <= newest {
			continue
		}
		stake = stake.SaturatingAdd(x.Stake)
		if !x.Stake.Less(most) {
			most, version = x.Stake, x.Version
		}
	}
	return stake, version
}

// votes returns the votes that the aggregator has counted so far.
func (a *Aggregator) votes(info *EpochInfo) *VersionVotes {
	v := &VersionVotes{}
	seen := make([]bool, len(info.Validators))
	for _, id := range info.BlockProducers {
		if !seen[id] {
			seen[id] = true
			// Cannot overflow, because the sum of all stakes did not.
			v.Total = v.Total.SaturatingAdd(info.Validators[id].Stake)
		}
	}
	for id, voted := range a.Voted {
		if !voted {
			continue
		}
		i, known := slices.BinarySearchFunc(v.Stakes, a.Votes[id], func(x VersionStake, to primitives.ProtocolVersion) int {
			return cmp.Compare(x.Version, to)
		})
		if !known {
			v.Stakes = slices.Insert(v.Stakes, i, VersionStake{Version: a.Votes[id]})
		}
		v.Stakes[i].Stake = v.Stakes[i].Stake.SaturatingAdd(info.Validators[id].Stake)
	}
	return v
}

// voteOnVersion returns the protocol version of T+2. The version with the most stake in T is the
// result if its stake exceeds the threshold's share of the stake of all of T's block producers.
// Otherwise the result is T+1's version (nearcore lib.rs:544). config and version belong to T+1. Of
// two versions with equal stake, voteOnVersion takes the higher version. Two such versions cannot
// both reach a threshold of one half or more.
func voteOnVersion(config *Config, version primitives.ProtocolVersion, votes *VersionVotes) (primitives.ProtocolVersion, error) {
	var heaviest VersionStake
	for _, x := range votes.Stakes {
		if !x.Stake.Less(heaviest.Stake) {
			heaviest = x
		}
	}
	t := config.ProtocolUpgradeStakeThreshold
	threshold, ok := mulDiv(votes.Total, uint64(t.Num), uint64(t.Den))
	if !ok {
		return 0, fmt.Errorf("upgrade threshold: %w", primitives.ErrOverflow)
	}
	if threshold.Less(heaviest.Stake) {
		return heaviest.Version, nil
	}
	return version, nil
}

// EndedVotes returns the votes of the epoch that ended last since the Manager was created. It
// returns nil if none has ended.
func (m *Manager) EndedVotes() *VersionVotes { return m.ended }

// UpgradeForecast is what the votes of an unfinished epoch say about protocol versions above the
// newest version that a program knows.
type UpgradeForecast struct {
	Version   primitives.ProtocolVersion // the newer version with the most votes; 0: there are no such votes
	Percent   uint64                     // share of the stake that votes for newer versions, in percent, rounded down
	Threshold Ratio                      // share of the stake that a version needs
	// Decided is whether the epoch after the next one would have a newer version if the epoch ended
	// with the present votes.
	Decided bool
}

// ForecastUpgrade returns the forecast of an epoch from the votes in its final blocks. next is the
// epoch after it. The zero value means that no counted vote is for a version above newest.
func (m *Manager) ForecastUpgrade(id, next primitives.EpochID, newest primitives.ProtocolVersion) (f UpgradeForecast, err error) {
	a := m.aggregator
	if a == nil || a.EpochID != id || !a.votesAbove(newest) {
		return f, nil
	}
	info, err := m.EpochInfo(id)
	if err != nil {
		return f, err
	}
	version, err := m.ProtocolVersion(next)
	if err != nil {
		return f, err
	}
	config, votes := m.configs.ForVersion(version), a.votes(info)
	stake, most := votes.Above(newest)
	f = UpgradeForecast{Version: most, Percent: votes.Percent(stake), Threshold: config.ProtocolUpgradeStakeThreshold}
	version, err = voteOnVersion(config, version, votes)
	f.Decided = version > newest
	return f, err
}

// votesAbove returns whether a counted vote is for a version above newest.
func (a *Aggregator) votesAbove(newest primitives.ProtocolVersion) bool {
	for id, voted := range a.Voted {
		if voted && a.Votes[id] > newest {
			return true
		}
	}
	return false
}
