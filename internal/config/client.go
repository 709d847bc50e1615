package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// Client returns the reply of client_config (near-chain-configs 0.38.0 src/client_config.rs, and
// members that only nearcore f0c7706f1 has). The reply contains the effective values of
// config.json, and some values of the genesis. Keys are sorted at every depth. Keys without effect
// here have the value that neard would use.
func (c *Config) Client(g *genesis.Config, version view.Version) []byte {
	d := c.Document
	get := func(path string, otherwise any) any {
		if v, ok := d.Get(path); ok && v != nil {
			return plain(v)
		}
		return otherwise
	}
	short := func(path string, otherwise [2]uint64) any { // formats a duration as [seconds, nanoseconds]
		if v, ok := d.Get(path); ok {
			if t, ok := asDuration(v); ok {
				return [2]uint64{uint64(t) / 1e9, uint64(t) % 1e9}
			}
		}
		return otherwise
	}
	text := func(v any) string { // encodes a value that neard can reload: JSON within a string
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v) // cannot fail: the value came from JSON
		return string(bytes.TrimRight(b.Bytes(), "\n"))
	}
	isRPC := c.Archive || !c.TrackedShards.None && c.TrackedShards.ShadowValidator == ""
	outcomes := get("save_tx_outcomes", isRPC)
	sync := any(map[string]any{"parts_compression_lvl": 0})
	if v, ok := d.Get("state_sync"); ok && v != nil {
		given, _ := plain(v).(map[string]any)
		sync = with(given, "parts_compression_lvl", 1)
	}
	resharding := "null"
	if v, ok := d.Get("resharding_config"); ok && v != nil {
		resharding = compact(v)
	}
	addr := any(nil)
	if c.RPC != nil {
		addr = c.RPC.Addr
	}
	out := map[string]any{
		"archive": c.Archive, "chain_id": g.ChainID, "epoch_length": g.EpochLength, "num_block_producer_seats": g.NumBlockProducerSeats,
		"rpc_addr": addr,
		"version": map[string]any{
			"build": version.Build, "commit": version.Commit, "rustc_version": version.Compiler, "version": version.Version},

		"block_production_tracking_delay":           text(short("consensus.block_production_tracking_delay", [2]uint64{0, 10_000_000})),
		"min_block_production_delay":                text(short("consensus.min_block_production_delay", [2]uint64{0, 600_000_000})),
		"max_block_production_delay":                text(short("consensus.max_block_production_delay", [2]uint64{2, 0})),
		"max_block_wait_delay":                      text(short("consensus.max_block_wait_delay", [2]uint64{6, 0})),
		"doomslug_step_period":                      text(short("consensus.doomslug_step_period", [2]uint64{0, 10_000_000})),
		"chunk_wait_mult":                           text(get("consensus.chunk_wait_mult", [2]int{1, 3})),
		"produce_chunk_add_transactions_time_limit": text(shortOrNull(d, "produce_chunk_add_transactions_time_limit")),
		"expected_shutdown":                         text(get("expected_shutdown", nil)),
		"resharding_config":                         resharding,

		"skip_sync_wait": get(
			"network.skip_sync_wait",
			true,
		), "ttl_account_id_router": short("network.ttl_account_id_router", [2]uint64{3600, 0}),
		"tracked_shards_config": c.tracked(), "state_sync": sync,
		"gc": map[string]any{"gc_blocks_limit": get("gc_blocks_limit", 2), "gc_fork_clean_step": get("gc_fork_clean_step", 100),
			"gc_num_epochs_to_keep": get("gc_num_epochs_to_keep", 5), "gc_step_period": get("gc_step_period", nil)},
		"epoch_sync": get("epoch_sync", map[string]any{
			"epoch_sync_horizon_num_epochs": 2, "timeout_for_epoch_sync": map[string]any{"secs": 60, "nanos": 0}}),
		"save_trie_changes": get("save_trie_changes", !c.Archive), "save_tx_outcomes": outcomes,
		"save_receipt_to_tx":                       get("save_receipt_to_tx", outcomes),
		"save_state_changes":                       get("save_state_changes", true),
		"save_untracked_partial_chunks_parts":      get("save_untracked_partial_chunks_parts", true),
		"receipt_to_tx_max_hint_window":            get("receipt_to_tx_max_hint_window", 20),
		"receipt_to_tx_max_hop_distance":           get("receipt_to_tx_max_hop_distance", 20),
		"receipt_to_tx_max_outcomes_per_request":   get("receipt_to_tx_max_outcomes_per_request", 20_000),
		"transaction_pool_strict_nonce_ttl_blocks": get("transaction_pool_strict_nonce_ttl_blocks", 64),
		"enable_multiline_logging":                 get("enable_multiline_logging", true),
		"enable_statistics_export":                 get("store.enable_statistics_export", true),
		"chunk_validation_threads":                 get("chunk_validation_threads", 4),
		"client_background_migration_threads":      8,
		"chunks_cache_height_horizon":              get("chunks_cache_height_horizon", 2),
		"enable_early_prepare_transactions":        get("enable_early_prepare_transactions", false),
		"protocol_version_check":                   get("protocol_version_check_config_override", "NextNext"),
	}
	// Up to nearcore 2.13 this key was state_sync_external_timeout, which is still read and also
	// shown.
	timeout := blockTimeout
	if _, ok := d.Get(olderBlockTimeout); ok {
		timeout = olderBlockTimeout
	}
	out["block_request_timeout"] = short(timeout, [2]uint64{60, 0})
	out["state_sync_external_timeout"] = out["block_request_timeout"]
	out["state_sync_external_backoff"] = short("consensus.state_sync_external_backoff", [2]uint64{60, 0})
	for _, k := range clientDurations {
		out[lastOf(k)] = short(k, [2]uint64{})
	}
	for _, k := range clientValues {
		out[lastOf(k)] = get(k, nil)
	}
	return []byte(text(out))
}

