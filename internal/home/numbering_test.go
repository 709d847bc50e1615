package home

import (
	"errors"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// makeData makes the data folder of a home with a numbering.
func makeData(t *testing.T, h *Home, n primitives.Numbering) {
	t.Helper()
	s, err := storage.Open(h.Paths.Data, storage.Options{Identity: storage.Identity{ChainID: h.Genesis.ChainID, Numbering: n}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNumberingFollowsConfigOrData: the numbering is that of config.json, else of the data folder,
// else release. A public network has no other.
func TestNumberingFollowsConfigOrData(t *testing.T) {
	const june, release = primitives.NumberingJune, primitives.NumberingRelease
	for _, c := range []struct {
		name, chain  string
		config, data primitives.Numbering // empty: none
		fork         bool
		want         primitives.Numbering
		problem      string // empty: none
	}{
		{name: "new", chain: "local", want: release},
		{name: "data of june", chain: "local", data: june, want: june},
		{name: "data of release", chain: "local", data: release, want: release},
		{name: "config june", chain: "local", config: june, want: june},
		{name: "config over data", chain: "local", config: june, data: release, want: june}, // the store refuses it
		{name: "mainnet", chain: "mainnet", want: release},
		{name: "testnet, config release", chain: "testnet", config: release, want: release},
		{name: "mainnet, config june", chain: "mainnet", config: june, problem: `troupe.numbering: conflict: numbering "june" is not for chain mainnet, which has only`},
		{name: "testnet, data of june", chain: "testnet", data: june, problem: `data: conflict: numbering "june" is not for chain testnet, which has only`},
		{name: "fork of mainnet, data of june", chain: "mainnet", data: june, fork: true, want: june},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			mustInit(t, options(dir))
			h, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			replaceOnce(t, h.Paths.Genesis, `"chain_id": "`+h.Genesis.ChainID, `"chain_id": "`+c.chain)
			if c.want == june { // which has no later version
				replaceOnce(t, h.Paths.Genesis, `"protocol_version": 88`, `"protocol_version": 86`)
			}
			if c.config != "" {
				replaceOnce(t, h.Paths.Config, `"genesis_file"`, `"troupe": {"numbering": "`+string(c.config)+`"}, "genesis_file"`)
			}
			if c.data != "" {
				makeData(t, h, c.data)
			}
			if c.fork {
				mustWrite(t, "{}", dir, ForkFile)
			}
			h, err = Load(dir)
			report := strings.Join(Check(dir).Errors, "\n")
			if c.problem != "" {
				if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), c.problem) || !strings.Contains(report, c.problem) {
					t.Errorf("Load = %v, Check = %s, want %q", err, report, c.problem)
				}
				return
			}
			if err != nil || report != "" || h.Numbering != c.want {
				t.Errorf("numbering %q, %v, Check %q, want %q", h.Numbering, err, report, c.want)
			}
		})
	}
}

// TestNewChainsHaveTheNewestProtocol: init and localnet write the version that the node supports.
func TestNewChainsHaveTheNewestProtocol(t *testing.T) {
	want := parameters.Newest(primitives.NumberingRelease)
	dir := t.TempDir()
	mustInit(t, options(dir))
	check := func(dir string) {
		t.Helper()
		h, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if h.Genesis.ProtocolVersion != want || h.CheckVersion() != nil {
			t.Errorf("protocol_version %d, %v, want %d", h.Genesis.ProtocolVersion, h.CheckVersion(), want)
		}
	}
	check(dir)
	for _, n := range mustLocalnet(t, localnetOptions(t.TempDir())).Nodes {
		check(n.Dir)
	}
}
