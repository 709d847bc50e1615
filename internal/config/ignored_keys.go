package config

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
)

// inert maps neard's keys that have no effect here to the reason. A key stands for every key below
// itself; if several keys match, the longest one applies. TestEachKeyIsUsedOrInert requires every
// key of the schema to be here or to change Config.
var inert = map[string]string{
	schemaKey:                             "it is for editors",
	"network":                             "neard's default applies",
	overrides + "max_routes_to_store":     "the routing graph has its own bounds (net/near/graph.go)",
	overrides + "highest_peer_horizon":    "sync chooses its peers by the heights that they report",
	overrides + "push_info_period_millis": "the state of the network is read when it is needed",
	overrides + "accounts_data_broadcast_rate_limit_burst": "neard's default rate applies",
	overrides + "accounts_data_broadcast_rate_limit_qps":   "neard's default rate applies",
	overrides + "routing_table_update_rate_limit_burst":    "the interval grows with the routing graph (net/near/tick.go)",
	overrides + "routing_table_update_rate_limit_qps":      "the interval grows with the routing graph (net/near/tick.go)",
	overrides + "routing_graph_max_edges_per_message":      "the routing graph has its own bounds (net/near/graph.go)",
	overrides + "routing_graph_max_edges_per_source":       "the routing graph has its own bounds (net/near/graph.go)",
	overrides + "routing_graph_max_peers":                  "the routing graph has its own bounds (net/near/graph.go)",
	overrides + "routing_graph_max_edges":                  "the routing graph has its own bounds (net/near/graph.go)",
	overrides + "routing_graph_max_accounts_per_message":   "the routing graph has its own bounds (net/near/graph.go)",
	"telemetry":                                          "the node sends no telemetry",
	"rosetta_rpc":                                        "there is no Rosetta API",
	"rpc.sharded_rpc":                                    "this node answers every request itself",
	"rpc.polling_config":                                 "waiting requests are woken by blocks, without polling",
	"rpc.experimental_debug_pages_src_path":              "there are no debug pages",
	"consensus":                                          "sync has its own timers, and does not wait for a number of peers",
	"consensus.doomslug_step_period":                     "votes are sent at events and timers, not in periodic steps",
	"consensus.block_production_tracking_delay":          "blocks are produced at events and timers, not in periodic steps",
	"log_summary_style":                                  "the log has only one style",
	"enable_multiline_logging":                           "the log has only one style",
	"gc_fork_clean_step":                                 "blocks of forks are garbage-collected with other blocks of their height",
	"view_client_threads":                                "the number of threads follows from the number of processors",
	"transaction_request_handler_threads":                "the number of threads follows from the number of processors",
	"chunk_validation_threads":                           "the number of threads follows from the number of processors",
	"state_request_throttle_period":                      "neard's default rate applies",
	"state_requests_per_throttle_period":                 "neard's default rate applies",
	"state_request_server_threads":                       "state requests are served by the threads that serve other requests",
	"store":                                              "the database is not neard's; its settings are in troupe.storage",
	"epoch_sync":                                         "peers send states in one form only",
	"state_sync":                                         "states are downloaded from peers only",
	"state_sync_enabled":                                 "states are downloaded from peers only",
	"state_sync_external_backoff":                        "states are downloaded from peers only",
	"resharding_config":                                  "resharding does not work in batches",
	"dynamic_resharding_dry_run":                         "there is no dry run of a resharding",
	"chunk_distribution_network":                         "chunks are fetched from peers only",
	"orphan_state_witness_pool_size":                     "neard's default applies",
	"orphan_state_witness_max_size":                      "neard's default applies",
	"save_latest_witnesses":                              "the node keeps no state witnesses for debugging",
	"save_invalid_witnesses":                             "the node keeps no state witnesses for debugging",
	"max_loaded_contracts":                               "troupe.vm.memory_bytes bounds the contracts that are loaded",
	"contract_cache_max_size":                            "troupe.vm.disk_bytes bounds the contracts on disk",
	"save_trie_changes":                                  "the key archive and garbage collection decide what is kept",
	"save_state_changes":                                 "state changes are always kept",
	"save_untracked_partial_chunks_parts":                "of untracked shards, only receipts to tracked shards are kept",
	"cold_store":                                         "there is one database; with archive it keeps everything",
	"split_storage":                                      "there is one database; with archive it keeps everything",
	"cloud_archival":                                     "there is one database; with archive it keeps everything",
	"cloud_archival_writer":                              "there is one database; with archive it keeps everything",
	"expected_shutdown":                                  "the node cannot stop at a given height",
	"enable_early_prepare_transactions":                  "transactions are chosen when the chunk is produced",
	"view_client_throttle_period":                        "neard's default rate applies",
	"view_client_num_state_requests_per_throttle_period": "neard's default rate applies",
	"protocol_version_check_config_override":             "the node votes by the schedule of nearcore's releases, for the newest version that it can execute",
	"chunks_cache_height_horizon":                        "neard's default applies",
	"network.skip_sync_wait":                             "sync and block production wait for no number of peers",
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
	"consensus.sync_height_threshold": true, "consensus.sync_max_block_requests": true,
	"consensus.header_sync_initial_timeout": true,
	"consensus.state_sync_p2p_timeout":      true, "consensus.state_sync_retry_backoff": true,
	"epoch_sync.epoch_sync_horizon_num_epochs": true, "epoch_sync.timeout_for_epoch_sync": true,
	"network.addr": true, "network.boot_nodes": true, "network.whitelist_nodes": true, "network.blacklist": true,
	"network.max_num_peers":          true,
	"network.minimum_outbound_peers": true, "network.ideal_connections_lo": true, "network.ideal_connections_hi": true,
	"network.safe_set_size": true,
	"network.transport":     true, "network.libp2p.addr": true, "network.libp2p.quic": true, "network.libp2p.mdns": true,
	"network.libp2p.nat_port_map":  true,
	"network.tier1.enable_inbound": true, "network.tier1.enable_outbound": true, "network.tier1.connect_interval": true,
	"network.tier1.advertise_proxies_interval": true, "network.tier1.new_connections_per_attempt": true,
	"network.experimental.tier3_public_addr": true, "network.experimental.inbound_disabled": true,
	"network.experimental.connect_only_to_boot_nodes":      true,
	"network.experimental.skip_sending_tombstones_seconds": true,
	overrides + "connect_to_reliable_peers_on_startup":     true, overrides + "outbound_disabled": true,
	rateLimits: true, overrides + "max_send_peers": true, overrides + "routed_message_ttl": true,
	"network.public_addrs": true, "network.allow_private_ip_in_public_addrs": true, "network.trusted_stun_servers": true,
}

