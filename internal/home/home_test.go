package home

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
)

// zeros is a source of randomness that is none.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// options are those of a plain init, at the time of neard's recorded one.
func options(dir string) InitOptions {
	return InitOptions{
		Dir: dir, Random: zeros{}, Downloader: NewDownloader(),
		Now: func() time.Time { return time.Unix(0, 1795233723536356613) }, // 2026-11-21T04:02:03.536356613Z
	}
}

func mustInit(t *testing.T, o InitOptions) *InitResult {
	t.Helper()
	r, err := Init(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustRead(t *testing.T, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func mustWrite(t *testing.T, text string, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// replaceOnce changes a part of a file.
func replaceOnce(t *testing.T, path, from, to string) {
	t.Helper()
	text := mustRead(t, path)
	if !strings.Contains(text, from) {
		t.Fatalf("%s has no %q", path, from)
	}
	mustWrite(t, strings.Replace(text, from, to, 1), path)
}

// since214 changes a config.json that neard f0c7706f1 wrote to what 2.14 writes (nearcore
// 2.14.0-rc.1 nearcore/src/config.rs:119 Consensus, core/store/src/config.rs:11 StoreConfig,
// chain/network/src/config_json.rs:330 NetworkConfigOverrides).
var since214 = strings.NewReplacer(`"state_sync_external_timeout"`, `"block_request_timeout"`,
	`    "state_sync_external_backoff": {
      "secs": 60,
      "nanos": 0
    },
`, ``,
	`    "load_mem_tries_for_tracked_shards": false,
    "state_snapshot_config": {
      "state_snapshot_type": "Enabled"
    }
`, `    "load_mem_tries_for_tracked_shards": false
`,
	`"routing_graph_max_edges": null
`, `"routing_graph_max_edges": null,
        "routing_graph_max_accounts_per_message": null
`)

// since88 changes a genesis that neard f0c7706f1 wrote to one of the newest protocol version.
var since88 = strings.NewReplacer(`"protocol_version": 86,`, `"protocol_version": 88,`)

// TestInitFilesEqualNeards makes the files that neard's init made (f0c7706f1, `init` and `init
// --fast`), from its keys and time.
func TestInitFilesEqualNeards(t *testing.T) {
	for _, c := range []struct {
		name    string
		fast    bool
		nanos   int64
		genesis []string // what a plain init writes otherwise, on purpose
		config  []string // and 2.14 with --fast: garbage collection at twice the rate of blocks
	}{
		{"init-fast", true, 512403046, nil, []string{`"gc_blocks_limit": 2,`, `"gc_blocks_limit": 9,`}},
		{"init-plain", false, 536356613, []string{`"epoch_length": 500,`, `"epoch_length": 43200,`,
			`"transaction_validity_period": 100,`, `"transaction_validity_period": 86400,`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, theirs := t.TempDir(), filepath.Join("testdata", c.name)
			for _, name := range []string{"validator_key.json", "node_key.json"} {
				text := mustRead(t, theirs, name)
				k, err := ReadKeyFile(filepath.Join(theirs, name))
				if err != nil {
					t.Fatal(err)
				}
				if err := WriteKeyFile(filepath.Join(dir, name), k); err != nil {
					t.Fatal(err)
				}
				if got := mustRead(t, dir, name); got != text {
					t.Errorf("%s = %s, want %s", name, got, text)
				}
			}
			o := options(dir)
			o.Fast, o.ChainID = c.fast, strings.Replace(c.name, "init", "test-chain", 1)
			o.Now = func() time.Time { return time.Unix(1795233723, c.nanos) }
			mustInit(t, o)
			config := strings.NewReplacer(c.config...).Replace(since214.Replace(mustRead(t, theirs, "config.json")))
			if got := mustRead(t, dir, "config.json"); got != config {
				t.Errorf("config.json = %s\nwant %s", got, config)
			}
			want := strings.NewReplacer(c.genesis...).Replace(since88.Replace(mustRead(t, theirs, "genesis.json")))
			if got := mustRead(t, dir, "genesis.json"); got != want {
				t.Errorf("genesis.json = %s\nwant %s", got, want)
			}
			shared := filepath.Join(testutil.Data("neard/files"), c.name)
			for _, name := range []string{"config.json", "genesis.json", "node_key.json", "validator_key.json"} {
				in, err := os.ReadFile(filepath.Join(shared, name))
				if err != nil {
					t.Skipf("no recorded files beside this checkout: %v", err)
				}
				if string(in) != mustRead(t, theirs, name) {
					t.Errorf("testdata's %s is not the recorded one", name)
				}
			}
		})
	}
}

// TestInitSyncsFilesBeforeRename: every file is complete and synced before it gets its name, and
// the folder is synced once all files have their names.
func TestInitSyncsFilesBeforeRename(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	var synced []os.FileInfo
	var mu sync.Mutex
	hooks.sync = func(f *os.File) error {
		mu.Lock()
		defer mu.Unlock()
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Clean(f.Name()) != dir && !strings.Contains(f.Name(), ".new-") {
			t.Errorf("%s was synced after its rename", f.Name())
		}
		synced = append(synced, info)
		return f.Sync()
	}
	defer func() { hooks.sync = nil }()
	made := mustInit(t, options(dir)).Made
	for _, name := range append(made, ".") {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(synced, func(s os.FileInfo) bool { return os.SameFile(s, info) })
		if at < 0 || name != "." && synced[at].Size() != info.Size() || name == "." && at != len(made) {
			t.Errorf("%s: synced as %d of %d", name, at, len(synced))
		}
	}
}

func TestInitFlagsTakeEffect(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "deep", "home")
	seed, gas := "alice", primitives.Gas(1<<63)
	o := options(dir)
	o.AccountID, o.TestSeed, o.NumShards, o.MaxGasBurntView = "alice.near", &seed, 12, &gas
	o.BootNodes = "ed25519:8jX1241UxJUat684KbsHQ3eLm73NqD7eQUNQYRXzzCP9@10.0.0.1:24567,ed25519:8jX1241UxJUat684KbsHQ3eLm73NqD7eQUNQYRXzzCP9@[::1]:1"
	r := mustInit(t, o)
	h, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(r.Made, " "), "node_key.json validator_key.json genesis.json config.json"; got != want {
		t.Errorf("made %q, want %q", got, want)
	}
	if h.Genesis.ChainID != "test-chain-AAAAA" || r.ChainID != h.Genesis.ChainID {
		t.Errorf("chain id = %q, %q", h.Genesis.ChainID, r.ChainID)
	}
	if got := h.Genesis.ShardLayout.NumShards(); got != 12 {
		t.Errorf("%d shards, want 12", got)
	}
	if nodes, _ := h.Config.Document.Get("network.boot_nodes"); nodes != o.BootNodes || h.Config.MaxGasBurntView != gas {
		t.Errorf("config: %q %v", nodes, h.Config.MaxGasBurntView)
	}
	want := primitives.SecretKeyFromSeed(primitives.ED25519, "alice")
	if h.ValidatorKey.SecretKey != want || h.ValidatorKey.AccountID != "alice.near" || h.NodeKey.AccountID != "node" {
		t.Errorf("keys: %v %v", h.ValidatorKey.AccountID, h.NodeKey.AccountID)
	}
	if v := h.Genesis.Validators[0]; v.AccountID != "alice.near" || v.PublicKey != want.PublicKey() {
		t.Errorf("validator = %v", v)
	}
	for _, name := range []string{"validator_key.json", "node_key.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, error %v", name, info.Mode(), err)
		}
	}
	n := 0
	if err := h.Records(func(genesis.Record) error { n++; return nil }); err != nil || n != 4 {
		t.Errorf("%d records, %v", n, err)
	}
	text := mustRead(t, dir, "config.json")
	if !strings.Contains(text, "\"trie_viewer_state_size_limit\": 50000,\n  \"max_gas_burnt_view\": 9223372036854775808,\n") {
		t.Errorf("max_gas_burnt_view is not at neard's position")
	}
	left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestInitCompletesExistingFolder runs init on folders that have some of the files.
func TestInitCompletesExistingFolder(t *testing.T) {
	prepared := func(t *testing.T) InitOptions {
		o := options(t.TempDir())
		o.ChainID = "again"
		mustInit(t, o)
		return o
	}
	t.Run("all there", func(t *testing.T) {
		o := prepared(t)
		before := readAll(t, o.Dir)
		o.Fast, o.NumShards, o.BootNodes = true, 3, ""
		r := mustInit(t, o)
		if after := readAll(t, o.Dir); after != before || len(r.Made)+len(r.Completed) != 0 || len(r.Kept) != 4 {
			t.Errorf("made %v, completed %v, kept %v", r.Made, r.Completed, r.Kept)
		}
		if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "exists and is not changed") {
			t.Errorf("notes = %q", r.Notes)
		}
	})
	for _, name := range []string{"node_key.json", "genesis.json", "config.json"} {
		t.Run(name, func(t *testing.T) {
			o := prepared(t)
			before := mustRead(t, o.Dir, name)
			if err := os.Remove(filepath.Join(o.Dir, name)); err != nil {
				t.Fatal(err)
			}
			r := mustInit(t, o)
			if got := mustRead(t, o.Dir, name); got != before { // the same time, and zeros for randomness
				t.Errorf("%s made again = %s, want %s", name, got, before)
			}
			if len(r.Made) != 1 || r.Made[0] != name {
				t.Errorf("made %v", r.Made)
			}
		})
	}
	t.Run("another validator key", func(t *testing.T) {
		o := prepared(t)
		if err := os.Remove(filepath.Join(o.Dir, "validator_key.json")); err != nil {
			t.Fatal(err)
		}
		seed := "other"
		o.TestSeed = &seed
		if r := mustInit(t, o); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "different keys of validator test.near") {
			t.Errorf("notes = %q", r.Notes)
		}
	})
	t.Run("keys of config.json", func(t *testing.T) {
		o := prepared(t)
		path := filepath.Join(o.Dir, "config.json")
		mustWrite(t, `{"mine": {"a": 1}, "rpc": null, "tracked_accounts": ["a.near"], "gc_blocks_limit": 3, "network": {"boot_nodes": ""}}`, path)
		r := mustInit(t, o)
		h, err := Load(o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		if h.Config.RPC != nil || h.Config.GCBlocksLimit != 3 || len(h.Config.TrackedShards.Accounts) != 1 {
			t.Errorf("config = %+v", h.Config)
		}
		added := strings.Join(r.Completed, " ")
		if !strings.Contains(added, "consensus") || !strings.Contains(added, "network.addr") || strings.Contains(added, "rpc") || strings.Contains(added, "tracked_shards_config") {
			t.Errorf("added %s", added)
		}
		if text := mustRead(t, path); !strings.HasPrefix(text, "{\n  \"mine\": {\n    \"a\": 1\n  },\n  \"rpc\": null") || strings.Contains(text, "troupe") {
			t.Errorf("config.json = %s", text)
		}
		if r := mustInit(t, o); len(r.Completed) != 0 {
			t.Errorf("a third init added %v", r.Completed)
		}
	})
	t.Run("comments", func(t *testing.T) {
		o := prepared(t)
		path := filepath.Join(o.Dir, "config.json")
		text := "{ // mine\n}"
		mustWrite(t, text, path)
		if r := mustInit(t, o); mustRead(t, path) != text || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "comments") {
			t.Errorf("notes = %q", r.Notes)
		}
	})
}