// Keys that client_config returns as config.json contains them: durations as [seconds,
// nanoseconds], all other values unchanged.
var (
	clientDurations = []string{
		"consensus.catchup_step_period", "consensus.chunk_request_retry_period", "consensus.header_sync_initial_timeout",
		"consensus.header_sync_progress_timeout", "consensus.header_sync_stall_ban_timeout",
		"consensus.state_sync_p2p_timeout", "consensus.state_sync_retry_backoff", "consensus.sync_check_period",
		"consensus.sync_step_period", "log_summary_period", "state_request_throttle_period",
	}
	clientValues = []string{
		"consensus.block_header_fetch_horizon", "consensus.header_sync_expected_height_per_second", "consensus.min_num_peers",
		"consensus.produce_empty_blocks", "consensus.sync_height_threshold", "consensus.sync_max_block_requests", "chunk_distribution_network",
		"cloud_archival_writer", "disable_tx_routing", "log_summary_style", "max_gas_burnt_view", "orphan_state_witness_max_size",
		"orphan_state_witness_pool_size", "save_invalid_witnesses", "save_latest_witnesses", "state_request_server_threads",
		"state_requests_per_throttle_period", "transaction_pool_size_limit", "transaction_request_handler_threads",
		"trie_viewer_state_size_limit", "tx_routing_height_horizon", "view_access_keys_limit", "view_client_threads",
	}
)

func lastOf(path string) string { return path[bytes.LastIndexByte([]byte(path), '.')+1:] }

// tracked returns tracked_shards_config, or its equivalent for the older keys.
func (c *Config) tracked() any {
	if v, ok := c.Document.Get("tracked_shards_config"); ok && v != nil {
		return plain(v)
	}
	switch t := &c.TrackedShards; {
	case t.Schedule != nil:
		return map[string]any{"Schedule": t.Schedule}
	case t.ShadowValidator != "":
		return map[string]any{"ShadowValidator": t.ShadowValidator}
	case len(t.Accounts) > 0:
		return map[string]any{"Accounts": t.Accounts}
	case t.All:
		return "AllShards"
	}
	return "NoShards"
}

func shortOrNull(d *Document, path string) any {
	v, _ := d.Get(path)
	if t, ok := asDuration(v); ok {
		return [2]uint64{uint64(t) / 1e9, uint64(t) % 1e9}
	}
	return nil
}

// with returns m with one more member, unless m already has a member of that name.
func with(m map[string]any, name string, v any) map[string]any {
	out := map[string]any{name: v}
	maps.Copy(out, m)
	return out
}

// plain converts a value to one that encoding/json writes with sorted keys.
func plain(v any) any {
	switch v := v.(type) {
	case *Document:
		m := map[string]any{}
		for _, k := range v.keys {
			m[k] = plain(v.values[k])
		}
		return m
	case []any:
		out := slices.Clone(v)
		for i := range out {
			out[i] = plain(out[i])
		}
		return out
	}
	return v
}

// compact formats a value on one line, with the keys of an object in the order of the document.
func compact(v any) string {
	d, ok := v.(*Document)
	if !ok {
		b, _ := json.Marshal(v) // cannot fail: the value came from JSON
		return string(b)
	}
	var b bytes.Buffer
	_ = json.Compact(&b, d.Format()) // cannot fail: the text was formatted here
	return b.String()
}
