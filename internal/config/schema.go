package config

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// initJSON is what neard's plain init writes, key by key in neard's order.
//
//go:embed init.json
var initJSON []byte

// kind is the type of a key's value.
type kind string

const (
	kBool     kind = "true or false"
	kU64      kind = "an integer from 0 to 2^64-1"
	kString   kind = "a string"
	kList     kind = "a list"
	kStrings  kind = "a list of strings"
	kObject   kind = "an object"
	kRational kind = "a fraction [num, den], both from 1 to 2^31-1"
	kDuration kind = `a duration {"secs": n, "nanos": n} of at most 2^29 seconds`
	kAny      kind = "anything"
)

// rule describes the values that a key may have. choices restrict a string, min and max an integer.
type rule struct {
	kind     kind
	nullable bool
	choices  []string
	min, max uint64 // bounds of the value, durations in ns; max 0: no upper bound
	doc      string // text for docs/operate/config.md; empty: the key means the same as in neard
}

// overrides is the prefix of the keys by which neard's hard-coded limits are replaced.
const overrides = "network.experimental.network_config_overrides."

// extras are neard's keys that init does not write, or writes as null.
var extras = map[string]rule{
	schemaKey:                               {kind: kString, doc: "a JSON schema for editors, as `troupe config schema` writes it"},
	"genesis_records_file":                  {kind: kString, nullable: true},
	"rpc":                                   {kind: kObject, nullable: true},
	"rpc.addr":                              {kind: kString},
	"rpc.prometheus_addr":                   {kind: kString, nullable: true},
	"rpc.experimental_debug_pages_src_path": {kind: kString, nullable: true},
	"rpc.sharded_rpc":                       {kind: kAny, nullable: true},
	"rpc.enable_indexer_rpc":                {kind: kBool, doc: "whether `EXPERIMENTAL_indexer_block` is served"},
	"rpc.indexer_max_concurrent_requests": {kind: kU64, min: 1, max: maxCount,
		doc: "largest number of concurrent calls of `EXPERIMENTAL_indexer_block`. Further calls get `BUSY`"},
	"rosetta_rpc":                                        {kind: kAny, nullable: true},
	"store.path":                                         {kind: kString, nullable: true},
	"contract_cache_path":                                {kind: kString, nullable: true},
	"tracked_shards_config":                              {kind: kAny, nullable: true},
	"tracked_shards":                                     {kind: kList, nullable: true},
	"tracked_accounts":                                   {kind: kStrings, nullable: true},
	"tracked_shard_schedule":                             {kind: kList, nullable: true},
	"tracked_shadow_validator":                           {kind: kString, nullable: true},
	"archive":                                            {kind: kBool},
	"save_trie_changes":                                  {kind: kBool, nullable: true},
	"save_tx_outcomes":                                   {kind: kBool, nullable: true},
	"save_receipt_to_tx":                                 {kind: kBool, nullable: true},
	"save_state_changes":                                 {kind: kBool, nullable: true},
	"save_untracked_partial_chunks_parts":                {kind: kBool, nullable: true},
	"receipt_to_tx_max_hint_window":                      {kind: kU64, nullable: true, max: 10_000},
	"receipt_to_tx_max_hop_distance":                     {kind: kU64, nullable: true, max: 10_000},
	"receipt_to_tx_max_outcomes_per_request":             {kind: kU64, nullable: true, max: maxCount},
	"max_gas_burnt_view":                                 {kind: kU64, nullable: true},
	"chunk_validation_threads":                           {kind: kU64, nullable: true},
	"cold_store":                                         {kind: kAny, nullable: true},
	"split_storage":                                      {kind: kAny, nullable: true},
	"cloud_archival":                                     {kind: kAny, nullable: true},
	"cloud_archival_writer":                              {kind: kAny, nullable: true},
	"expected_shutdown":                                  {kind: kU64, nullable: true},
	"state_sync":                                         {kind: kAny, nullable: true},
	"state_sync_enabled":                                 {kind: kBool},
	"chunk_distribution_network":                         {kind: kAny, nullable: true},
	"dynamic_resharding_dry_run":                         {kind: kBool},
	"protocol_version_check_config_override":             {kind: kString, nullable: true, choices: []string{"Next", "NextNext"}},
	"transaction_pool_strict_nonce_ttl_blocks":           {kind: kU64, nullable: true},
	"enable_early_prepare_transactions":                  {kind: kBool, nullable: true},
	"view_client_throttle_period":                        {kind: kDuration},
	"view_client_num_state_requests_per_throttle_period": {kind: kU64},
	"state_sync_external_backoff":                        {kind: kDuration},
	"view_access_keys_limit": {kind: kU64, nullable: true, min: 1, max: maxU32,
		doc: "largest number of access keys in one reply of `view_access_key_list`. Request the keys after " +
			"them with `after_key` and `limit`"},
	"chunks_cache_height_horizon": {kind: kU64, nullable: true},
	"network.experimental":        {kind: kObject},
	"network.experimental.tier3_public_addr": {kind: kString, nullable: true,
		doc: "IP:port to which peers connect to send states. null: the address at which the first peer sees this node. " +
			"Behind a NAT, set it to the forwarded address: peers know only the router's address with the node's own port"},
	"network.experimental.inbound_disabled": {
		kind: kBool,
		doc:  "whether peers cannot connect unless they are in `network.whitelist_nodes`",
	},
	"network.experimental.connect_only_to_boot_nodes": {kind: kBool,
		doc: "whether the node dials no peers but `network.boot_nodes`. Other peers can still connect to it"},
	overrides + "connect_to_reliable_peers_on_startup": {kind: kBool, nullable: true,
		doc: "whether the node dials the peers of its previous run. null: yes"},
	rateLimits: {kind: kAny, nullable: true,
		doc: "limits on the messages of each connection, by neard's names of messages: `{\"rate_limits\": {\"Block\": " +
			"{\"maximum_size\": 50, \"refill_rate\": 2.5}}}` accepts 50 blocks at once and 2.5 a second. `null` instead of a limit " +
			"removes neard's. Messages above a limit are dropped and counted in `near_peer_message_rate_limited_by_type_total`. " +
			"By default, EpochSyncRequest and EpochSyncResponse are limited, to one in 30 s"},
	overrides + "outbound_disabled": {kind: kBool, nullable: true,
		doc: "whether the node dials no peers, not even boot nodes. null: no"},
	overrides + "max_send_peers": {kind: kU64, nullable: true, max: maxPeersSent,
		doc: "largest number of known peers that the node reports to a peer that asks for peers. null: 512"},
	overrides + "routed_message_ttl": {kind: kU64, nullable: true, min: 1, max: 255,
		doc: "number of hops after which a message of this node is dropped. null: 100"},
	"network.outgoing_queue_limiter_capacity_bytes": {kind: kU64, nullable: true},
	"network.max_write_buffer_capacity_bytes":       {kind: kU64, nullable: true},

	// Keys that init of neard 2.13 and older wrote; see olderInit.
	"consensus.state_sync_external_timeout": {kind: kDuration},
	"consensus.state_sync_external_backoff": {kind: kDuration},
	"store.state_snapshot_config":           {kind: kAny, nullable: true},

	"network.blacklist": {kind: kStrings},
	"network.public_addrs": {kind: kStrings,
		doc: "at most ten addresses at which other validators reach this validator, each node_key@ip:port. " +
			"They are the validator's own, or those of nodes that forward to it. The node publishes those to " +
			"which it can connect under the validator's key"},
	"network.trusted_stun_servers": {kind: kStrings,
		doc: "STUN servers, each host:port, at most 20. A validator whose `network.public_addrs` is empty asks them for " +
			"its IP address, and publishes it with its own port as in neard: if all answers are equal, and once the node " +
			"can connect to itself there. The servers of `init` are asked on mainnet and testnet only"},
}

