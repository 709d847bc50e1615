package engine

import (
	"errors"
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

// TestUnsupportedUpgradeWarnsOneEpochBefore: the node warns in the epoch before the one that it
// does not support. It then refuses blocks of that epoch as a fault of its own.
func TestUnsupportedUpgradeWarnsOneEpochBefore(t *testing.T) {
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
		var want int
		if h > 10 {
			want = 1
		}
		if len(warnings) != want || want == 1 && !errors.Is(warnings[0], ErrUpgradeNeeded) {
			t.Fatalf("block %d: warnings %v, want %d", h, warnings, want)
		}
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
