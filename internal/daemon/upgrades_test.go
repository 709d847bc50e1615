package daemon

import (
	"fmt"
	"io"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// TestUpgradeOverrideParsesAsNearcores runs the cases of near-primitives 0.38.0
// src/upgrade_schedule.rs test_parse_override and test_parse, and invalid texts.
func TestUpgradeOverrideParsesAsNearcores(t *testing.T) {
	const one, two, three = "2001-01-01 23:59:59=101", "2001-1-2 23:59:59=102", "2001-01-03 23:59:59=103"
	for _, c := range []struct {
		text string
		want []primitives.ProtocolVersion
		from int64 // of the first
	}{
		{"now", nil, 0}, {"NOW", nil, 0},
		{"sequential", []primitives.ProtocolVersion{101, 102, 103}, 101},
		{one, []primitives.ProtocolVersion{101}, 978_393_599},
		{one + "," + two, []primitives.ProtocolVersion{101, 102}, 978_393_599},
		{one + "," + two + "," + three, []primitives.ProtocolVersion{101, 102, 103}, 978_393_599},
		{"1900-01-01 00:00:00=103", []primitives.ProtocolVersion{103}, -2_208_988_800},
		{"3000-01-01 00:00:00=103", []primitives.ProtocolVersion{103}, 32_503_680_000},
	} {
		got, err := parseUpgradeVotes(c.text, 100, 103)
		if err != nil || len(got) != len(c.want) || len(got) > 0 && got[0].From != c.from {
			t.Errorf("%q = %v, %v", c.text, got, err)
			continue
		}
		for i, v := range got {
			if v.Version != c.want[i] || i > 0 && v.From <= got[i-1].From {
				t.Errorf("%q = %v, want %v", c.text, got, c.want)
			}
		}
	}
	for _, text := range []string{
		"123", "123=103", "2000-01-15 00:00:00", "2000-01-15 00:00:00=", "2000-01-15 00:00:00=x", "2000-01-15 00:00:00=4294967296", "=103", ",",
		"2000-01-15 00:00:00=103=103", "2000-01-15=103", "2000-13-15 00:00:00=103", one + ",",
	} {
		if got, err := parseUpgradeVotes(text, 100, 103); err == nil {
			t.Errorf("%q = %v", text, got)
		}
	}
}

// TestUpgradeOverrideReplacesDates: the variable replaces a network's dates; without it they apply.
func TestUpgradeOverrideReplacesDates(t *testing.T) {
	log := logrus.New()
	log.SetOutput(io.Discard)
	h := &Daemon{Instance: Instance{log: log}}
	chain := &engine.ChainSpec{ID: "mainnet", Version: parameters.Release(86)}
	const before = 1_793_750_399 * 1e9 // the second before mainnet votes for 87
	for _, c := range []struct {
		override string
		want     primitives.ProtocolVersion
	}{{"", 86}, {"now", 88}, {"sequential", 87}, {"2026-11-03 00:00:00=88", 88}} {
		t.Setenv(upgradeOverride, c.override)
		s, err := h.upgrades(chain)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Vote(before, 86); got != c.want {
			t.Errorf("override %q: vote %d, want %d", c.override, got, c.want)
		}
	}
	for _, bad := range []string{"x", "2026-11-03 00:00:00=87", "2026-11-03 00:00:00=89"} {
		t.Setenv(upgradeOverride, bad)
		if s, err := h.upgrades(chain); err == nil {
			t.Errorf("override %q: %v", bad, s)
		}
	}
}

// TestHomeOf86IsVotedUp: this binary opens a home folder and data that an older binary made at
// version 86, and votes the chain up to the newest version.
func TestHomeOf86IsVotedUp(t *testing.T) {
	dir := made(t)
	set(t, dir, `"block_production":"manual"`)
	editOf("genesis.json", `"protocol_version": 88`, `"protocol_version": 86`)(t, dir)
	editOf("genesis.json", `"epoch_length": 43200`, `"epoch_length": 10`)(t, dir)
	editOf("genesis.json", `"transaction_validity_period": 86400`, `"transaction_validity_period": 20`)(t, dir)
	run := func(t *testing.T, blocks int, want ...primitives.ProtocolVersion) {
		t.Helper()
		h, err := start(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		defer stop(t, h)
		for _, v := range want {
			mineBy(t, h, fmt.Sprintf(`{"blocks":%d}`, blocks))
			if got := h.Engine.Head().Config.Version; got != parameters.Release(v) {
				t.Errorf("block %d is of %v, want %d", h.Engine.Head().Height(), got, v)
			}
		}
	}
	t.Run("older binary", func(t *testing.T) {
		parameters.SupportForTest(t, 86)
		run(t, 15, 86, 86) // to the third epoch
	})
	run(t, 10, 86, 86, parameters.Newest(primitives.NumberingRelease))
}
