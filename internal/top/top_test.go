package top

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/troupe-chain/troupe/internal/prom"
)

// look is a node that has handled so many messages.
func look(t *testing.T, second int, text string) *Look {
	t.Helper()
	m, err := prom.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return &Look{At: time.Unix(int64(second), 0), Chain: "sandbox", Version: "1.2.3", Uptime: 90 * time.Second, Metrics: m}
}

func metrics(blocks, messages, slow int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "near_block_height_head 1200\nnear_final_block_height 1198\nnear_sync_status 0\ntroupe_blocks_accepted_total %d\nnear_transaction_pool_entries{shard_id=\"s3\"} 7\n", blocks)
	for _, name := range []string{"chain", "producer", "mempool"} {
		l := fmt.Sprintf("{actor=%q", name)
		if name == "mempool" {
			l += `,shard_id="s3"`
		}
		n := messages
		if name == "producer" {
			n = 0
		}
		fmt.Fprintf(&b, "troupe_actor_alive%s} 1\ntroupe_actor_mailbox_length%s} %d\ntroupe_actor_busy_seconds_total%s} %v\ntroupe_actor_handle_seconds_count%s} %d\n", l, l, len(name), l, float64(n)/100, l, n)
		fmt.Fprintf(&b, "troupe_actor_handle_seconds_bucket%s,le=\"0.001\"} %d\ntroupe_actor_handle_seconds_bucket%s,le=\"0.004\"} %d\ntroupe_actor_handle_seconds_bucket%s,le=\"+Inf\"} %d\n", l, n-min(n, slow), l, n, l, n)
	}
	return b.String()
}

// TestLinesShowRatesBetweenLooks: rates and percentiles are those between two looks, the table is
// sorted by the selected column, and the lines fit the screen.
func TestLinesShowRatesBetweenLooks(t *testing.T) {
	var v View
	before, now := look(t, 100, metrics(50, 1000, 1000)), look(t, 102, metrics(56, 1080, 1000))
	lines := v.Lines("http://127.0.0.1:3030", before, now, 0, 0)
	all := strings.Join(lines, "\n")
	row := func(name string) []string {
		t.Helper()
		for _, l := range lines {
			if f := strings.Fields(l); len(f) > 0 && f[0] == name {
				return f
			}
		}
		t.Fatalf("no %s:\n%s", name, all)
		return nil
	}
	for _, want := range []string{"sandbox at http://127.0.0.1:3030   1.2.3   up 90.0s", "height 1200   final 1198", "in step", "3.00 blocks/s"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	// 80 messages in two seconds, each of which took less than a millisecond, whatever happened
	// before; 0.8 s of work for them
	if f := row("chain"); f[1] != "1" || f[2] != "5" || f[3] != "40.0" || f[4] != "40.0" || f[8] != "500µs" {
		t.Errorf("chain: %v", f)
	}
	if f := row("mempool/3"); f[3] != "40.0" {
		t.Errorf("mempool: %v", f)
	}
	if f := row("producer"); f[3] != "0" || f[8] != "-" {
		t.Errorf("producer: %v", f)
	}
	if f := row("3"); f[1] != "7" {
		t.Errorf("shard: %v", f)
	}
	order := func() string {
		var names []string
		for _, l := range v.Lines("x", before, now, 0, 0) {
			if f := strings.Fields(l); len(f) == len(columns) && f[1] == "1" {
				names = append(names, f[0])
			}
		}
		return strings.Join(names, " ")
	}
	if got := order(); got != "chain mempool/3 producer" {
		t.Errorf("by name: %s", got)
	}
	v.Key("s")
	v.Key("s")
	if got := order(); got != "producer mempool/3 chain" { // 8, 7 and 5 wait
		t.Errorf("by mailbox: %s", got)
	}
	for height := 1; height < 30; height++ {
		for _, width := range []int{1, 20, 80} {
			lines := v.Lines("x", before, now, width, height)
			if len(lines) > height {
				t.Errorf("%d lines of %d", len(lines), height)
			}
			for _, l := range lines {
				if n := len([]rune(l)); n > width {
					t.Errorf("%d wide, of %d: %q", n, width, l)
				}
			}
			v.Key("\x1b[B")
		}
	}
	if !v.Key("q") || v.Key("\x1b[A") {
		t.Error("keys")
	}
	// another process has fewer, and no rate below zero is told of it
	lines = v.Lines("x", now, look(t, 103, metrics(2, 10, 0)), 0, 0)
	all = strings.Join(lines, "\n")
	if f := row("chain"); f[3] != "-" || !strings.Contains(all, "- blocks/s") {
		t.Errorf("after a restart: %v\n%s", f, all)
	}
	// the first look has no rates
	lines = v.Lines("x", nil, now, 0, 0)
	all = strings.Join(lines, "\n")
	if f := row("chain"); f[3] != "-" {
		t.Errorf("first: %v", f)
	}
}

// TestNeededUpgradeIsShown: the first line names a version that the node does not support, once that
// version is decided. neard has the same metrics.
func TestNeededUpgradeIsShown(t *testing.T) {
	for next, want := range map[int]bool{88: false, 89: true} {
		l := look(t, 5, fmt.Sprintf("near_node_protocol_version 88\nnear_protocol_version_next %d\nnear_protocol_upgrade_block_height 500\n", next))
		line := new(View).Lines("x", nil, l, 0, 0)[0]
		if got := strings.Contains(line, "UPGRADE NEEDED: protocol 89 begins at about height 500"); got != want {
			t.Errorf("next version %d: %q", next, line)
		}
	}
}

// TestHostileTextCannotControlTerminal: texts of a node cannot control the terminal, and a server
// that is no node is reported as such.
func TestHostileTextCannotControlTerminal(t *testing.T) {
	evil := "\x1b]0;title\x07\x1b[2J\r\n\u202e"
	l := look(t, 5, fmt.Sprintf("troupe_actor_alive{actor=%q,shard_id=%q} 1\nnear_transaction_pool_entries{shard_id=%q} 1\n", "a\x1b[31m", "s\x9b", "\x07"))
	l.Chain, l.Version, l.Halted = evil, evil, evil
	for _, line := range new(View).Lines(evil, nil, l, 0, 0) {
		for _, r := range line {
			if !unicode.IsPrint(r) {
				t.Errorf("%q has %U", line, r)
			}
		}
	}
	for body, why := range map[string]string{`<html>`: "is not that of a NEAR node", `{}`: "this is not a NEAR node", `{"version":{}}`: "is not that of a NEAR node"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				body = "<html>"
			}
			_, _ = w.Write([]byte(body))
		}))
		if _, err := Ask(t.Context(), s.URL); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: error %v", body, err)
		}
		s.Close()
		if _, err := Ask(t.Context(), s.URL); err == nil || !strings.Contains(err.Error(), "--url") {
			t.Errorf("unknown account: %v", err)
		}
	}
	if got := Fit("a\x1bb", 2); got != "a…" {
		t.Errorf("fit: %q", got)
	}
}

