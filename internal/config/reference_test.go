package config

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/rpc/limits"
)

var writeReference = flag.Bool("update", false, "write docs/operate/config.md again")

const referenceFile = "../../docs/operate/config.md"

const referenceHead = `# config.json

This page lists every key that the node knows. It is generated from the schema by which the node checks the file:
` + "`go test ./internal/config -run TestReferencePageIsCurrent -update`" + `.

The file has neard's format. neard's keys have the same meaning as in neard unless the table says "no effect". Keys that
begin with ` + "`troupe`" + ` exist only in Troupe and are optional. The node ignores unknown keys and names them in the log.
` + "`//`" + ` comments are allowed. ` + "`troupe validate-config`" + ` checks the files. The method
[client_config](../rpc/client_config.md) shows the values that a running node uses.
[Upgrading](upgrade.md#changing-the-configuration-without-a-restart) lists the keys that can be changed without a
restart.

- Sizes are bytes. Durations are ` + "`{\"secs\": n, \"nanos\": n}`" + `.
- A limit per address is a limit for each client address. It does not apply to loopback addresses unless config.json
  contains its key. An IPv6 network of 64 bits counts as one address.
- A request that a limit refuses gets HTTP 503 (busy), 413 (too large) or 429 (too many), and an INTERNAL_ERROR with the
  name of the limit's key. ` + "`/metrics`" + ` shows each limit, how much of it is used and how many requests it refused:
  ` + "`troupe_rpc_limit`, `troupe_rpc_limit_fill`, `troupe_rpc_limit_refusals_total`" + `.
- With ` + "`\"archive\": true`" + ` the node keeps all blocks and states from its first block on
  (` + "`troupe.archive_start`" + `).
- ` + "`tracked_shards_config`" + `, or an older key that it replaces, defines which shards a node tracks. Without these keys a node
  tracks all shards. A validator in a chain with other validators also tracks the shards for which it produces chunks. A
  shadow validator tracks those of the account that it shadows. The node downloads the states of these shards before an
  epoch begins, and deletes them afterwards. For a request about an untracked shard, the RPC answers UNAVAILABLE_SHARD
  or DOES_NOT_TRACK_SHARD. It forwards a transaction to the shard's chunk producers and answers REQUEST_ROUTED. The node
  refuses to start if a tracked shard schedule changes over time, or if the data folder lacks a tracked shard.

| key | may be | default | |
|---|---|---|---|
`

var docPath = regexp.MustCompile(`\bdocs/([a-z/-]+\.md)`)

// reference is the text of docs/operate/config.md.
func reference(t *testing.T) string {
	t.Helper()
	whole, _, err := Parse("config.json", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, path := range slices.Sorted(maps.Keys(schema())) {
		r := schema()[path]
		if r.kind == kObject && !slices.Contains(open, path) {
			continue // its members have rows
		}
		missing := ""
		if v, ok := whole.Document.Get(path); ok {
			missing = "`" + compact(v) + "`"
		}
		for i := range limits.Table {
			if l := &limits.Table[i]; path == "troupe.rpc."+l.Key {
				missing = l.Shown()
			}
		}
		about := docPath.ReplaceAllStringFunc(r.doc, func(page string) string {
			page = strings.TrimPrefix(page, "docs/")
			return "[" + page + "](" + strings.TrimPrefix("../"+page, "../operate/") + ")"
		})
		if why, inert := withoutEffect(path); inert {
			about = "no effect: " + why
		} else if about == "" {
			about = "as in neard"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", path, r, missing, about)
	}
	return b.String()
}

// TestReferencePageIsCurrent: docs/operate/config.md is what the schema says, and each key of
// Troupe's own has a description.
func TestReferencePageIsCurrent(t *testing.T) {
	want := reference(t)
	if *writeReference {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil || string(got) != want {
		t.Errorf("%s is not current, -update writes it again: %v", referenceFile, err)
	}
	if n := strings.Count(want, "\n| `"); n < 150 {
		t.Errorf("%d keys", n)
	}
	for path, r := range schema() {
		leaf := r.kind != kObject
		if strings.HasPrefix(path, "troupe") && leaf && r.doc == "" {
			t.Errorf("%s has no description", path)
		}
		if strings.ContainsAny(r.doc, "|\n") || strings.HasSuffix(r.doc, ".") || !leaf && r.doc != "" {
			t.Errorf("%s: the description %q does not fit into a row", path, r.doc)
		}
	}
}

// TestEachDefaultHasARule: each key of the defaults that Parse adds has a rule, so that no key of
// Troupe's own lacks a row.
func TestEachDefaultHasARule(t *testing.T) {
	whole, _, err := Parse("config.json", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	var walk func(prefix string, d *Document)
	walk = func(prefix string, d *Document) {
		for _, k := range d.Keys() {
			if _, known := schema()[prefix+k]; !known && !slices.Contains(open, strings.TrimSuffix(prefix, ".")) {
				t.Errorf("%s%s has a default and no rule", prefix, k)
			}
			v, _ := d.Get(k)
			if sub, ok := v.(*Document); ok && !isDuration(sub) {
				walk(prefix+k+".", sub)
			}
		}
	}
	walk("", whole.Document)
}
