package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// others are values that a key of a kind may be tried with; one of them is not what init writes.
var others = map[kind][]string{
	kBool: {"true", "false"}, kU64: {"3", "7", "2097152"}, kList: {`[[0]]`, `[]`, `["a"]`}, kStrings: {`["a.near"]`, `["a.near:1"]`, `["10.0.0.1"]`, `["ed25519:9CzDfWgcHZpnTX1ZdvsvbK2kPbQdTpFmDp6SkgRz9qfU@1.2.3.4:5"]`},
	kString:   {`"other"`, `"1.2.3.4:5"`, `"a.near"`, `"interval"`, `"release"`, `"nearcore"`, `"Next"`, `"all"`, `"http://127.0.0.1:4318/v1/traces"`, `"ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr@1.2.3.4:5"`, `"nats://1.2.3.4:5"`, `"ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr"`},
	kRational: {`[2,3]`}, kDuration: {`{"secs":1,"nanos":7}`, `{"secs":9,"nanos":7}`}, kAny: {`{"rate_limits":{"Block":null}}`, `"NoShards"`, `{"a":1}`},
}

// nested is a document with one key.
func nested(path, value string) string {
	parts := strings.Split(path, ".")
	return `{"` + strings.Join(parts, `":{"`) + `":` + value + strings.Repeat("}", len(parts))
}

// TestEachKeyIsUsedOrInert requires that every key that neard or Troupe knows either changes Config
// or is listed as having no effect, and not both.
func TestEachKeyIsUsedOrInert(t *testing.T) {
	plain, _, err := Parse("config.json", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if got := plain.Inert(); got != nil {
		t.Errorf("inert keys of init's file: %q", got)
	}
	bare := func(c *Config) string {
		d := *c
		d.Document = nil
		d.RPC = nil
		return fmt.Sprintf("%+v %+v", d, c.RPC)
	}
	for _, path := range slices.Sorted(maps.Keys(schema())) {
		r := schema()[path]
		if r.kind == kObject || slices.Contains(open, path[:max(strings.LastIndexByte(path, '.'), 0)]) || path == "rpc" || path == schemaKey {
			continue // schemaKey: TestSchemaKeyIsIgnoredSilently
		}
		if path == "troupe.history.source" {
			continue // it is refused alone: TestHistorySourceNeedsAnArchive
		}
		tried, effect, said := 0, false, false
		values := others[r.kind]
		if r.kind == kU64 && r.min > 0 {
			values = append(slices.Clone(values), fmt.Sprint(r.min+1))
		}
		for _, choice := range r.choices {
			values = append(slices.Clone(values), strconv.Quote(choice))
		}
		for _, value := range values {
			c, _, err := Parse("config.json", []byte(nested(path, value)))
			if err != nil {
				continue
			}
			tried++
			effect = effect || bare(c) != bare(plain)
			for _, line := range c.Inert() {
				said = said || strings.HasPrefix(line, path+": no effect, ")
			}
		}
		if tried == 0 {
			t.Errorf("%s: no value to try it with", path)
		}
		if effect == said {
			t.Errorf("%s: changes Config: %v, is listed as inert: %v", path, effect, said)
		}
	}
}

func TestInertListsReasonsInFileOrder(t *testing.T) {
	c, _, err := Parse("config.json", []byte(`{"network": {"boot_nodes": "", "max_num_peers": 8, "ban_window": {"secs": 3, "nanos": 0}}, "store": {"max_open_files": 3000},
		"save_untracked_partial_chunks_parts": true, "network_x": 1, "telemetry": {"endpoints": ["http://x"]}, "rpc": {"experimental_debug_pages_src_path": "x"}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"network.ban_window: no effect, neard's default applies",
		"store.max_open_files: no effect, the database is not neard's; its settings are in troupe.storage",
		"save_untracked_partial_chunks_parts: no effect, of untracked shards, only receipts to tracked shards are kept",
		"telemetry.endpoints: no effect, the node sends no telemetry",
		"rpc.experimental_debug_pages_src_path: no effect, there are no debug pages",
	}
	if got := c.Inert(); !reflect.DeepEqual(got, want) {
		t.Errorf("Inert() = %q\nwant %q", got, want)
	}
}

// TestUnusableIntegersAreRefused sets every integer of the file to values that no program can use.
// Those integers that this node uses are refused with their bounds, and twice the largest allowed
// value fits an int.
func TestUnusableIntegersAreRefused(t *testing.T) {
	for _, path := range slices.Sorted(maps.Keys(schema())) {
		r := schema()[path]
		if r.kind != kU64 || strings.HasPrefix(path, "network.experimental.") {
			continue
		}
		_, unused := withoutEffect(path)
		switch path {
		case "max_gas_burnt_view", "trie_viewer_state_size_limit": // compared with, never converted
			unused = true
		}
		if r.max == 0 && !unused {
			t.Errorf("%s has no bound, and is used", path)
		}
		for _, value := range []uint64{1 << 63, 1<<64 - 1, r.max + 1} {
			_, _, err := Parse("config.json", []byte(nested(path, fmt.Sprint(value))))
			if refused := err != nil && strings.Contains(err.Error(), fmt.Sprintf(" to %d", r.max)); refused != (r.max > 0) {
				t.Errorf("%s = %d: %v", path, value, err)
			}
		}
		if r.max > 0 {
			if _, _, err := Parse("config.json", []byte(nested(path, fmt.Sprint(r.max)))); err != nil || 2*r.max > 1<<63 && !unused {
				t.Errorf("%s = %d, its largest: %v", path, r.max, err)
			}
			if r.min > 0 {
				if _, _, err := Parse("config.json", []byte(nested(path, "0"))); err == nil {
					t.Errorf("%s = 0 passes", path)
				}
			}
		}
	}
	if _, _, err := Parse("config.json", []byte(`{"gc_step_period": {"secs": 536870913, "nanos": 0}}`)); err == nil {
		t.Error("a duration of more than 2^29 seconds passes")
	}
}

// TestValuesOfInitAreNotReported: what init writes for a public chain, as neard's does, is no setting of
// the operator. Another value is.
func TestValuesOfInitAreNotReported(t *testing.T) {
	for text, want := range map[string]int{
		`{"telemetry":{"endpoints":["https://telemetry.nearone.org/nodes"]},"network":{"skip_sync_wait":false}}`: 0,
		`{"telemetry":{"endpoints":["https://telemetry.example.org"]},"network":{"skip_sync_wait":false}}`:       2,
	} {
		c, _, err := Parse("config.json", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Inert(); len(got) != want {
			t.Errorf("%s: %q, want %d lines", text, got, want)
		}
	}
}
