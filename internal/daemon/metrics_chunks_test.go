package daemon

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/internal/prom"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/primitives"
)

// scrape returns the metrics of /metrics.
func scrape(t *testing.T, h *Daemon) *prom.Metrics {
	t.Helper()
	_, text := get(t, h, "/metrics")
	m, err := prom.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// valueOf returns the sum of a metric's samples that have the label, -1 if there are none.
func valueOf(m *prom.Metrics, name, label, value string) float64 {
	sum, ok := 0., false
	for _, s := range m.Samples[name] {
		if s.Labels[label] == value {
			sum, ok = sum+s.Value, true
		}
	}
	if !ok {
		return -1
	}
	return sum
}

// wantSums compares the sums over all labels of metrics.
func wantSums(t *testing.T, m *prom.Metrics, want map[string]float64) {
	t.Helper()
	for name, v := range want {
		if got, ok := m.Sum(name); got != v || !ok {
			t.Errorf("%s = %v (exists: %v), want %v", name, got, ok, v)
		}
	}
}

// TestAppliedChunksAreMeasured: a deployment and a call by the account itself run as local receipts, a
// transfer's receipt and the refunds are incoming. A transaction that cannot be paid counts as
// failed.
func TestAppliedChunksAreMeasured(t *testing.T) {
	hm := loaded(t, made(t))
	hm.Config.Production = config.Manual
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	key, nonce := h.home.ValidatorKey, primitives.Nonce(0)
	send := func(to primitives.AccountID, actions ...primitives.Action) {
		t.Helper()
		nonce++
		signed, _ := encode(draft(h, key, nonce, to, actions...), key)
		cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "NONE"}, new(txStatus))
		if cause != "" {
			t.Fatal(cause)
		}
	}
	send(key.AccountID, &primitives.DeployContract{Code: contracts.Probe()})
	mineBy(t, h, `{"blocks":3}`)
	eventually(t, "compiled", func() bool { // in the background
		n, _ := scrape(t, h).Sum("near_vm_runner_compilation_seconds_count")
		return n == 1
	})
	send(key.AccountID, &primitives.FunctionCall{Method: "noop", Gas: 30_000_000_000_000})
	send("near", &primitives.Transfer{Deposit: primitives.Yocto(1)})
	mineBy(t, h, `{"blocks":3}`)
	view := map[string]any{"request_type": "call_function", "finality": "optimistic", "account_id": key.AccountID,
		"method_name": "noop", "args_base64": ""}
	for range 2 {
		if cause := ask(t, h, "query", view, new(struct{})); cause != "" {
			t.Fatal(cause)
		}
	}
	m := scrape(t, h)
	for label, n := range map[string]float64{"update_shard": 1, "validate_chunk": 0, "view_shard": 2} {
		if got := valueOf(m, "near_vm_compiled_contract_cache_lookups_total", "context", label); got != n {
			t.Errorf("%v lookups of code in %s, want %v", got, label, n)
		}
	}
	refunds, _ := m.Sum("near_incoming_receipt_processed_total")
	wantSums(t, m, map[string]float64{
		"near_transaction_applied_total": 3, "near_transaction_processed_failed_total": 0,
		"near_local_receipt_processed_total": 2, "near_delayed_receipt_processed_total": 0, "near_yield_timeouts_processed_total": 0,
		"near_chunk_tgas_count": 6, "near_chunk_compute_count": 6, "near_chunk_tx_tgas_count": 6, "near_chunk_inc_receipt_compute_count": 6,
		"near_chunk_delayed_receipt_tgas_sum": 0, "near_chunk_yield_timeouts_compute_sum": 0,
		// the deployment compiles the code, then the calls find it
		"near_vm_runner_execution_seconds_count": 3, "near_vm_runner_compilation_seconds_count": 1,
		"near_vm_compiled_contract_cache_hits_total": 3,
		"near_applying_chunks_time_count":            6, "near_chunk_recorded_size_count": 6,
		"near_block_processing_attempts_total": 6, "near_block_preprocessing_time_count": 6,
		"near_block_postprocessing_time_count": 6, "near_produce_chunk_time_count": 6, "near_chunk_transactions_total": 3, "near_outgoing_receipts_generated_total": refunds,
	})
	if refunds < 1 {
		t.Errorf("%v incoming receipts, want at least that of the transfer", refunds)
	}
	for name, want := range map[string]float64{"DeployContract": 1, "FunctionCall": 1, "Transfer": refunds, "AddKey": 0} {
		if got := valueOf(m, "near_action_called_count", "action", name); got != want {
			t.Errorf("%v actions %s, want %v", got, name, want)
		}
	}
	total, _ := m.Sum("near_chunk_tgas_sum")
	stages := 0.
	for _, name := range []string{"tx", "local_receipt", "delayed_receipt", "inc_receipt", "yield_timeouts"} {
		x, _ := m.Sum("near_chunk_" + name + "_tgas_sum")
		stages += x
	}
	if used, _ := m.Sum("near_gas_used"); total <= 0 || total-stages > 1e-6 || stages-total > 1e-6 || total-used/1e12 > 1e-6 {
		t.Errorf("chunks burnt %v Tgas, their stages %v, blocks %v gas", total, stages, used)
	}
}

