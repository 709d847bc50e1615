package home

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

func TestCheckFindsWhatLoadRefuses(t *testing.T) {
	for _, c := range []struct {
		name             string
		edit             func(t *testing.T, dir string)
		errors, warnings []string // parts of each, in order
	}{
		{"fine", func(*testing.T, string) {}, nil, nil},
		{"unknown key", func(t *testing.T, dir string) {
			replaceOnce(t, filepath.Join(dir, "config.json"), `"gc_blocks_limit"`, `"gc_block_limit"`)
		}, nil, []string{`"gc_block_limit" is ignored; did you mean "gc_blocks_limit"?`}},
		{"wrong values", func(t *testing.T, dir string) {
			replaceOnce(t, filepath.Join(dir, "config.json"), `"gc_blocks_limit": 2`, `"gc_blocks_limit": "2"`)
			replaceOnce(t, filepath.Join(dir, "config.json"), `"produce_empty_blocks": true`, `"produce_empty_blocks": 1`)
		}, []string{"consensus.produce_empty_blocks is 1, must be true or false", `gc_blocks_limit is "2", must be an integer`}, nil},
		{"broken config, and the rest is looked at", func(t *testing.T, dir string) {
			mustWrite(t, "{", dir, "config.json")
			mustWrite(t, "{}", dir, "node_key.json")
		}, []string{"config.json: the file is truncated at line 1", "node_key.json: key file: missing field"}, nil},
		{"nothing there", func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, []string{"config.json: no such file or directory; run `troupe --home", "node_key.json: no such file", "genesis.json: no such file"},
			[]string{"produces no blocks"}},
		{"keys", func(t *testing.T, dir string) {
			mustWrite(t, mustRead(t, "testdata/init-fast/validator_key.json"), dir, "validator_key.json")
			if err := os.Chmod(filepath.Join(dir, "node_key.json"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, nil, []string{"node_key.json: other users can read the secret key: run chmod 600", "different keys of validator test.near"}},
		{"mixed key", func(t *testing.T, dir string) {
			replaceOnce(t, filepath.Join(dir, "validator_key.json"), `"public_key": "`, `"public_key": "ed25519:546XB2oHhj7PzUKHiH9Xve3Ze5q1JiW2WTh6abXFED3c", "was": "`)
		}, []string{"validator_key.json: public key does not correspond to secret key in key file"}, nil},
		{"senseless genesis", func(t *testing.T, dir string) {
			replaceOnce(t, filepath.Join(dir, "genesis.json"), `"locked": "5`, `"locked": "6`)
			replaceOnce(t, filepath.Join(dir, "genesis.json"), `"epoch_length": 43200`, `"epoch_length": 0`)
			replaceOnce(t, filepath.Join(dir, "genesis.json"), `"protocol_version": 88`, `"protocol_version": 84`)
		}, []string{"total supply", "do not match staked", "epoch_length is 0", "protocol_version is 84, but this program runs 85 to 88 (numbering", "epoch_length"}, nil},
		{"broken genesis", func(t *testing.T, dir string) {
			replaceOnce(t, filepath.Join(dir, "genesis.json"), `"amount": "1000`, `"amount": "-1000`)
		}, []string{"records[0].Account.account.amount"}, nil},
		{"epoch configs", func(t *testing.T, dir string) {
			mustWrite(t, "{}", dir, "epoch_configs", "85.json")
			mustWrite(t, "not looked at", dir, "epoch_configs", "README")
		}, []string{`file "85.json": epoch config: missing field`}, nil},
		{"no epoch config that fits", func(t *testing.T, dir string) {
			if err := os.Mkdir(filepath.Join(dir, "epoch_configs"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, []string{"none applies to the protocol version of the genesis, 88"}, nil},
		{"shards that are not", func(t *testing.T, dir string) {
			replaceOnce(t, filepath.Join(dir, "config.json"), `"tracked_shards_config": "AllShards"`, `"tracked_shards_config": {"Shards": ["s0.v0", "s7.v3"]}`)
		}, nil, []string{"the genesis has no shard s7.v3, only s0.v0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options(t.TempDir())
			o.Dir = filepath.Join(o.Dir, "home")
			o.ChainID = "check"
			mustInit(t, o)
			c.edit(t, o.Dir)
			r := Check(o.Dir)
			compare(t, "errors", r.Errors, c.errors)
			compare(t, "warnings", r.Warnings, c.warnings)
			_, err := Load(o.Dir)
			if err != nil && len(c.errors) == 0 {
				t.Errorf("Load fails where Check finds nothing: %v", err)
			}
			if len(c.errors) == 0 && len(r.Files) < 4 {
				t.Errorf("files = %v", r.Files)
			}
		})
	}
}

func compare(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s = %q, want %q", what, got, want)
		return
	}
	for i, part := range want {
		if !strings.Contains(got[i], part) {
			t.Errorf("%s[%d] = %q, want %q in it", what, i, got[i], part)
		}
	}
}

// TestHomeEditedByNearSandboxLoads loads a home folder after near-sandbox has added its account to
// the genesis and merged its settings into config.json.
func TestHomeEditedByNearSandboxLoads(t *testing.T) {
	o := options(t.TempDir())
	o.Fast = true
	mustInit(t, o)
	g := filepath.Join(o.Dir, "genesis.json")
	replaceOnce(t, g, `"2050000000000000000000000000000000"`, `"2050010000000000000000000000000000"`)
	replaceOnce(t, g, `"records": [`, `"records": [
{"AccessKey":{"account_id":"sandbox","public_key":"ed25519:5BGSaf6YjVm7565VzWQHNxoyEjwr3jUpRJSGjREvU9dB","access_key":{"nonce":0,"permission":"FullAccess"}}},
{"Account":{"account_id":"sandbox","account":{"amount":"10000000000000000000000000000","locked":"0","code_hash":"11111111111111111111111111111111","storage_usage":182}}},`)
	replaceOnce(t, filepath.Join(o.Dir, "config.json"), `"json_payload_max_size": 10485760`, `"json_payload_max_size": 1073741824`)
	replaceOnce(t, filepath.Join(o.Dir, "config.json"), `"max_open_files": 10000`, `"max_open_files": 3000`)
	h, err := Load(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	if err := h.Records(func(r genesis.Record) error {
		if a, ok := r.(*genesis.AccountRecord); ok {
			ids = append(ids, string(a.AccountID))
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if want := []string{"sandbox", "test.near", "near"}; !slices.Equal(ids, want) {
		t.Errorf("accounts = %v, want %v", ids, want)
	}
	if h.Config.RPC.MaxBody != 1<<30 || len(h.Warnings) != 0 {
		t.Errorf("body %d, warnings %v", h.Config.RPC.MaxBody, h.Warnings)
	}
}

func TestPathsFollowConfigAndNEARHOME(t *testing.T) {
	o := options(t.TempDir())
	mustInit(t, o)
	away := t.TempDir()
	if err := os.Rename(filepath.Join(o.Dir, "genesis.json"), filepath.Join(away, "g.json")); err != nil {
		t.Fatal(err)
	}
	c := filepath.Join(o.Dir, "config.json")
	replaceOnce(t, c, `"genesis_file": "genesis.json"`, `"genesis_file": "`+away+`/g.json"`)
	replaceOnce(t, c, `"path": null`, `"path": "db"`)
	h, err := Load(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if h.Paths.Genesis != filepath.Join(away, "g.json") || h.Paths.Data != filepath.Join(o.Dir, "db") {
		t.Errorf("paths = %+v", h.Paths)
	}
	t.Setenv("NEAR_HOME", "/x")
	if got := DefaultDir(); got != "/x" {
		t.Errorf("DefaultDir = %q with NEAR_HOME=/x", got)
	}
}

func TestEmptyNodeNameIsNode(t *testing.T) {
	text := strings.Replace(mustRead(t, "testdata/init-plain/node_key.json"), `"node"`, `""`, 1)
	k, err := ParseNodeKey([]byte("// a comment\n" + text))
	if err != nil || k.AccountID != "node" {
		t.Errorf("got %v, error %v", k, err)
	}
}

// TestMissingValidatorKeyIsReportedIfTheConfigMeansAValidator: RPC nodes and archives need no key.
func TestMissingValidatorKeyIsReportedIfTheConfigMeansAValidator(t *testing.T) {
	for _, c := range []struct {
		name, file string
		warned     bool
	}{
		{"alone", `{}`, true},
		{"validator", `{"network": {"boot_nodes": "x"}, "tracked_shards_config": "NoShards"}`, true},
		{"RPC node", `{"network": {"boot_nodes": "x"}, "tracked_shards_config": "AllShards"}`, false},
		{"RPC node of an account", `{"network": {"boot_nodes": "x"}, "tracked_shards_config": {"Accounts": ["near"]}}`, false},
		{"archive without shards", `{"network": {"boot_nodes": "x"}, "tracked_shards_config": "NoShards", "archive": true}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			parsed, _, err := config.Parse("config.json", []byte(strings.Replace(c.file, `"x"`,
				`"ed25519:546XB2oHhj7PzUKHiH9Xve3Ze5q1JiW2WTh6abXFED3c@127.0.0.1:24567"`, 1)))
			if err != nil {
				t.Fatal(err)
			}
			if got := meansValidator(parsed); got != c.warned {
				t.Errorf("warned: %v, expected %v", got, c.warned)
			}
		})
	}
}
