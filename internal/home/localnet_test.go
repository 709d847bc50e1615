package home

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/config"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// localnetOptions are those of neard's recorded `localnet -v 2 -s 3`, with its time and chain id.
func localnetOptions(dir string) LocalnetOptions {
	return LocalnetOptions{
		Dir: dir, Prefix: "node", Shards: 3, Validators: 2, TrackedShards: "all", ChainID: "test-chain-A5CIr", Random: rand.Reader,
		Now:  func() time.Time { return time.Unix(1795233723, 557773816) },
		Free: func(netip.AddrPort) bool { return true },
	}
}

func mustLocalnet(t *testing.T, o LocalnetOptions) *LocalnetResult {
	t.Helper()
	r, err := Localnet(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestLocalnetHomesEqualNeards: the homes equal those that neard's localnet made (f0c7706f1), byte
// for byte, except for the ports.
func TestLocalnetHomesEqualNeards(t *testing.T) {
	const theirs = "testdata/localnet"
	dir := t.TempDir()
	o := localnetOptions(dir)
	r := mustLocalnet(t, o)
	var ports []string
	for _, n := range r.Nodes {
		c, _, err := LoadConfig(filepath.Join(theirs, n.Name))
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, c.RPC.Addr, n.RPC.String(), c.Network.Addr, n.Network.String())
	}
	for _, n := range r.Nodes {
		if n.Role != RoleValidator {
			t.Errorf("%s is %s", n.Name, n.Role)
		}
		for _, name := range []string{"config.json", "genesis.json", "node_key.json", "validator_key.json", "log_config.json"} {
			want := strings.NewReplacer(ports...).Replace(since88.Replace(since214.Replace(mustRead(t, theirs, n.Name, name))))
			if got := mustRead(t, dir, n.Name, name); got != want {
				t.Errorf("%s of %s = %s\nwant %s", name, n.Name, got, want)
			}
			if in, err := os.ReadFile(filepath.Join(testutil.Data("neard/files/localnet"), n.Name, name)); err == nil && string(in) != mustRead(t, theirs, n.Name, name) {
				t.Errorf("testdata's %s is not the recorded one", name)
			}
		}
		for _, name := range []string{"validator_key.json", "node_key.json"} {
			if info, err := os.Stat(filepath.Join(dir, n.Name, name)); err != nil || info.Mode().Perm() != modeSecret {
				t.Errorf("%s of %s: %v, %v", name, n.Name, info.Mode(), err)
			}
		}
	}
}

// TestLocalnetHasNodesOfEveryRole makes a network with nodes of every role. The position of an
// archival node's keys is from neard's source: its writer follows the order of the struct Config.
func TestLocalnetHasNodesOfEveryRole(t *testing.T) {
	dir := t.TempDir()
	o := localnetOptions(dir)
	o.Validators, o.Archival, o.RPC, o.NonValidators, o.TrackedShards, o.BasePort = 5, 1, 1, 1, "none", 24600
	nodes := mustLocalnet(t, o).Nodes
	for i, want := range []struct {
		role             Role
		tracked, archive any
		net, rpc         string
	}{
		{RoleValidator, "NoShards", nil, "[::1]:24600", "[::1]:24700"}, {RoleValidator, "NoShards", nil, "[::1]:24601", "[::1]:24701"},
		{RoleValidator, "NoShards", nil, "[::1]:24602", "[::1]:24702"}, {RoleValidator, "NoShards", nil, "[::1]:24603", "[::1]:24703"},
		{RoleValidator, "NoShards", nil, "[::1]:24604", "[::1]:24704"}, {RoleArchival, "AllShards", true, "[::1]:24605", "[::1]:24705"},
		{RoleRPC, "AllShards", nil, "[::1]:24606", "[::1]:24706"}, {RoleOther, "NoShards", nil, "[::1]:24607", "[::1]:24707"},
	} {
		n := nodes[i]
		c, warnings, err := LoadConfig(n.Dir)
		if err != nil || len(warnings) > 0 {
			t.Fatal(err, warnings)
		}
		if n.Role != want.role || documentValue(c.Document, "tracked_shards_config") != want.tracked || documentValue(c.Document, "archive") != want.archive && want.archive != nil ||
			n.Network.String() != want.net || c.RPC.Addr != want.rpc || documentValue(c.Document, "consensus.min_num_peers") != json.Number("3") {
			t.Errorf("node %d is %+v, archive %v", i, n, documentValue(c.Document, "archive"))
		}
		if (c.Network.BootNodes == "") != (i == 0) || !c.Network.On() && i > 0 {
			t.Errorf("node %d: boot nodes %q", i, c.Network.BootNodes)
		}
		if _, err := Load(n.Dir); err != nil {
			t.Errorf("a node would not start from %s: %v", n.Name, err)
		}
	}
	var raw struct {
		Cold  struct{ Path string } `json:"cold_store"`
		Split map[string]any        `json:"split_storage"`
	}
	text := mustRead(t, nodes[5].Dir, "config.json")
	if err := json.Unmarshal([]byte(text), &raw); err != nil || raw.Cold.Path != "cold-data" || raw.Split["enable_split_storage_view_client"] != true {
		t.Errorf("archival node: %+v, %v", raw, err)
	}
	last := -1
	for _, key := range []string{"tracked_shards_config", "archive", "save_trie_changes", "log_summary_style", "store", "cold_store", "split_storage", "epoch_sync"} {
		at := strings.Index(text, "\n  \""+key+"\"")
		if at <= last {
			t.Errorf("%s is not at the position where neard writes it", key)
		}
		last = at
	}
	found, err := FindLocalnet(dir, "node")
	if err != nil || !slices.Equal(found, nodes) {
		t.Errorf("found %+v, %v, want %+v", found, err, nodes)
	}
}

// TestLoneValidatorWaitsForNoPeers is a network of one validator: it makes blocks without waiting
// for peers.
func TestLoneValidatorWaitsForNoPeers(t *testing.T) {
	o := localnetOptions(t.TempDir())
	o.Validators, o.NonValidators, o.TrackedShards, o.EpochLength = 1, 1, "0,1", 300
	r := mustLocalnet(t, o)
	c, _, err := LoadConfig(r.Nodes[0].Dir)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"network.skip_sync_wait": true, "consensus.min_num_peers": json.Number("0"), "tracked_shards_config": "AllShards"} {
		if got := documentValue(c.Document, key); got != want {
			t.Errorf("%s = %v, want %v", key, got, want)
		}
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "AllShards") {
		t.Errorf("notes = %q", r.Notes)
	}
	if !strings.Contains(mustRead(t, r.Nodes[0].Dir, "genesis.json"), `"epoch_length": 300,`) {
		t.Error("the epochs are of another length")
	}
}

