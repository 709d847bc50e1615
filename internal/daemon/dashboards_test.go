package daemon

import (
	"encoding/json"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/prom"
	"github.com/troupe-chain/troupe/primitives"
)

// metricName matches names of metrics in expressions by their prefix.
var metricName = regexp.MustCompile(`\b(?:near|troupe)_[a-z0-9_]+`)

// suffix is that of a histogram's series.
var suffix = regexp.MustCompile(`_(bucket|count|sum)$`)

// dashboardNames are the metrics that nearcore's dashboards and scripts use (inc4/shardnet-ops
// near-validator.json, nayduck).
const dashboardNames = `near_is_validator near_validators_blocks_expected near_validators_blocks_produced near_validators_chunks_expected near_validators_chunks_produced
	near_chunk_tgas_used_hist near_block_height_head near_header_head_height near_final_block_height near_tail_height near_sync_status near_peer_connections_total near_block_processing_time
	near_block_processed_total near_chunks_processed near_head_lag_seconds near_apply_chunk_delay_seconds near_rpc_processing_time near_rpc_total_count near_rpc_error_count
	near_rpc_timeout_total near_rpc_wait_until_count near_transaction_processed_total near_transaction_processed_successfully_total near_transaction_pool_entries near_transaction_pool_size
	near_memory_usage_bytes near_cpu_usage_ratio near_build_info near_boot_time_seconds near_epoch_height near_node_protocol_version near_current_protocol_version near_gas_price near_gas_used
	near_total_supply near_congestion_level near_delayed_receipts_count near_received_bytes_per_second near_sent_bytes_per_second near_async_queue_pending_messages
	near_is_block_producer near_is_chunk_producer_for_shard near_block_producer_stake near_validators_blocks_expected_in_epoch near_validators_chunks_expected_in_epoch
	near_final_block_height_in_epoch near_final_doomslug_block_height near_shard_layout_num_shards near_protocol_version_next near_protocol_upgrade_block_height
	near_peer_unreliable near_edge_total near_edge_active near_edge_updates near_edge_dropped near_peer_data_received_bytes near_peer_data_sent_bytes
	near_async_message_dequeue_time near_async_message_processing_time near_thread_pool_queue_size
	near_transaction_received_validator near_transaction_received_non_validator near_transaction_received_non_validator_forwarded
	near_transaction_processed_failed_total near_transaction_applied_total near_applying_chunks_time near_chunk_tgas near_chunk_compute
	near_chunk_tx_tgas near_chunk_local_receipt_tgas near_chunk_delayed_receipt_compute near_chunk_inc_receipt_compute
	near_chunk_yield_timeouts_tgas near_action_called_count near_local_receipt_processed_total near_chunk_recorded_size
	near_congestion_incoming_gas near_congestion_outgoing_gas near_balance_burnt near_blocks_processed`

// eventful are metrics that do not exist before an event that this test does not cause: a counter
// of panics.
var eventful = []string{"troupe_rpc_panics_total"}

