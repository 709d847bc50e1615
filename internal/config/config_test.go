package config

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestDefaultEqualsInitFile: TestInitFilesEqualNeards of internal/home compares the same files with
// recorded ones.
func TestDefaultEqualsInitFile(t *testing.T) {
	if got, want := string(Default(false).Format()), strings.TrimSuffix(string(initJSON), "\n"); got != want {
		t.Errorf("Default(false) does not print as init.json")
	}
	fast := Default(true)
	for key, want := range map[string]string{"gc_blocks_limit": "9", "gc_fork_clean_step": "100"} {
		if v, _ := fast.Get(key); v != json.Number(want) {
			t.Errorf("fast: %s = %v, want %s", key, v, want)
		}
	}
}

func TestParseKeepsDefaultsAndWarns(t *testing.T) {
	c, warnings, err := Parse("config.json", []byte(`{
		// what near-sandbox merges in
		"rpc": {"addr": "127.0.0.1:1", "limits_config": {"json_payload_max_size": 1073741824}},
		"store": {"max_open_files": 3000},
		"consensus": {"min_block_production_delay": {"secs": 0, "nanos": 5}},
		"gc_num_epoch_to_keep": 7,
		"zzz": 1
	}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.RPC.Addr != "127.0.0.1:1" || c.RPC.MaxBody != 1<<30 || c.RPC.PollingTimeout != 10*time.Second || c.Consensus.MinDelay != 5 {
		t.Errorf("config = %+v %+v", c.RPC, c.Consensus)
	}
	if c.Production != Instant || !c.TrackedShards.All || c.GCMinAge != time.Hour {
		t.Errorf("own defaults: %v %v %v", c.Production, c.TrackedShards, c.GCMinAge)
	}
	want := []Warning{{"gc_num_epoch_to_keep", "gc_num_epochs_to_keep"}, {"zzz", ""}}
	if len(warnings) != 2 || warnings[0] != want[0] || warnings[1] != want[1] {
		t.Errorf("warnings = %v, want %v", warnings, want)
	}
}

func TestParseRefusesInvalidValues(t *testing.T) {
	for _, c := range []struct{ in, key string }{
		{`{"archive": 1}`, "archive"},
		{`{"rpc": {"addr": 3030}}`, "rpc.addr"},
		{`{"gc_num_epochs_to_keep": -1}`, "gc_num_epochs_to_keep"},
		{`{"gc_step_period": 5}`, "gc_step_period"},
		{`{"consensus": {"min_block_production_delay": {"secs": 9, "nanos": 0}}}`, "consensus.min_block_production_delay"},
		{`{"consensus": {"chunk_wait_mult": [1, 0]}}`, "consensus.chunk_wait_mult"},
		{`{"troupe": {"block_production": "fast"}}`, "troupe.block_production"},
		{`{"tracked_shards_config": "Some"}`, "tracked_shards_config"},
		{`{"tracked_shards_config": {"Schedule": []}}`, "tracked_shards_config"},
		{`{"tracked_shards_config": {"Shards": ["0"]}}`, "tracked_shards_config"},
		{`{"tracked_accounts": ["X"]}`, "tracked_accounts"},
		{`{"tracked_shards_config": "AllShards", "tracked_shards": []}`, "tracked_shards"},
		{`{"rpc": {"addr": "3030"}}`, "rpc.addr"},
		{`{"network": {"addr": "0.0.0.0:x"}}`, "network.addr"},
		{`{"network": {"boot_nodes": "ed25519:1@a:1"}}`, "network.boot_nodes"},
		{`{"network": {"boot_nodes": "/ip4/127.0.0.1/tcp/1"}}`, "network.boot_nodes"},
		{`{"network": {"transport": "quic"}}`, "network.transport"},
		{`{"network": {"libp2p": {"addr": "x"}}}`, "network.libp2p.addr"},
		{`{"gc_blocks_limit": 0}`, "gc_blocks_limit"},
		{`{"tx_routing_height_horizon": 1}`, "tx_routing_height_horizon"},
		{`{"save_trie_changes": false}`, "save_trie_changes"},
		{`{"genesis_file": ""}`, "genesis_file"},
		{`{"consensus": {"max_block_wait_delay": {"secs": 0, "nanos": 1}}}`, "consensus.max_block_wait_delay"},
	} {
		_, _, err := Parse("config.json", []byte(c.in))
		var e *Error
		if !errors.As(err, &e) || e.Key != c.key || e.Allowed == "" {
			t.Errorf("Parse(%s) = %v, want an Error of key %s", c.in, err, c.key)
		}
	}
	for _, in := range []string{``, `[]`, `{"a":1,"a":2}`, `{"a":`, `{} x`, strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40)} {
		if _, _, err := Parse("config.json", []byte(in)); err == nil {
			t.Errorf("Parse(%.20q) passed", in)
		}
	}
}

func TestTrackedShardsFormsAreParsed(t *testing.T) {
	for in, want := range map[string]func(TrackedShards) bool{
		`{"tracked_shards_config": "NoShards"}`:                       func(s TrackedShards) bool { return s.None },
		`{"tracked_shards_config": {"Shards": ["s0.v3", "s1.v3"]}}`:   func(s TrackedShards) bool { return len(s.Shards) == 2 },
		`{"tracked_shards_config": {"Accounts": ["a.near"]}}`:         func(s TrackedShards) bool { return s.Accounts[0] == "a.near" },
		`{"tracked_shards_config": {"Schedule": [[0, 1], [2]]}}`:      func(s TrackedShards) bool { return s.Schedule[1][0] == 2 },
		`{"tracked_shards_config": {"ShadowValidator": "node.near"}}`: func(s TrackedShards) bool { return s.ShadowValidator == "node.near" },
		`{"tracked_shards": [0]}`:                                     func(s TrackedShards) bool { return s.All },
		`{"tracked_accounts": ["a.near"]}`:                            func(s TrackedShards) bool { return len(s.Accounts) == 1 },
		`{"tracked_shards": []}`:                                      func(s TrackedShards) bool { return s.None && !s.All },
		`{"tracked_accounts": []}`:                                    func(s TrackedShards) bool { return s.None && !s.All },
		`{"tracked_shard_schedule": []}`:                              func(s TrackedShards) bool { return s.None && !s.All },
		`{"tracked_shards_config": {"Shards": []}}`:                   func(s TrackedShards) bool { return s.None && !s.All },
		`{"tracked_shards": null}`:                                    func(s TrackedShards) bool { return s.All },
		`{"tracked_shards": [9], "tracked_accounts": ["a.near"]}`:     func(s TrackedShards) bool { return s.All && s.Accounts == nil },
		`{"tracked_shard_schedule": [[1]], "tracked_shadow_validator": "a.near"}`: func(s TrackedShards) bool {
			return len(s.Schedule) == 1 && s.ShadowValidator == ""
		},
		`{"tracked_accounts": ["a.near"], "tracked_shadow_validator": "b.near"}`: func(s TrackedShards) bool { return s.ShadowValidator == "b.near" },
	} {
		if c, _, err := Parse("config.json", []byte(in)); err != nil || !want(c.TrackedShards) {
			t.Errorf("Parse(%s) = %+v, %v", in, c, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(initJSON)
	f.Add([]byte(`{"rpc":null,"tracked_accounts":["a.near"]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		c, _, err := Parse("config.json", in)
		if err != nil {
			return
		}
		again, _, err := Parse("config.json", c.Document.Format())
		if err != nil || string(again.Document.Format()) != string(c.Document.Format()) {
			t.Errorf("Parse does not read back what Format wrote: %v", err)
		}
	})
}

func TestOverlayKeepsKeyOrder(t *testing.T) {
	d := Default(true)
	d.SetAfter("max_gas_burnt_view", "trie_viewer_state_size_limit", jsonNumber(7))
	d.SetAfter("archive", "no such key", true)
	keys := strings.Join(d.Keys(), " ")
	if !strings.Contains(keys, "trie_viewer_state_size_limit max_gas_burnt_view store ") || !strings.HasSuffix(keys, " archive") {
		t.Errorf("keys = %s", keys)
	}
	top, _, err := Read("config.json", []byte(`{ /* a */ "mine": 1, # b
		"network": {"addr": "x:1", "ban_window": {"secs": 1, "nanos": 2}}, "rpc": null}`))
	if err != nil {
		t.Fatal(err)
	}
	d.Overlay(top)
	c, _, err := Parse("config.json", d.Format())
	network, _ := d.Get("network.addr")
	if err != nil || c.RPC != nil || network != "x:1" || c.Consensus.MinDelay != 120*time.Millisecond || c.MaxGasBurntView != 7 {
		t.Errorf("overlaid: %+v, %v", c, err)
	}
	if ban, _ := d.Get("network.ban_window"); string(ban.(*Document).Format()) != "{\n  \"secs\": 1,\n  \"nanos\": 2\n}" {
		t.Errorf("ban_window = %s", ban.(*Document).Format())
	}
}

// TestChooseLimitIsReadAsInNeard: without the key the limit is neard's default; null means no limit,
// which zero does not.
func TestChooseLimitIsReadAsInNeard(t *testing.T) {
	for text, want := range map[string]time.Duration{
		`{}`: 200 * time.Millisecond,
		`{"produce_chunk_add_transactions_time_limit": null}`:                       0,
		`{"produce_chunk_add_transactions_time_limit": {"secs": 0, "nanos": 0}}`:    1,
		`{"produce_chunk_add_transactions_time_limit": {"secs": 1, "nanos": 5000}}`: time.Second + 5*time.Microsecond,
	} {
		if c, _, err := Parse("config.json", []byte(text)); err != nil || c.ChooseLimit != want {
			t.Errorf("%s: limit %v, want %v, error %v", text, c.ChooseLimit, want, err)
		}
	}
}

// TestOptionalKeysMayBeNull: every key that is an Option in neard may be null, and a limit that is
// null is none.
func TestOptionalKeysMayBeNull(t *testing.T) {
	for _, path := range []string{
		"genesis_records_file", "rpc", "rosetta_rpc", "tracked_shards_config", "tracked_accounts", "tracked_shadow_validator", "tracked_shards",
		"tracked_shard_schedule", "cloud_archival", "cloud_archival_writer", "save_trie_changes", "save_tx_outcomes", "save_receipt_to_tx",
		"receipt_to_tx_max_hint_window", "receipt_to_tx_max_hop_distance", "receipt_to_tx_max_outcomes_per_request", "save_state_changes",
		"save_untracked_partial_chunks_parts", "enable_multiline_logging", "chunk_validation_threads", "trie_viewer_state_size_limit",
		"max_gas_burnt_view", "cold_store", "split_storage", "expected_shutdown", "state_sync", "epoch_sync", "transaction_pool_size_limit",
		"transaction_pool_strict_nonce_ttl_blocks", "produce_chunk_add_transactions_time_limit", "chunk_distribution_network",
		"protocol_version_check_config_override", "contract_cache_path", "enable_early_prepare_transactions", "chunks_cache_height_horizon",
		"store.path", "rpc.prometheus_addr", "rpc.experimental_debug_pages_src_path", "rpc.sharded_rpc",
		"network.so_recv_buffer_size", "network.so_send_buffer_size",
	} {
		c, warnings, err := Parse("config.json", []byte(nested(path, "null")))
		if err != nil || len(warnings) != 0 {
			t.Errorf("%s: warnings %v, error %v", path, warnings, err)
			continue
		}
		if said := c.Inert(); said != nil {
			t.Errorf("%s: output %q", path, said)
		}
	}
	c, _, err := Parse("config.json", []byte(`{"transaction_pool_size_limit": null, "trie_viewer_state_size_limit": null}`))
	// which is how those that hold them say none
	if err != nil || c.TransactionPoolSize != 0 || c.ViewStateSizeLimit != 0 {
		t.Errorf("got %+v, error %v", c, err)
	}
	for _, path := range []string{"archive", "gc_num_epochs_to_keep", "network.max_num_peers", "network", "troupe.vm.disk_bytes"} {
		if _, _, err := Parse("config.json", []byte(nested(path, "null"))); err == nil {
			t.Errorf("%s: null is accepted, but neard refuses it", path)
		}
	}
}

// TestSetLimitsApplyToLoopback: a limit that is set is used, within its bounds. A limit by address
// that is set applies to loopback addresses too.
func TestSetLimitsApplyToLoopback(t *testing.T) {
	c, _, err := Parse("config.json", []byte(`{"troupe":{"rpc":{"max_batch":7,"batch_timeout":{"secs":3,"nanos":0},"max_parked_per_address":5,"trace":false,"trusted_proxies":["10.0.0.0/8"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	l := c.RPC.Limits
	if l.Batch != 7 || l.BatchTimeout != 3*time.Second || l.AddressParked.Max != 5 || !l.AddressParked.Loopback || l.AddressConnections.Loopback ||
		l.Connections != 10_000 || c.RPC.Trace || !c.RPC.Simulate || len(c.RPC.TrustedProxies) != 1 {
		t.Errorf("rpc %+v", c.RPC)
	}
	for in, want := range map[string]string{
		`"max_batch":9223372036854775808`:              "troupe.rpc.max_batch is 9223372036854775808, must be an integer from 1 to 10000",
		`"max_connections":0`:                          "troupe.rpc.max_connections is 0, must be an integer from 1 to 1000000",
		`"max_reply_bytes":1`:                          "troupe.rpc.max_reply_bytes is 1, must be an integer from 65536",
		`"write_timeout":{"secs":86400,"nanos":0}`:     "from 1ns to 1h0m0s",
		`"max_batch":"many"`:                           "troupe.rpc.max_batch",
		`"trusted_proxies":["10.0.0.0/8","localhost"]`: `troupe.rpc.trusted_proxies is "localhost"`,
	} {
		if _, _, err := Parse("config.json", []byte(`{"troupe":{"rpc":{`+in+`}}}`)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", in, err, want)
		}
	}
}

// TestInvalidReplicaKeysAreRefused: an invalid address, server or key is refused by its name, and
// so is a replica that publishes.
func TestInvalidReplicaKeysAreRefused(t *testing.T) {
	for text, key := range map[string]string{
		`{"troupe":{"jetstream":{"listen":"nats"}}}`:                                            "troupe.jetstream.listen",
		`{"troupe":{"jetstream":{"url":"http://127.0.0.1:4222"}}}`:                              "troupe.jetstream.url",
		`{"troupe":{"jetstream":{"max_bytes":1}}}`:                                              "troupe.jetstream.max_bytes",
		`{"troupe":{"replica":{"of":"127.0.0.1:4222"}}}`:                                        "troupe.replica.of",
		`{"troupe":{"replica":{"of":"nats://a:1,nats://"}}}`:                                    "troupe.replica.of",
		`{"troupe":{"replica":{"writer_key":"AKeZ"}}}`:                                          "troupe.replica.writer_key",
		`{"troupe":{"jetstream":{"enabled":true},"replica":{"of":"nats://a:1"}}}`:               "troupe.jetstream.enabled",
		`{"troupe":{"jetstream":{"enabled":true,"url":"nats://a:1,tls://b:2","copies":3}}}`:     "",
		`{"troupe":{"replica":{"of":"nats://a:1, nats://b:2","max_lag":{"secs":1,"nanos":0}}}}`: "",
	} {
		_, _, err := Parse("config.json", []byte(text))
		if key == "" {
			if err != nil {
				t.Errorf("%s: error %v", text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v, want an error that names %s", text, err, key)
		}
	}
}

// TestFileOfNeard213KeepsItsKeys: a config.json of neard 2.13 is read, keeps its keys, and none of
// them is reported as without effect. Its timeout, which 2.14 renamed, is not added under the new
// name: neard 2.14 refuses a file with both.
func TestFileOfNeard213KeepsItsKeys(t *testing.T) {
	const older = `{"consensus":{"state_sync_external_timeout":{"secs":60,"nanos":0},"state_sync_external_backoff":{"secs":60,"nanos":0}},
"store":{"state_snapshot_config":{"state_snapshot_type":"Enabled"}},"state_sync":{"sync":{"ExternalStorage":{"location":{"GCS":{"bucket":"b"}}}}}}`
	c, warnings, err := Parse("config.json", []byte(older))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if got := c.Inert(); len(got) != 1 || !strings.HasPrefix(got[0], "state_sync: no effect") {
		t.Errorf("without effect: %q", got)
	}
	for key, want := range map[string]bool{"consensus.block_request_timeout": false, "consensus.state_sync_external_timeout": true, "consensus.sync_step_period": true} {
		if _, ok := c.Document.Get(key); ok != want {
			t.Errorf("%s exists: %v, want %v", key, ok, want)
		}
	}
	timeout := func(text string) string {
		t.Helper()
		c, _, err := Parse("config.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var out struct {
			Timeout json.RawMessage `json:"block_request_timeout"`
		}
		if err := json.Unmarshal(c.Client(&genesis.Config{}, view.Version{}), &out); err != nil {
			t.Fatal(err)
		}
		return string(out.Timeout)
	}
	for text, want := range map[string]string{
		`{}`: "[60,0]",
		`{"consensus":{"state_sync_external_timeout":{"secs":7,"nanos":5}}}`: "[7,5]",
		`{"consensus":{"block_request_timeout":{"secs":8,"nanos":0}}}`:       "[8,0]",
	} {
		if got := timeout(text); got != want {
			t.Errorf("%s: block_request_timeout %s, want %s", text, got, want)
		}
	}
	const both = `{"consensus":{"state_sync_external_timeout":{"secs":7,"nanos":5},"block_request_timeout":{"secs":8,"nanos":0}}}`
	if _, _, err := Parse("config.json", []byte(both)); err == nil || !strings.Contains(err.Error(), "block_request_timeout, which replaces it") {
		t.Errorf("both names: %v", err)
	}
}

// TestDefaultsAreThoseOfNearcore: client_config shows the defaults of near-chain-configs 0.38.0
// (testdata/defaults.jsonl.gz, made by internal/testkit/oracle/answers) for an empty config.json.
func TestDefaultsAreThoseOfNearcore(t *testing.T) {
	c, _, err := Parse("config.json", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	var shown map[string]any
	if err := json.Unmarshal(c.Client(&genesis.Config{}, view.Version{}), &shown); err != nil {
		t.Fatal(err)
	}
	n := 0
	for d := range testutil.Values[struct {
		Name  string
		Value any
	}](t, "testdata/defaults.jsonl.gz") {
		n++
		got := shown[d.Name]
		if text, ok := got.(string); ok {
			_ = json.Unmarshal([]byte(text), &got) // of keys that may change while a node runs: JSON in a string
		}
		if !reflect.DeepEqual(got, d.Value) {
			t.Errorf("%s is %v, want %v", d.Name, got, d.Value)
		}
	}
	if n < 30 {
		t.Errorf("%d defaults", n)
	}
}