// TestContractCallsAreCounted: /metrics has the contract calls by result and the failed ones by error
// and kind, and the time of each stage that executed receipts.
func TestContractCallsAreCounted(t *testing.T) {
	hm := loaded(t, made(t))
	hm.Config.Production = config.Manual
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	key, nonce := h.home.ValidatorKey, primitives.Nonce(0)
	send := func(to primitives.AccountID, actions ...primitives.Action) {
		t.Helper()
		nonce++
		signed, _ := encode(draft(h, key, nonce, to, actions...), key)
		if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "NONE"}, new(txStatus)); cause != "" {
			t.Fatal(cause)
		}
	}
	const gas = 30_000_000_000_000
	send(key.AccountID, &primitives.DeployContract{Code: contracts.Probe()})
	mineBy(t, h, `{"blocks":2}`)
	for _, method := range []string{"noop", "noop", "none", "div0", "spin"} {
		send(key.AccountID, &primitives.FunctionCall{Method: method, Gas: gas})
	}
	send("near", &primitives.FunctionCall{Method: "noop", Gas: gas}) // has no contract
	mineBy(t, h, `{"blocks":4}`)
	m := scrape(t, h)
	for _, c := range []struct {
		name, label string
		want        map[string]float64
	}{
		{"near_function_call_processed", "result", map[string]float64{
			"ok": 2, "MethodResolveError": 1, "WasmTrap": 1, "HostError": 1, "CompilationError": 1}},
		{"near_function_call_processed_function_call_errors", "error_type", map[string]float64{
			"MethodResolveError": 1, "WasmTrap": 1, "HostError": 1, "CompilationError": 1}},
		{"near_function_call_processed_method_resolve_errors", "error_type", map[string]float64{"MethodNotFound": 1}},
		{"near_function_call_processed_wasm_trap_errors", "error_type", map[string]float64{"IllegalArithmetic": 1}},
		{"near_function_call_processed_host_errors", "error_type", map[string]float64{"GasExceeded": 1}},
		{"near_function_call_processed_compilation_errors", "error_type", map[string]float64{"CodeDoesNotExist": 1}},
	} {
		got := map[string]float64{}
		for _, s := range m.Samples[c.name] {
			got[s.Labels[c.label]] += s.Value
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	wantSums(t, m, map[string]float64{"near_function_call_processed_link_errors": 0, "near_function_call_processed_loading_errors": 0,
		"near_function_call_processed_wasm_unknown_errors": 0})
	for _, name := range []string{"local", "incoming"} {
		if v, ok := m.Sum("near_" + name + "_receipt_processing_seconds_total"); !ok || v <= 0 {
			t.Errorf("%s receipts took %v s", name, v)
		}
	}
	for _, name := range []string{"near_delayed_receipt_processing_seconds_total", "near_yield_timeouts_processing_seconds_total"} {
		if _, ok := m.Sum(name); !ok {
			t.Errorf("no %s", name)
		}
	}
	chunks, _ := m.Sum("near_chunk_tgas_count")
	if n := valueOf(m, "near_chunk_receipts_limited_by", "limited_by", "unlimited"); n != chunks || n < 1 {
		t.Errorf("%v of %v chunks reached no limit", n, chunks)
	}
	blocks, _ := m.Sum("near_block_processing_time_count")
	if n := valueOf(m, "near_apply_all_chunks_time_count", "block_type", "Normal"); n != blocks || n < 1 {
		t.Errorf("the chunks of %v of %v blocks were timed", n, blocks)
	}
}

// TestReceivedTransactionsAreCountedByRole: a transaction of a client counts at a node that produces no
// chunks, and at the chunk producer to which that node forwards it.
func TestReceivedTransactionsAreCountedByRole(t *testing.T) {
	dir := made(t)
	a := joined(t, dir, "")
	defer stop(t, a)
	mineBy(t, a, `{"blocks":2}`)
	b := joined(t, followerHome(t, dir), fmt.Sprintf("%v@%s", a.home.NodeKey.PublicKey(), a.NetworkAddr()))
	defer stop(t, b)
	eventually(t, "in step", func() bool { return b.Engine.Head().Hash == a.Engine.Head().Hash && a.front.Met() })
	count := func(h *Daemon) (n [3]float64) {
		m := scrape(t, h)
		for i, role := range []string{"validator", "non_validator", "non_validator_forwarded"} {
			var ok bool
			if n[i], ok = m.Sum("near_transaction_received_" + role); !ok {
				t.Errorf("no metric of %s", role)
			}
		}
		return n
	}
	signed, _ := encode(draft(b, a.home.ValidatorKey, 1, "near", &primitives.Transfer{Deposit: primitives.Yocto(1)}), a.home.ValidatorKey)
	if cause := ask(t, b, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "INCLUDED"}, new(txStatus)); cause != "" {
		t.Fatal(cause)
	}
	if got := count(b); got != [3]float64{0, 1, 0} {
		t.Errorf("the other node counts %v, want {0, 1, 0}", got)
	}
	if got := count(a); got != [3]float64{1, 0, 0} {
		t.Errorf("the producer counts %v, want {1, 0, 0}", got)
	}
}
