// Package top shows the activity of a node in a terminal: chain progress, load, actors and shards.
//
//	in      replies of GET /status and /metrics, the current and the previous one; keys
//	out     lines of a screen
//	state   View: the sort column of the actors, and the first one shown
//	units   rates per second between the two replies; times in seconds, as in the metrics
//	bound   the height and width of the screen
//	errors  none: a missing value is a dash, so that a neard can be shown too
//	source  our own
//
// Control characters in a node's replies are removed, because a terminal would obey them.
package top

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/troupe-chain/troupe/internal/prom"
)

// Look is the state of a node at one moment.
type Look struct {
	At      time.Time
	Chain   string
	Version string
	Halted  string // why the node has halted; empty: it has not
	Uptime  time.Duration
	Metrics *prom.Metrics
}

// View contains the user's choices for the display.
type View struct {
	Sort  int // column by which the actors are sorted
	First int // first displayed row of the actors
	help  bool
}

// columns are the column titles of the table of actors.
var columns = []string{"actor", "alive", "mailbox", "msg/s", "busy %", "oldest", "wait p50", "p99", "work p50", "p99", "restarts", "dead"}

// Help is the last line of the screen.
const Help = "s sort by the next column   up/down scroll   ? explain   q end"

// explained is the help text that the key ? shows.
var explained = strings.Split(`columns of the actors
  actor      kind, and its shard; many of a kind (sessions) are one row
  alive      actors of this kind
  mailbox    messages that wait
  msg/s      messages handled per second
  busy %     of the time in which one of them works
  oldest     how long the oldest waiting message has waited
  wait p50   half of the messages waited for less than this; p99: 99 of 100
  work p50   half of the messages took less than this; p99: 99 of 100
  restarts   after a panic, since the start
  dead       messages to an actor that had ended
columns of the shards
  pool tx    transactions in the pool; pool: their size
  not looked at  transactions that wait for their check
  wait for code  transactions that wait until a contract is compiled
second line
  final      height of the last final block; lag: age of the head; peers: connected nodes
third line
  rpc        requests per second, and how long they take; wait: clients that wait for a transaction
             clients: open connections and waiting requests
keys
  s sort   up/down scroll   ? back   q end`, "\n")

// Key applies a key press. end is true if the key ends the program.
func (v *View) Key(k string) (end bool) {
	switch k {
	case "?":
		v.help = !v.help
	case "\x1b":
		if !v.help {
			return true
		}
		v.help = false
	case "q", "\x03":
		return true
	case "s":
		v.Sort, v.First = (v.Sort+1)%len(columns), 0
	case "\x1b[A":
		v.First = max(v.First-1, 0)
	case "\x1b[B":
		v.First++
	}
	return false
}

// Lines returns the lines of the screen. before is the previous look. If before is nil, the screen
// has no rates. A height of 0 does not limit the lines.
func (v *View) Lines(where string, before, now *Look, width, height int) []string {
	if v.help {
		lines := slices.Clone(explained)
		if height > 0 {
			lines = lines[:min(len(lines), height)]
		}
		for i := range lines {
			lines[i] = cut(lines[i], width)
		}
		return lines
	}
	f := frame{before: before, now: now, span: math.NaN()}
	if before != nil {
		if span := now.At.Sub(before.At).Seconds(); span > 0 {
			f.span = span
		}
	}
	lines := f.head(where)
	table := v.actors(&f)
	shards := f.shards()
	if height > 0 { // the actors get the remaining lines
		room := max(height-len(lines)-len(shards)-4, 2)
		v.First = min(v.First, max(len(table)-room, 0))
		end := min(v.First+room, len(table))
		more := len(table) - end
		table = append(slices.Clone(table[:1]), table[min(v.First+1, end):end]...)
		if more > 0 {
			table[len(table)-1] = []string{fmt.Sprintf("… %d more", more+1)}
		}
	}
	lines = append(append(lines, ""), align(table)...)
	if len(shards) > 1 {
		lines = append(append(lines, ""), align(shards)...)
	}
	if height > 0 {
		lines = append(lines, Help)
		lines = lines[:min(len(lines), height)]
	}
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	return lines
}

type frame struct {
	before, now *Look
	span        float64 // seconds between the two looks; NaN: there is only one
}