// TestShardsAreInOrder: shards and their actors are listed by their numbers, whatever the order of
// the metrics.
func TestShardsAreInOrder(t *testing.T) {
	var b strings.Builder
	for _, id := range []int{10, 3, 0, 2} {
		fmt.Fprintf(&b, "near_transaction_pool_entries{shard_id=\"s%d\"} 0\ntroupe_actor_alive{actor=\"shard\",shard_id=\"s%d\"} 1\n", id, id)
	}
	f := frame{now: look(t, 5, b.String())}
	first := func(rows [][]string) (out []string) {
		for _, r := range rows[1:] {
			out = append(out, r[0])
		}
		return out
	}
	if got := strings.Join(first(f.shards()), " "); got != "0 2 3 10" {
		t.Errorf("shards: %s", got)
	}
	if got := strings.Join(first(new(View).actors(&f)), " "); got != "shard/0 shard/2 shard/3 shard/10" {
		t.Errorf("actors: %s", got)
	}
}

// TestHelpExplainsEveryColumn: the key ? explains every column, at any size of the screen, and
// Escape goes back.
func TestHelpExplainsEveryColumn(t *testing.T) {
	var v View
	now := look(t, 1, metrics(1, 2, 0))
	v.Key("?")
	page := strings.Join(v.Lines("x", nil, now, 0, 0), "\n")
	for _, c := range append(columns, "pool tx", "not looked at", "wait for code") {
		if !strings.Contains(page, c) {
			t.Errorf("the help does not mention %s", c)
		}
	}
	if lines := v.Lines("x", nil, now, 10, 3); len(lines) != 3 || len([]rune(lines[1])) > 10 {
		t.Errorf("three lines of ten columns: %q", lines)
	}
	if v.Key("\x1b") || v.help || !v.Key("\x1b") {
		t.Error("Escape")
	}
}