// initPublic are the values without effect that init writes for mainnet and testnet, as neard's init
// does, where they differ from those of other chains. The endpoint tells such a config.json apart.
var initPublic = map[string]string{
	"telemetry.endpoints":    `["https://telemetry.nearone.org/nodes"]`,
	"network.skip_sync_wait": "false",
}

// Inert lists the config keys that are set to a value other than init's and that this node ignores.
// The result has one line per reason, in file order.
func (c *Config) Inert() []string {
	initial, schema := initial(), schema()
	endpoints, _ := c.Document.Get("telemetry.endpoints")
	public := asWritten(endpoints) == initPublic["telemetry.endpoints"]
	var reasons []string
	keys := map[string][]string{}
	var walk func(prefix string, d *Document)
	walk = func(prefix string, d *Document) {
		for _, k := range d.keys {
			path, v := prefix+k, d.values[k]
			r, known := schema[path]
			if !known || path == schemaKey {
				continue
			}
			if sub, ok := v.(*Document); ok && r.kind == kObject && !slices.Contains(open, path) {
				walk(path+".", sub)
				continue
			}
			why, ok := withoutEffect(path)
			if !ok || v == nil || asWritten(v) == asWritten(ordinary(initial, path)) || public && asWritten(v) == initPublic[path] {
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

// olderInit has the keys that init of neard 2.13 and older wrote and that init of 2.14 does not
// write. nearcore renamed one of these keys, consensus.state_sync_external_timeout, to
// block_request_timeout, and removed all the rest.
var olderInit = sync.OnceValue(func() *Document {
	return embedded("keys of older files", []byte(`{"consensus":{"state_sync_external_timeout":{"secs":60,"nanos":0},
"state_sync_external_backoff":{"secs":60,"nanos":0}},"store":{"state_snapshot_config":{"state_snapshot_type":"Enabled"}}}`))
})

// ordinary returns the value of a key for which Inert reports nothing. That is the value that init
// writes or wrote, if any, else the zero value of the key's kind.
func ordinary(initial *Document, path string) any {
	for _, d := range []*Document{initial, olderInit()} {
		if v, ok := d.Get(path); ok && v != nil {
			return v
		}
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
	b, _ := json.Marshal(v) // cannot fail: the value came from JSON
	return string(b)
}