// readAll is all files of a folder.
func readAll(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, name := range names {
		b.WriteString(name + "\n" + mustRead(t, name) + "\n")
	}
	return b.String()
}

// TestInitRefusesContradictions: contradicting options are refused with the reason, and no file is
// changed.
func TestInitRefusesContradictions(t *testing.T) {
	seed := "x"
	other := mustWrite(t, strings.Replace(mustRead(t, "testdata/init-plain/genesis.json"), "test-chain-plain", "refuses", 1), t.TempDir(), "other.json")
	for _, c := range []struct {
		name  string
		files map[string]string // in a folder that was initialised, if not nil; empty: removed
		set   func(*InitOptions)
		want  string
	}{
		{"both", nil, func(o *InitOptions) { o.GenesisFile, o.DownloadGenesis = "x", true }, "not both"},
		{"seed on testnet", nil, func(o *InitOptions) { o.ChainID, o.TestSeed = "testnet", &seed }, "--test-seed"},
		{"testnet without genesis", nil, func(o *InitOptions) { o.ChainID = "testnet" }, "--download-genesis-url"},
		{"download of what", nil, func(o *InitOptions) { o.DownloadGenesis = true }, "--download-genesis-url"},
		{"config of what", nil, func(o *InitOptions) { o.ConfigKind = "rpc" }, "--download-config-url"},
		{"kind", nil, func(o *InitOptions) { o.ConfigKind = "light" }, "validator, rpc, archival"},
		{"boot nodes", nil, func(o *InitOptions) { o.BootNodes = "1.2.3.4:5" }, "node_key@host:port"},
		{"shards", nil, func(o *InitOptions) { o.NumShards = 1000 }, "from 1 to 256"},
		{"near validates", nil, func(o *InitOptions) { o.AccountID = "near" }, "choose another --account-id"},
		{"no such genesis", nil, func(o *InitOptions) { o.GenesisFile = "/no/such" }, "no such file"},
		{"another chain", map[string]string{}, func(o *InitOptions) { o.ChainID = "b" }, `not of --chain-id "b"`},
		{"another genesis", map[string]string{}, func(o *InitOptions) { o.GenesisFile = other }, "differs from --genesis"},
		{"another account", map[string]string{}, func(o *InitOptions) { o.AccountID = "b.near" }, "key is of test.near, not of b.near"},
		{"no genesis, but data", map[string]string{"genesis.json": "", "data/CURRENT": "x"}, nil, "that started from it"},
		{"broken config", map[string]string{"config.json": `{"archive": 7}`}, nil, "archive is 7"},
		{"broken genesis", map[string]string{"genesis.json": "{}"}, nil, "missing field"},
		{"broken key", map[string]string{"validator_key.json": "{}"}, nil, "missing field"},
		{"mixed key", map[string]string{"node_key.json": `{"account_id":"node","public_key":"ed25519:546XB2oHhj7PzUKHiH9Xve3Ze5q1JiW2WTh6abXFED3c",` +
			`"secret_key":"ed25519:5g8aNgE5QTVsv8aNGWdLbYV8571gskXPUKhXK9d6Qb6gCSB5D4uR3MSiTh76t6YuMk3JQ54exrwF4mgcV3MvGAs9"}`}, nil, "does not correspond"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(t.TempDir())
			if c.files != nil {
				o.ChainID = "refuses"
				mustInit(t, o)
				for name, text := range c.files {
					path := mustWrite(t, text, o.Dir, name)
					if text == "" {
						if err := os.Remove(path); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if c.set != nil {
				c.set(&o)
			}
			list := func() string {
				names, _ := filepath.Glob(filepath.Join(o.Dir, "*.json"))
				hidden, _ := filepath.Glob(filepath.Join(o.Dir, ".*"))
				var all strings.Builder
				for _, name := range append(names, hidden...) {
					all.WriteString(name + mustRead(t, name))
				}
				return all.String()
			}
			before := list()
			_, err := Init(t.Context(), o)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v, want %q in it", err, c.want)
			}
			if list() != before {
				t.Errorf("the folder changed")
			}
		})
	}
}

// TestInitKeepsGivenGenesis: init with an existing genesis.
func TestInitKeepsGivenGenesis(t *testing.T) {
	given := filepath.Join("testdata", "init-plain", "genesis.json")
	o := options(t.TempDir())
	o.GenesisFile = given
	r := mustInit(t, o)
	if mustRead(t, o.Dir, "genesis.json") != mustRead(t, given) {
		t.Errorf("genesis.json is not the given one")
	}
	if r.ChainID != "test-chain-plain" || r.Validator != nil || exists(filepath.Join(o.Dir, "validator_key.json")) || len(r.Notes) != 1 {
		t.Errorf("result = %+v", r)
	}
	o.AccountID = "me.near" // a second init with an account makes the key that was missing
	if r := mustInit(t, o); r.Validator == nil || r.Validator.AccountID != "me.near" || !strings.Contains(strings.Join(r.Notes, " "), "is not a validator") {
		t.Errorf("result = %+v", r)
	}
}

// TestInitUsesMainnetGenesis: init for mainnet writes the built-in genesis, which a given file may
// repeat.
func TestInitUsesMainnetGenesis(t *testing.T) {
	o := options(t.TempDir())
	o.ChainID, o.Fast = "mainnet", true
	mustInit(t, o)
	if given := testutil.Data("mainnet-genesis.json"); exists(given) {
		if want, err := os.ReadFile(given); err != nil || mustRead(t, o.Dir, "genesis.json") != string(want) {
			t.Errorf("genesis.json is not mainnet's, %v", err)
		}
		o.GenesisFile = given
		mustInit(t, o)
	}
	h, err := Load(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if h.Genesis.ChainID != "mainnet" || h.ValidatorKey != nil || h.Config.Consensus.MaxDelay != 1800*time.Millisecond || h.Config.Consensus.MinDelay != 600*time.Millisecond {
		t.Errorf("home = %+v", h.Config.Consensus)
	}
	if text := mustRead(t, o.Dir, "config.json"); !strings.Contains(text, telemetryURL) || !strings.Contains(text, `"skip_sync_wait": false`) {
		t.Errorf("config.json lacks what public chains have")
	}
	if !h.Config.Network.On() {
		t.Error("the network is off on a public chain")
	}
	// What init itself writes has no warning: a node that tracks all shards needs no validator key.
	if r := Check(o.Dir); len(r.Errors) != 0 || len(r.Warnings) != 0 {
		t.Errorf("report = %+v", r)
	}
}

func FuzzNodeKey(f *testing.F) {
	seed, err := os.ReadFile("testdata/init-plain/node_key.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add(bytes.Replace(seed, []byte(`"node"`), []byte(`""`), 1))
	f.Fuzz(func(t *testing.T, in []byte) {
		k, err := ParseNodeKey(in)
		if err != nil {
			return
		}
		again, err := ParseNodeKey(k.MarshalIndent())
		if err != nil || *again != *k {
			t.Errorf("the written text is not read back: %v", err)
		}
	})
}