// TestNodeHasAllMetricsOfDashboards: a node has every metric and label that the dashboard and the
// alert rules of deploy/ use, and those that dashboards of nearcore use. Their values are those of
// the events before.
func TestNodeHasAllMetricsOfDashboards(t *testing.T) {
	hm := loaded(t, made(t))
	hm.Config.RPC.PollingTimeout = 300 * time.Millisecond
	hm.Config.Production = config.Manual
	on := true
	hm.Config.Network.Enabled, hm.Config.Network.Addr = &on, "127.0.0.1:0"
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	must(t, h, "sandbox_mine", `[6]`)
	var none struct{}
	// an error, and a wait
	if f := rpcOf(t, h, "send_tx", `{"signed_tx_base64":"AA==","wait_until":"FINAL"}`, &none); f == "" {
		t.Error("no transaction was taken for one")
	}
	signed, _ := encode(draft(h, hm.ValidatorKey, 1, "near", &primitives.Transfer{Deposit: primitives.Yocto(1)}), hm.ValidatorKey)
	if f := rpcOf(t, h, "send_tx", `{"signed_tx_base64":"`+signed+`","wait_until":"FINAL"}`, &none); !strings.HasPrefix(f, "TIMEOUT_ERROR") {
		t.Errorf("a wait without block production: %q", f)
	}
	must(t, h, "sandbox_mine", `[4]`)
	status, text := get(t, h, "/metrics")
	m, err := prom.Read(strings.NewReader(text))
	if err != nil || status != 200 {
		t.Fatal(status, err)
	}
	for name, want := range map[string]float64{
		"near_block_height_head": 10, "near_block_processed_total": 10, "near_chunks_processed": 10, "near_transaction_processed_total": 1, "near_transaction_processed_successfully_total": 1,
		"near_is_validator": 1, "near_validators_blocks_produced": 10, "near_validators_chunks_produced": 10, "near_validator_active_total": 1, "near_header_head_height": 10,
		"near_block_processing_time_count": 10, "near_apply_chunk_delay_seconds_count": 10, "near_chunk_tgas_used_hist_count": 10, "near_epoch_height": 1, "near_build_info": 1,
		"near_delayed_receipts_count": 0, "near_produce_chunk_transactions_limited_by": 1, "near_rpc_timeout_total": 1, "near_congestion_level": 0,
	} {
		if got, ok := m.Sum(name); got != want || !ok {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	// by ticks: somewhat more than there is
	if cpu, _ := m.Sum("near_cpu_usage_ratio"); cpu <= 0 || cpu > 100*float64(runtime.NumCPU()+1) {
		t.Errorf("processor: %v", cpu)
	}
	dashboard, err := os.ReadFile("../../deploy/grafana/troupe.json")
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	exprs := expressions(t, dashboard)
	for _, x := range regexp.MustCompile(`(?m)^ +expr: (.*)$`).FindAllStringSubmatch(string(alerts), -1) {
		exprs = append(exprs, x[1])
	}
	if len(exprs) < 60 {
		t.Errorf("only %d expressions", len(exprs))
	}
	used := strings.Fields(dashboardNames)
	for _, x := range exprs {
		names := metricName.FindAllString(x, -1)
		used = append(used, names...)
		// by (...) and the selectors name labels that the metric has
		for _, l := range regexp.MustCompile(`by \(([^)]*)\)`).FindAllStringSubmatch(x, -1) {
			for label := range strings.SplitSeq(l[1], ",") {
				if label = strings.TrimSpace(label); label != "instance" && !labelled(m, names, label) {
					t.Errorf("%s: no metric in it has a label %s", x, label)
				}
			}
		}
		if strings.Count(x, "(") != strings.Count(x, ")") || strings.Count(x, "{") != strings.Count(x, "}") {
			t.Errorf("%s: brackets", x)
		}
	}
	for _, name := range used {
		if !m.Has(name) && !(suffix.MatchString(name) && m.Types[suffix.ReplaceAllString(name, "")] == "histogram") && !slices.Contains(eventful, name) {
			t.Errorf("no metric %s", name)
		}
	}
	for name := range m.Samples { // the parsed samples match their types
		family := suffix.ReplaceAllString(name, "")
		if m.Types[name] == "" && m.Types[family] != "histogram" {
			t.Errorf("%s has no type", name)
		}
	}
}

func labelled(m *prom.Metrics, names []string, label string) bool {
	for _, name := range names {
		for _, s := range m.Samples[name] {
			if _, ok := s.Labels[label]; ok {
				return true
			}
		}
	}
	return false
}

// expressions returns the expressions of a dashboard. It fails the test if a panel has none, or has
// another panel's title.
func expressions(t *testing.T, dashboard []byte) (out []string) {
	t.Helper()
	var d struct {
		Panels []struct {
			ID          int
			Type, Title string
			Targets     []struct{ Expr string }
			GridPos     struct{ X, Y, W, H int }
		}
	}
	if err := json.Unmarshal(dashboard, &d); err != nil {
		t.Fatal(err)
	}
	ids := map[int]bool{}
	for i, p := range d.Panels {
		if p.Title == "" || ids[p.ID] || p.GridPos.X+p.GridPos.W > 24 || p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %+v", p)
		}
		ids[p.ID] = true
		for _, q := range d.Panels[:i] {
			if a, b := p.GridPos, q.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%s lies over %s", p.Title, q.Title)
			}
		}
		for _, x := range p.Targets {
			out = append(out, x.Expr)
		}
	}
	return out
}
