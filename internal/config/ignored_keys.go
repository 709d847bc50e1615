package config

import (
	"encoding/json"
	"slices"
	"strings"
)

// inert maps neard's keys that have no effect here to the reason. A key stands for every key below
// it; the longest match applies. TestInert requires every key of the schema to be here or to change
// Config.
var inert = map[string]string{
	"network":                               "neard's default applies",
	"telemetry":                             "the node sends no telemetry",
	"rosetta_rpc":                           "there is no Rosetta API",
	"rpc.sharded_rpc":                       "every request is answered here",
	"rpc.polling_config":                    "waiting requests are woken by blocks, without polling",
	"rpc.experimental_debug_pages_src_path": "there are no debug pages",
	"consensus":                             "a node that lags asks its peers at once, and never waits for a number of peers",
	"consensus.doomslug_step_period":        "votes follow events and timers, not steps",
	"consensus.block_production_tracking_delay":          "blocks follow events and timers, not steps",
	"log_summary_style":                                  "the log has one style",
	"enable_multiline_logging":                           "the log has one style",
	"gc_fork_clean_step":                                 "forks are collected with their heights",
	"view_client_threads":                                "threads follow the processors",
	"transaction_request_handler_threads":                "threads follow the processors",
	"chunk_validation_threads":                           "threads follow the processors",
	"state_request_throttle_period":                      "neard's default rate applies",
	"state_requests_per_throttle_period":                 "neard's default rate applies",
	"state_request_server_threads":                       "the threads of other requests serve states",
	"store":                                              "the store is not neard's; troupe.storage has its settings",
	"epoch_sync":                                         "states come from peers as they are",
	"state_sync":                                         "states come from other nodes, and from nowhere else",
	"state_sync_enabled":                                 "states come from other nodes, and from nowhere else",
	"state_sync_external_backoff":                        "states come from other nodes, and from nowhere else",
	"resharding_config":                                  "a resharding is not done in batches",
	"dynamic_resharding_dry_run":                         "a resharding is not tried in advance",
	"chunk_distribution_network":                         "chunks come from peers alone",
	"produce_chunk_add_transactions_time_limit":          "a chunk is bounded by its gas and size, not by time",
	"orphan_state_witness_pool_size":                     "neard's default applies",
	"orphan_state_witness_max_size":                      "neard's default applies",
	"save_latest_witnesses":                              "the node keeps no state witnesses for debugging",
	"save_invalid_witnesses":                             "the node keeps no state witnesses for debugging",
	"max_loaded_contracts":                               "troupe.vm.memory_bytes bounds the contracts that are loaded",
	"contract_cache_max_size":                            "troupe.vm.disk_bytes bounds the contracts on disk",
	"save_trie_changes":                                  "garbage collection decides, or archive",
	"save_state_changes":                                 "changes are always kept",
	"save_untracked_partial_chunks_parts":                "of untracked shards only the receipts to tracked ones are kept",
	"cold_store":                                         "there is one store; archive keeps everything in it",
	"split_storage":                                      "there is one store; archive keeps everything in it",
	"cloud_archival":                                     "there is one store; archive keeps everything in it",
	"cloud_archival_writer":                              "there is one store; archive keeps everything in it",
	"expected_shutdown":                                  "the node does not stop at a height",
	"enable_early_prepare_transactions":                  "transactions are chosen when the chunk is made",
	"view_client_throttle_period":                        "neard's default rate applies",
	"view_client_num_state_requests_per_throttle_period": "neard's default rate applies",
	"protocol_version_check_config_override":             "the node votes for the newest version that it can execute",
	"chunks_cache_height_horizon":                        "neard's default applies",
}

// withoutEffect returns the reason why a key has no effect; false for a key that has one.
func withoutEffect(path string) (string, bool) {
	for {
		if why, ok := inert[path]; ok {
			return why, true
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 || used[path] {
			return "", false
		}
		path = path[:i]
	}
}

// used are keys that have an effect although a key above them is in inert.
var used = map[string]bool{
	"rpc.polling_config.polling_timeout": true, "store.path": true,
	"consensus.min_block_production_delay": true, "consensus.max_block_production_delay": true,
	"consensus.max_block_wait_delay": true, "consensus.chunk_wait_mult": true, "consensus.produce_empty_blocks": true,
	"consensus.sync_height_threshold": true, "consensus.sync_max_block_requests": true, "consensus.header_sync_initial_timeout": true,
	"consensus.state_sync_p2p_timeout": true, "consensus.state_sync_retry_backoff": true,
	"epoch_sync.epoch_sync_horizon_num_epochs": true, "epoch_sync.timeout_for_epoch_sync": true,
	"network.addr": true, "network.boot_nodes": true, "network.whitelist_nodes": true, "network.blacklist": true, "network.max_num_peers": true,
	"network.minimum_outbound_peers": true, "network.ideal_connections_lo": true, "network.ideal_connections_hi": true, "network.safe_set_size": true,
	"network.transport": true, "network.libp2p.addr": true, "network.libp2p.quic": true, "network.libp2p.mdns": true, "network.libp2p.nat_port_map": true,
	"network.tier1.enable_inbound": true, "network.tier1.enable_outbound": true, "network.tier1.connect_interval": true,
	"network.public_addrs": true,
}

// Inert lists the config keys that are set to a value other than init's and that this node
// ignores. It returns one line per reason, in file order.
func (c *Config) Inert() []string {
	initial, schema := initial(), schema()
	var reasons []string
	keys := map[string][]string{}
	var walk func(prefix string, d *Document)
	walk = func(prefix string, d *Document) {
		for _, k := range d.keys {
			path, v := prefix+k, d.values[k]
			r, known := schema[path]
			if !known {
				continue
			}
			if sub, ok := v.(*Document); ok && r.kind == kObject && !slices.Contains(open, path) {
				walk(path+".", sub)
				continue
			}
			why, ok := withoutEffect(path)
			if !ok || v == nil || asWritten(v) == asWritten(ordinary(initial, path)) {
				continue
			}
			if keys[why] == nil {
				reasons = append(reasons, why)
			}
			keys[why] = append(keys[why], path)
		}
	}
	walk("", c.Document)
	for i, why := range reasons {
		reasons[i] = strings.Join(keys[why], ", ") + ": no effect, " + why
	}
	return reasons
}

// ordinary returns the value of a key that asks for nothing: the value that init writes, else the
// zero value of its kind.
func ordinary(initial *Document, path string) any {
	if v, ok := initial.Get(path); ok && v != nil {
		return v
	}
	switch r := schema()[path]; r.kind {
	case kBool:
		return false
	case kList, kStrings:
		return []any{}
	}
	return nil
}

func asWritten(v any) string {
	if d, ok := v.(*Document); ok {
		return string(d.Format())
	}
	b, _ := json.Marshal(v) // what was read from JSON
	return string(b)
}