// TestShortEpochsOfALocalnetAreValid: a transaction is valid for at most two epochs.
func TestShortEpochsOfALocalnetAreValid(t *testing.T) {
	o := localnetOptions(t.TempDir())
	o.EpochLength = 20
	dir := mustLocalnet(t, o).Nodes[0].Dir
	if text := mustRead(t, dir, "genesis.json"); !strings.Contains(text, `"transaction_validity_period": 40,`) {
		t.Error("a transaction is not valid for two epochs")
	}
	if r := Check(dir); len(r.Errors) > 0 {
		t.Errorf("%q", r.Errors)
	}
}

// TestLocalnetCanHave12Shards: a layout with so many shards that neard's names of boundaries would
// not be in order.
func TestLocalnetCanHave12Shards(t *testing.T) {
	o := localnetOptions(t.TempDir())
	o.Shards = 12
	r := mustLocalnet(t, o)
	h, err := Load(r.Nodes[1].Dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(h.Genesis.ShardLayout.ShardIDs()); n != 12 {
		t.Errorf("%d shards", n)
	}
}

// TestLocalnetPortsAreFreeAndDistinct: the ports are free and all different; on a machine without
// IPv6 they are those of IPv4.
func TestLocalnetPortsAreFreeAndDistinct(t *testing.T) {
	o := localnetOptions(t.TempDir())
	o.Validators = 40
	o.Free = func(a netip.AddrPort) bool { return a.Addr().Is4() && a.Port()%3 == 0 }
	seen := map[netip.AddrPort]bool{}
	for _, n := range mustLocalnet(t, o).Nodes {
		for _, a := range []netip.AddrPort{n.RPC, n.Network} {
			if seen[a] || a.Port()%3 != 0 || a.Addr() != netip.MustParseAddr("127.0.0.1") || a.Port() < firstPort || a.Port() > lastPort {
				t.Errorf("%s has %v", n.Name, a)
			}
			seen[a] = true
		}
	}
	o.Free = func(a netip.AddrPort) bool { return a.Port() == 0 }
	o.Dir = t.TempDir()
	if _, err := Localnet(o); err == nil || !strings.Contains(err.Error(), "no free port") {
		t.Errorf("without a free port: %v", err)
	}
	a := netip.MustParseAddrPort("127.0.0.1:0")
	if !PortFree(a) || PortFree(netip.MustParseAddrPort("192.0.2.1:0")) {
		t.Error("PortFree does not know which addresses this machine has")
	}
}

func TestLocalnetRefusesInvalidOptions(t *testing.T) {
	for _, c := range []struct {
		why    string
		change func(*LocalnetOptions)
	}{
		{"--shards is 0", func(o *LocalnetOptions) { o.Shards = 0 }},
		{"--validators is 0", func(o *LocalnetOptions) { o.Validators = 0 }},
		{"--non-validators is -1", func(o *LocalnetOptions) { o.NonValidators = -1 }},
		{"101 nodes", func(o *LocalnetOptions) { o.Validators, o.RPC = 100, 1 }},
		{`--prefix is "../x"`, func(o *LocalnetOptions) { o.Prefix = "../x" }},
		{`--prefix is ""`, func(o *LocalnetOptions) { o.Prefix = "" }},
		{`--tracked-shards is "0,x"`, func(o *LocalnetOptions) { o.TrackedShards = "0,x" }},
		{"--base-port is 65400", func(o *LocalnetOptions) { o.BasePort = 65400 }},
		{"--chain-id mainnet", func(o *LocalnetOptions) { o.ChainID = "mainnet" }},
	} {
		o := localnetOptions(t.TempDir())
		c.change(&o)
		if _, err := Localnet(o); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: error %v", c.why, err)
		}
		if entries, _ := os.ReadDir(o.Dir); len(entries) > 0 {
			t.Errorf("%s: left %v", c.why, entries)
		}
	}
	o := localnetOptions(t.TempDir())
	mustWrite(t, "mine", o.Dir, "node1", "validator_key.json")
	if _, err := Localnet(o); !errors.Is(err, ErrConflict) || mustRead(t, o.Dir, "node1", "validator_key.json") != "mine" {
		t.Errorf("over a home: %v", err)
	}
	if _, err := FindLocalnet(t.TempDir(), "node"); err == nil || !strings.Contains(err.Error(), "localnet`") {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(o.Dir, "node1", "config.json"), config.Default(false).Format(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := FindLocalnet(o.Dir, "node"); err == nil || !strings.Contains(err.Error(), "genesis.json") {
		t.Errorf("a home without a genesis: %v", err)
	}
}

func documentValue(d *config.Document, key string) any {
	v, _ := d.Get(key)
	return v
}
