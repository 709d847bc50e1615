package daemon

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage/history"
)

// TestCheckHomeAgreesWithStart: CheckHome refuses exactly the home folders that Start refuses, with
// the same errors.
func TestCheckHomeAgreesWithStart(t *testing.T) {
	genesis := func(from, to string) func(t *testing.T, dir string) { return editOf("genesis.json", from, to) }
	older := func(text string, archive bool) func(t *testing.T, dir string) {
		return editOf("config.json", `{`, fmt.Sprintf(`{"archive": %v, "troupe": {"history": %s},`, archive, text))
	}
	for _, x := range []struct {
		name string
		edit func(t *testing.T, dir string)
		want string // in the error; empty: it starts
	}{
		{"as init makes it", func(*testing.T, string) {}, ""},
		{"no genesis", func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, "genesis.json")) }, "genesis.json"},
		{"old protocol", genesis(`"protocol_version": 88`, `"protocol_version": 29`), "protocol_version is 29"},
		{"old protocol of mainnet", func(t *testing.T, dir string) {
			genesis(`"protocol_version": 88`, `"protocol_version": 29`)(t, dir)
			genesis(`"chain_id": "sandbox"`, `"chain_id": "mainnet"`)(t, dir)
		}, "not the genesis of the public network"},
		{"mainnet", mainnet, ""},
		{"mainnet without epoch sync", func(t *testing.T, dir string) {
			mainnet(t, dir)
			editOf("config.json", `"epoch_sync_horizon_num_epochs": 2`, `"epoch_sync_horizon_num_epochs": 0`)(t, dir)
		}, "epoch_sync_horizon_num_epochs is 0"},
		{"an archive of mainnet", func(t *testing.T, dir string) {
			mainnet(t, dir)
			editOf("config.json", `{`, `{"archive": true,`)(t, dir)
		}, ""},
		{"an archive of mainnet from its genesis on", func(t *testing.T, dir string) {
			mainnet(t, dir)
			editOf("config.json", `{`, `{"archive": true, "troupe": {"archive_start": "genesis"},`)(t, dir)
		}, "unless troupe.archive_start is state_sync"},
		{"a chain with other parameters", genesis(`"chain_id": "sandbox"`, `"chain_id": "benchmarknet"`), "other parameters"},
		{"supply", genesis(`"total_supply": "`, `"total_supply": "1`), "total supply"},
		{"data of an unknown account", genesis(`"records": [`, `"records": [{"Data":{"account_id":"nobody","data_key":"YQ==","value":"Yg=="}},`), "nobody"},
		{"code of an unknown account", genesis(`"records": [`, `"records": [{"Contract":{"account_id":"nobody","code":"YQ=="}},`), "nobody"},
		{"another code hash", genesis(`"records": [`, `"records": [{"Contract":{"account_id":"test.near","code":"YQ=="}},`), "code"},
		{"key of an unknown account", genesis(`"records": [`,
			`"records": [{"AccessKey":{"account_id":"nobody","public_key":"ed25519:546XB2oHhj7PzUKHiH9Xve3Ze5q1JiW2WTh6abXFED3c","access_key":{"nonce":0,"permission":"FullAccess"}}},`), "nobody"},
		{"epochs of one block", genesis(`"epoch_length": `, `"epoch_length": 1, "was": `), "epoch"},
		{"no block producers", genesis(`"num_block_producer_seats": `, `"num_block_producer_seats": 0, "seats_was": `), "seats"},
		{"no gas", genesis(`"gas_limit": `, `"gas_limit": 0, "gas_was": `), ""},
		{"validators without stake", genesis(`"validators": [`, `"validators": [], "validators_was": [`), "validator"},
		{"config of no JSON", editOf("config.json", "{", "["), "config.json"},
		{"a wrong value", editOf("config.json", `"produce_empty_blocks": true`, `"produce_empty_blocks": 1`), "produce_empty_blocks"},
		{"shards of a validator", editOf("config.json", `"tracked_shards_config": "AllShards"`, `"tracked_shards_config": "NoShards"`), ""},
		{"a shadow validator", editOf("config.json", `"tracked_shards_config": "AllShards"`, `"tracked_shards_config": {"ShadowValidator": "other.near"}`), ""},
		{"older blocks without an archive", older(`{"source": "neardata:http://127.0.0.1:1"}`, false), "set archive to true or use --archive"},
		{"older blocks of no feed", older(`{"source": ""}`, true), "troupe.history.source"},
		{"older blocks in an unnamed folder", older(`{"path": ""}`, true), "troupe.history.path"},
		{"older blocks in the data folder", older(`{"path": "data"}`, true), "troupe.history.path"},
		{"older blocks below the data folder", older(`{"source": "lake:lake", "path": "data/older"}`, true), "overlaps the data folder"},
		{"older blocks around the data folder", older(`{"source": "lake:lake", "path": "."}`, true), "overlaps the data folder"},
		{"older blocks in a file", older(`{"source": "lake:lake", "path": "genesis.json"}`, true), "is not a folder"},
		{"older blocks below a device", older(`{"source": "lake:lake", "path": "/dev/null/x"}`, true), "name another folder"},
		{"older blocks from no folder", older(`{"source": "lake:absent", "path": "new/older"}`, true), ""},
		{"a node key of nothing", func(t *testing.T, dir string) { overwrite(t, filepath.Join(dir, "node_key.json"), "{}") }, "node_key.json"},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := made(t)
			x.edit(t, dir)
			r := CheckHome(dir, false)
			hm, err := home.Load(dir)
			var h *Daemon
			if err == nil {
				hm.Config.RPC.PrometheusAddr = ""
				if h, err = Start(Options{Home: hm, NoRPC: true}); err == nil {
					stop(t, h)
				}
			}
			t.Logf("CheckHome: %q; Start: %v", r.Errors, err)
			if (len(r.Errors) > 0) != (err != nil) {
				t.Errorf("CheckHome finds %q, and Start: %v", r.Errors, err)
			}
			if (err != nil) != (x.want != "") || err != nil && (!strings.Contains(err.Error(), x.want) || !strings.Contains(strings.Join(r.Errors, "\n"), x.want)) {
				t.Errorf("CheckHome finds %q, Start: %v, want %q in both", r.Errors, err, x.want)
			}
		})
	}
}