func (f *frame) value(name string) float64 {
	if v, ok := f.now.Metrics.Sum(name); ok {
		return v
	}
	return math.NaN()
}

// rate returns the increase of a counter per second. It returns NaN if the counter has decreased,
// because then the node was restarted between the two looks.
func (f *frame) rate(now, before float64) float64 {
	if grown := now - before; grown >= 0 {
		return grown / f.span
	}
	return math.NaN()
}

func (f *frame) rateOf(name string) float64 {
	if f.before == nil {
		return math.NaN()
	}
	was, _ := f.before.Metrics.Sum(name)
	return f.rate(f.value(name), was)
}

func every(map[string]string) bool { return true }

// histogram returns the observations since the previous look. Without a previous look it returns
// all observations.
func (f *frame) histogram(family string, match func(map[string]string) bool) prom.Buckets {
	now := f.now.Metrics.Histogram(family, match)
	if f.before == nil {
		return now
	}
	return now.Since(f.before.Metrics.Histogram(family, match))
}

var syncing = map[float64]string{0: "in step", 1: "no peer yet", 2: "behind: proof of epochs", 4: "behind: headers",
	5: "behind: state", 7: "behind: blocks"}

// head returns the lines about the whole node.
func (f *frame) head(where string) []string {
	l := f.now
	first := fmt.Sprintf("%s at %s   %s   up %s", clean(l.Chain), clean(where), clean(l.Version), span(l.Uptime.Seconds()))
	if l.Halted != "" {
		first += "   HALTED: " + clean(l.Halted)
	}
	if next := f.value("near_protocol_version_next"); next > f.value("near_node_protocol_version") {
		first += fmt.Sprintf("   UPGRADE NEEDED: protocol %.0f begins at about height %.0f", next, f.value("near_protocol_upgrade_block_height"))
	}
	state, ok := syncing[f.value("near_sync_status")]
	if !ok {
		state = "-"
	}
	rpc := f.histogram("near_rpc_processing_time", every)
	blocks := f.rateOf("troupe_blocks_accepted_total")
	if math.IsNaN(blocks) {
		blocks = f.rateOf("near_block_processed_total")
	}
	txs := f.rateOf("troupe_transactions_included_total")
	if math.IsNaN(txs) {
		txs = f.rateOf("near_transaction_processed_total")
	}
	return []string{
		first,
		fmt.Sprintf("height %s   final %s   lag %s   %s   %s blocks/s   %s tx/s   peers %s",
			whole(f.value("near_block_height_head")), whole(f.value("near_final_block_height")),
			span(f.value("near_head_lag_seconds")), state, number(blocks), number(txs), whole(f.value("near_peer_connections_total"))),
		fmt.Sprintf("rpc %s calls/s   p50 %s   p99 %s   %s errors/s   %s wait   %s clients   pools %s tx, %s",
			number(f.rateOf("near_rpc_total_count")), span(rpc.Quantile(0.5)), span(rpc.Quantile(0.99)),
			number(f.rateOf("near_rpc_error_count")), whole(f.value("troupe_waits_parked")),
			whole(f.value("troupe_sessions_open")), whole(f.value("near_transaction_pool_entries")), size(f.value("near_transaction_pool_size"))),
		fmt.Sprintf("memory %s   goroutines %s   written %s/s   contracts %s cached, %s/s compiled",
			size(f.value("near_memory_usage_bytes")), whole(f.value("troupe_goroutines")),
			size(f.rateOf("troupe_storage_bytes_written")), whole(f.value("troupe_contract_cache_entries")),
			number(f.rateOf("troupe_contract_compilations"))),
	}
}

