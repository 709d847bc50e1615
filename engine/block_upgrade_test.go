package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// upgrading opens a node whose genesis has version 85, with an upgrade schedule. Warnings are
// appended to warnings.
func upgrading(t *testing.T, votes []epoch.UpgradeVote, warnings *[]error) *node {
	t.Helper()
	g := testGenesis(t, "a.near")
	g.Config.ProtocolVersion = 85
	n, err := openChanged(t, g, storage.NewMemDisk(), storage.Options{}, func(o *Options) {
		s, err := epoch.UpgradeScheduleOf(votes, parameters.Newest(primitives.NumberingRelease))
		if err != nil {
			t.Fatal(err)
		}
		o.Upgrades, o.Warn = s, func(err error) { *warnings = append(*warnings, err) }
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestBlocksVoteByUpgradeSchedule: produced blocks vote for the protocol version of the next epoch,
// and from a scheduled date on for a newer one. The block's timestamp decides. The network then
// upgrades.
func TestBlocksVoteByUpgradeSchedule(t *testing.T) {
	parameters.SupportForTest(t, 86)
	// The genesis has the time 1,700,000,000 s, and blocks follow each second.
	var warnings []error
	n := upgrading(t, []epoch.UpgradeVote{{From: 1_700_000_005, Version: 86}}, &warnings)
	at := n.Head().Hash
	for h := primitives.Height(1); h <= 31; h++ {
		b, chunks := n.make(at, h, false)
		want := primitives.ProtocolVersion(86)
		if h < 5 {
			want = 85
		}
		if got := b.Header.LatestProtocolVersion; got != want {
			t.Errorf("block %d votes for %d, want %d", h, got, want)
		}
		a := n.accept(b, chunks)
		at = b.Hash()
		want = 85
		if h > 20 { // epochs have ten blocks; the votes of the first take effect in the third
			want = 86
		}
		if got := a.Entry.Config.Version; got != parameters.Release(want) {
			t.Errorf("block %d runs %v, want %d", h, got, want)
		}
	}
	if len(warnings) != 0 {
		t.Errorf("warnings %v", warnings)
	}
}

// TestUnsupportedUpgradeIsAnnounced: the node warns two epochs before the one that it does not
// support, as soon as a vote for that epoch's version is final. In the epoch before, it reports an
// error. It then refuses blocks of the unsupported epoch as a fault of its own.
func TestUnsupportedUpgradeIsAnnounced(t *testing.T) {
	const newest = 86
	parameters.SupportForTest(t, newest)
	var warnings []error
	n := upgrading(t, nil, &warnings)
	n.vote = newest + 1
	at := n.Head().Hash
	for h := primitives.Height(1); h <= 20; h++ {
		b, chunks := n.make(at, h, false)
		n.accept(b, chunks)
		at = b.Hash()
		want := 0
		if h > 2 {
			want = 1
		}
		if h > 10 {
			want = 2
		}
		if len(warnings) != want || want > 0 && !errors.Is(warnings[0], ErrUpgradeVoted) || want > 1 && !errors.Is(warnings[1], ErrUpgradeNeeded) {
			t.Fatalf("block %d: warnings %v, want %d", h, warnings, want)
		}
		s, err := n.Upgrade()
		if err != nil || s.IsNeeded() != (h > 10) || (s.Boundary() != 0) != (h > 10) || (s.Forecast.Decided && s.Forecast.Percent == 100) != (h > 2 && h != 11 && h != 12) ||
			(s.Ended != nil) != (h >= 10) {
			t.Errorf("block %d: state %+v, error %v", h, s, err)
		}
	}
	for _, err := range warnings {
		if !strings.Contains(err.Error(), "height 21,") {
			t.Errorf("no height in %q", err)
		}
	}
	if s, err := n.Upgrade(); err != nil || s.Boundary() != 21 || s.Next != newest+1 || s.Ended.Percent(s.Ended.Stakes[0].Stake) != 100 || s.Ended.Stakes[0].Version != newest+1 {
		t.Errorf("state %+v, error %v", s, err)
	}
	var b, low *primitives.Block
	var chunks []*primitives.Chunk
	t.Run("a newer node makes the next blocks", func(t *testing.T) {
		parameters.SupportForTest(t, newest+1)
		b, chunks = n.make(at, 21, false)
		n.vote = newest
		low, _ = n.make(at, 21, false)
	})
	_, err := n.Process(b, chunks, false)
	if !errors.Is(err, ErrUpgradeNeeded) || !errors.Is(err, parameters.ErrUnsupportedVersion) || VerdictOf(err) != VerdictLocalFault {
		t.Errorf("block of an epoch of %d: %v, verdict %d", newest+1, err, VerdictOf(err))
	}
	// A vote below the epoch's version is the producer's fault.
	if _, err = n.Process(low, chunks, false); !errors.Is(err, chain.InvalidProtocolVersion) {
		t.Errorf("a block that votes for %d in an epoch of %d: %v", newest, newest+1, err)
	}
}

func TestUnsupportedGenesisVersionIsRefused(t *testing.T) {
	for _, version := range []primitives.ProtocolVersion{83, 84, parameters.Newest(primitives.NumberingRelease) + 1, 89} {
		g := testGenesis(t, "a.near")
		g.Config.ProtocolVersion = version
		if _, err := openChanged(t, g, storage.NewMemDisk(), storage.Options{}, func(*Options) {}); !errors.Is(err, parameters.ErrUnsupportedVersion) {
			t.Errorf("genesis of version %d: %v, want ErrUnsupportedVersion", version, err)
		}
	}
}

// TestUpgradeAdviceIsGivenSeldom: votes cause at most two warnings an epoch, and the decision an
// error once in upgradeEvery heights.
func TestUpgradeAdviceIsGivenSeldom(t *testing.T) {
	t.Parallel()
	state := func(h primitives.Height, id byte, next primitives.ProtocolVersion, votes primitives.ProtocolVersion, decided bool) *UpgradeState {
		return &UpgradeState{Head: h, Epoch: primitives.EpochID{id}, Newest: 88, Version: 88, Next: next, NextStart: 1000,
			Forecast: epoch.UpgradeForecast{Version: votes, Decided: decided}}
	}
	var a upgradeAdvice
	for _, c := range []struct {
		s    *UpgradeState
		want error
	}{
		{state(1, 1, 88, 0, false), nil},
		{state(2, 1, 88, 89, false), ErrUpgradeVoted},
		{state(3, 1, 88, 89, false), nil},
		{state(4, 1, 88, 89, true), ErrUpgradeVoted},
		{state(5, 1, 88, 89, true), nil},
		{state(6, 1, 88, 89, false), nil}, // a validator has changed its vote
		{state(7, 1, 88, 89, true), nil},
		{state(8, 2, 88, 90, true), ErrUpgradeVoted}, // both at once
		{state(9, 2, 88, 90, true), nil},
		{state(10, 3, 89, 0, false), ErrUpgradeNeeded},
		{state(11, 3, 89, 89, true), nil},
		{state(109, 3, 89, 89, true), nil},
		{state(110, 3, 89, 89, true), ErrUpgradeNeeded},
		{state(111, 3, 89, 89, true), nil},
		{state(400, 3, 89, 89, true), ErrUpgradeNeeded},
		{state(401, 4, 88, 0, false), nil},
		{state(402, 5, 89, 0, false), ErrUpgradeNeeded}, // a new epoch begins anew
	} {
		if got := a.of(c.s); !errors.Is(got, c.want) {
			t.Errorf("height %d: %v, want %v", c.s.Head, got, c.want)
		}
	}
}