// optional are the keys that init writes with a value and that neard also accepts as null.
var optional = []string{
	"network.so_recv_buffer_size", "network.so_send_buffer_size", "enable_multiline_logging", "trie_viewer_state_size_limit", "epoch_sync",
	"transaction_pool_size_limit", "produce_chunk_add_transactions_time_limit",
}

// Upper bounds of our own integer keys. The bounds are far above what a machine has, but low enough
// that no sum or conversion of the values overflows.
const (
	maxCount  = 1 << 30 // largest number of items
	maxMemory = 1 << 50 // bytes
	maxDisk   = 1 << 60 // bytes
	maxU32    = 1<<32 - 1
	maxI32    = 1<<31 - 1

	maxSeconds = 1 << 29 // seconds of a duration; some durations are multiplied by ten
)

// bounds are the bounds of neard's integers that init writes: the range of nearcore's type, or the
// smaller range that a node can use.
var bounds = map[string]struct{ min, max uint64 }{
	"rpc.limits_config.json_payload_max_size":              {1, maxI32},
	"network.max_num_peers":                                {0, maxU32},
	"network.minimum_outbound_peers":                       {0, maxU32},
	"network.ideal_connections_lo":                         {0, maxU32},
	"network.ideal_connections_hi":                         {0, maxU32},
	"network.so_recv_buffer_size":                          {0, maxU32},
	"network.so_send_buffer_size":                          {0, maxU32},
	"network.safe_set_size":                                {0, maxU32},
	"network.tier1.new_connections_per_attempt":            {0, maxCount},
	"network.archival_peer_connections_lower_bound":        {0, maxU32},
	"network.peer_states_cache_size":                       {0, maxU32},
	"network.snapshot_hosts_cache_size":                    {0, maxU32},
	"network.experimental.skip_sending_tombstones_seconds": {0, 1<<63 - 1},
	"consensus.header_sync_expected_height_per_second":     {1, 0},
	"consensus.sync_height_threshold":                      {0, maxCount},
	"consensus.sync_max_block_requests":                    {1, maxCount},
	"epoch_sync.epoch_sync_horizon_num_epochs":             {0, maxHorizon},
	"gc_blocks_limit":                                      {1, maxCount},
	"gc_fork_clean_step":                                   {1, 0},
	"gc_num_epochs_to_keep":                                {1, maxCount},
	"store.max_open_files":                                 {0, maxU32},
	"transaction_pool_size_limit":                          {1, maxDisk},
	"tx_routing_height_horizon":                            {2, 100},
	"transaction_pool_strict_nonce_ttl_blocks":             {0, maxCount},
}