// actors returns the table of actors by kind and shard. The first row has the titles.
func (v *View) actors(f *frame) [][]string {
	type row struct {
		actor, shard string
		cells        []string
		sort         float64
	}
	var rows []row
	for _, s := range f.now.Metrics.Samples["troupe_actor_alive"] {
		same := func(l map[string]string) bool {
			return l["actor"] == s.Labels["actor"] && l["shard_id"] == s.Labels["shard_id"]
		}
		of := func(l *Look, name string) float64 {
			for _, x := range l.Metrics.Samples[name] {
				if same(x.Labels) {
					return x.Value
				}
			}
			return math.NaN()
		}
		get := func(name string) float64 { return of(f.now, name) }
		rate := func(name string) float64 {
			if f.before == nil {
				return math.NaN()
			}
			return f.rate(get(name), of(f.before, name))
		}
		wait, work := f.histogram("troupe_actor_wait_seconds", same), f.histogram("troupe_actor_handle_seconds", same)
		title := s.Labels["actor"]
		if shard := s.Labels["shard_id"]; shard != "" {
			title += "/" + strings.TrimPrefix(shard, "s")
		}
		values := []float64{0, s.Value, get("troupe_actor_mailbox_length"), rate("troupe_actor_handle_seconds_count"),
			100 * rate("troupe_actor_busy_seconds_total"), get("troupe_actor_mailbox_oldest_seconds"),
			wait.Quantile(0.5), wait.Quantile(0.99), work.Quantile(0.5), work.Quantile(0.99), get("troupe_actor_restarts_total"),
			get("troupe_actor_dead_letters_total")}
		cells := []string{clean(title)}
		for i, x := range values[1:] {
			switch i + 1 {
			case 3, 4:
				cells = append(cells, number(x))
			case 5, 6, 7, 8, 9:
				cells = append(cells, span(x))
			default:
				cells = append(cells, whole(x))
			}
		}
		rows = append(rows, row{s.Labels["actor"], s.Labels["shard_id"], cells, values[v.Sort]})
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		if v.Sort == 0 {
			return cmp.Or(strings.Compare(a.actor, b.actor), compareShards(a.shard, b.shard))
		}
		return cmp.Compare(b.sort, a.sort) // NaN comes last
	})
	titles := slices.Clone(columns)
	titles[v.Sort] += "*"
	out := [][]string{titles}
	for _, r := range rows {
		out = append(out, r.cells)
	}
	return out
}

// compareShards orders labels of shards, such as s2 and s10, by their numbers.
func compareShards(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// shards returns the table of the transaction pools, one row for each shard.
func (f *frame) shards() [][]string {
	out := [][]string{{"shard", "pool tx", "pool", "not looked at", "wait for code"}}
	pools := slices.Clone(f.now.Metrics.Samples["near_transaction_pool_entries"])
	slices.SortStableFunc(pools, func(a, b prom.Sample) int { return compareShards(a.Labels["shard_id"], b.Labels["shard_id"]) })
	for _, s := range pools {
		of := func(name string) float64 {
			for _, x := range f.now.Metrics.Samples[name] {
				if x.Labels["shard_id"] == s.Labels["shard_id"] {
					return x.Value
				}
			}
			return math.NaN()
		}
		out = append(out, []string{clean(strings.TrimPrefix(s.Labels["shard_id"], "s")), whole(s.Value),
			size(of("near_transaction_pool_size")), whole(of("troupe_transactions_queued")), whole(of("troupe_transactions_held"))})
	}
	return out
}

// align pads cells to columns. The first column is left-aligned, all other columns right-aligned.
func align(rows [][]string) (out []string) {
	var width []int
	for _, r := range rows {
		for i, c := range r {
			if i == len(width) {
				width = append(width, 0)
			}
			if len(r) > 1 {
				width[i] = max(width[i], utf8.RuneCountInString(c))
			}
		}
	}
	for _, r := range rows {
		var b strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", max(width[i]-utf8.RuneCountInString(c), 0))
			if i == 0 {
				b.WriteString(c + pad)
			} else {
				b.WriteString("  " + pad + c)
			}
		}
		out = append(out, strings.TrimRight(b.String(), " "))
	}
	return out
}

// cut shortens a line to the given width.
func cut(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}

// clean removes control characters, which a terminal would obey, and cuts a text that is too long.
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return cut(s, 120)
}

func whole(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
}

func number(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v == 0:
		return "0"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return whole(v)
}

// span formats a duration, given in seconds, for a cell of a table.
func span(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "-"
	case v <= 0:
		return "0"
	case v < 1e-3:
		return number(v*1e6) + "µs"
	case v < 1:
		return number(v*1e3) + "ms"
	case v < 120:
		return number(v) + "s"
	case v < 7200:
		return number(v/60) + "min"
	}
	return number(v/3600) + "h"
}

func size(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "-"
	}
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if v < 1024 {
			return number(v) + unit
		}
		v /= 1024
	}
	return number(v) + "TiB"
}

// Fit returns s without control characters, cut to one line of the screen.
func Fit(s string, width int) string { return cut(clean(s), width) }