// mainnet replaces the files of a home folder by those of mainnet.
func mainnet(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"genesis.json", "config.json"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := home.Init(t.Context(), home.InitOptions{Dir: dir, ChainID: "mainnet", Random: rand.Reader, Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	editOf("config.json", `"addr": "0.0.0.0:24567"`, `"addr": "127.0.0.1:0"`)(t, dir)
}

func editOf(name, from, to string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), from) {
			t.Fatalf("%s has no %q", path, from)
		}
		overwrite(t, path, strings.Replace(string(text), from, to, 1))
	}
}

func overwrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHistorySettingsAreCheckedBeforeTheStart: the flag --archive counts like the key. A feed's folder
// that is missing, and older blocks of another chain, are reported although nothing is imported yet. The
// check leaves no files.
func TestHistorySettingsAreCheckedBeforeTheStart(t *testing.T) {
	dir := made(t)
	editOf("config.json", `{`, `{"troupe": {"history": {"source": "lake:lake", "path": "older"}},`)(t, dir)
	if r := CheckHome(dir, false); len(r.Errors) != 1 {
		t.Errorf("without --archive: errors %q", r.Errors)
	}
	missing := filepath.Join(dir, "lake") + ": no such file or directory"
	if r := CheckHome(dir, true); len(r.Errors) != 0 || !strings.Contains(strings.Join(r.Warnings, "\n"), missing) {
		t.Errorf("with --archive: errors %q, warnings %q; want none, and %q", r.Errors, r.Warnings, missing)
	}
	if names, err := filepath.Glob(filepath.Join(dir, ".troupe-check-*")); err != nil || len(names) != 0 {
		t.Errorf("the check leaves %v, %v", names, err)
	}
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	hm.Config.Archive = true
	var said bytes.Buffer
	log := logrus.New()
	log.SetOutput(&said)
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	stop(t, h)
	if !strings.Contains(said.String(), missing) {
		t.Errorf("the log does not say %q:\n%s", missing, said.String())
	}
	s, err := history.Open(filepath.Join(dir, "foreign"), history.Options{Genesis: primitives.HashBytes(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	editOf("config.json", `"older"`, `"foreign"`)(t, dir)
	if r := CheckHome(dir, true); len(r.Errors) != 1 || !strings.Contains(r.Errors[0], "genesis block") {
		t.Errorf("with blocks of another chain: errors %q", r.Errors)
	}
}