// open lists the objects whose keys the user chooses.
var open = []string{"store.trie_cache.per_shard_max_bytes", "store.view_trie_cache.per_shard_max_bytes"}

// schema maps the dotted path of every key to its rule. The rules are made from the values of
// init.json, then extras.
var schema = sync.OnceValue(buildSchema)

func buildSchema() map[string]rule {
	doc := initial()
	rules := map[string]rule{}
	var add func(prefix string, d *Document)
	add = func(prefix string, d *Document) {
		for _, k := range d.keys {
			path := prefix + k
			r := rule{kind: kAny, nullable: true}
			switch v := d.values[k].(type) {
			case *Document:
				r = rule{kind: kObject}
				if isDuration(v) {
					r.kind = kDuration
				} else {
					add(path+".", v)
				}
			case []any:
				r = rule{kind: kList}
				if strings.HasSuffix(k, "_mult") {
					r.kind = kRational
				}
			case string:
				r = rule{kind: kString}
			case bool:
				r = rule{kind: kBool}
			case json.Number:
				r = rule{kind: kU64}
			}
			rules[path] = r
		}
	}
	add("", doc)
	maps.Copy(rules, extras)
	maps.Copy(rules, ownKeys)
	rules["rpc.cors_allowed_origins"] = rule{kind: kStrings}
	for path, b := range bounds {
		r, ok := rules[path]
		if !ok || r.kind != kU64 {
			panic("config: " + path + " has bounds, but is not an integer")
		}
		r.min, r.max = b.min, b.max
		rules[path] = r
	}
	for _, path := range optional {
		r, ok := rules[path]
		if !ok {
			panic("config: " + path + " may be null, but is not in the schema")
		}
		r.nullable = true
		rules[path] = r
	}
	for i := range limits.Table {
		l := &limits.Table[i]
		r := rule{kind: kU64, min: l.Min, max: l.Max, doc: l.Doc}
		if l.Time != nil {
			r.kind = kDuration
		}
		rules["troupe.rpc."+l.Key] = r
	}
	return rules
}

func isDuration(d *Document) bool {
	return len(d.keys) == 2 && d.values["secs"] != nil && d.values["nanos"] != nil
}

// Warning reports an unknown key.
type Warning struct {
	Path    string
	Nearest string // most similar known key; empty: none is similar
}

func (w Warning) String() string {
	s := fmt.Sprintf("unknown key %q is ignored", w.Path)
	if w.Nearest != "" {
		s += fmt.Sprintf("; did you mean %q?", w.Nearest)
	}
	return s
}

// Error reports a value that is not allowed.
type Error struct {
	File, Key, Value, Allowed string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s is %s, must be %s", e.File, e.Key, e.Value, e.Allowed)
}

// check checks a document against the schema. The error joins an Error for each bad value.
func check(file string, d *Document) (warnings []Warning, err error) {
	var errs []error
	var walk func(prefix string, d *Document)
	walk = func(prefix string, d *Document) {
		for _, k := range d.keys {
			path, v := prefix+k, d.values[k]
			r, known := schema()[path]
			if !known {
				if len(warnings) < maxWarnings && !slices.Contains(open, strings.TrimSuffix(prefix, ".")) {
					warnings = append(warnings, Warning{Path: path, Nearest: nearest(path)})
				}
				continue
			}
			if !r.allows(v) {
				errs = append(errs, &Error{File: file, Key: path, Value: showValue(v), Allowed: r.String()})
				continue
			}
			if sub, ok := v.(*Document); ok && r.kind == kObject {
				walk(path+".", sub)
			}
		}
	}
	walk("", d)
	return warnings, errors.Join(errs...)
}

func (r rule) String() string {
	s := string(r.kind)
	switch {
	case r.choices != nil:
		s = "one of " + strings.Join(r.choices, ", ")
	case r.kind == kDuration && r.max > 0:
		s += fmt.Sprintf(" from %v to %v", time.Duration(r.min), time.Duration(r.max))
	case r.kind == kU64 && r.max > 0:
		s = fmt.Sprintf("an integer from %d to %d", r.min, r.max)
	case r.kind == kU64 && r.min > 0:
		s = fmt.Sprintf("an integer from %d to 2^64-1", r.min)
	}
	if r.nullable {
		s += ", or null"
	}
	return s
}

func (r rule) allows(v any) bool {
	if v == nil {
		return r.nullable || r.kind == kAny
	}
	switch r.kind {
	case kBool:
		_, ok := v.(bool)
		return ok
	case kU64:
		n, ok := asU64(v)
		return ok && n >= r.min && (r.max == 0 || n <= r.max)
	case kString:
		s, ok := v.(string)
		return ok && (r.choices == nil || slices.Contains(r.choices, s))
	case kList, kStrings:
		list, ok := v.([]any)
		return ok && (r.kind == kList || !slices.ContainsFunc(list, func(x any) bool { _, is := x.(string); return !is }))
	case kObject:
		_, ok := v.(*Document)
		return ok
	case kRational:
		_, _, ok := asRational(v)
		return ok
	case kDuration:
		t, ok := asDuration(v)
		return ok && (r.max == 0 || t >= time.Duration(r.min) && t <= time.Duration(r.max))
	}
	return true
}

func asU64(v any) (uint64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	u, err := strconv.ParseUint(string(n), 10, 64)
	return u, err == nil
}

func asRational(v any) (num, den uint64, ok bool) {
	list, isList := v.([]any)
	if !isList || len(list) != 2 {
		return 0, 0, false
	}
	num, ok1 := asU64(list[0])
	den, ok2 := asU64(list[1])
	return num, den, ok1 && ok2 && den > 0 && num > 0 && num < 1<<31 && den < 1<<31
}

func showValue(v any) string {
	if d, ok := v.(*Document); ok {
		return "an object with keys " + strings.Join(d.keys, ", ")
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(b) > 100 {
		return string(b[:100]) + "..."
	}
	return string(b)
}

// Limits on warnings about unknown keys: the file may be from an untrusted source.
const (
	maxGuess    = 100 // maximum length of an unknown key for which a similar key is searched, in characters
	maxWarnings = 50
)

// nearest returns the known key closest to path, if that key is close enough to be a misspelling.
func nearest(path string) string {
	if len(path) > maxGuess {
		return ""
	}
	best, bestDistance := "", 1+len(path)/3
	for _, k := range slices.Sorted(maps.Keys(schema())) {
		if d := distance(path, k); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two strings.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
