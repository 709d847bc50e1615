package daemon

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/troupe-chain/troupe/internal/config"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/storage"
)

// appendMetric appends one metric in Prometheus text; kind is gauge or counter.
func appendMetric(b []byte, kind, name, help string, v float64) []byte {
	b = append(b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"+name+" "...)
	return append(strconv.AppendFloat(b, v, 'g', -1, 64), '\n')
}

// appendChain appends the metrics of a chain in Prometheus text. A metric that nearcore has too has
// nearcore's name. sync is the value of near_sync_status.
func (h *Instance) appendChain(b []byte, sync float64) []byte {
	head, s := h.Engine.Head(), h.store.Stats()
	gauge := func(name, help string, v float64) { b = appendMetric(b, "gauge", name, help, v) }
	hd := head.Header()
	gauge("near_block_height_head", "Height of the head", float64(head.Height()))
	gauge("near_final_block_height", "Height of the last final block", float64(h.Engine.Final().Height))
	gauge("near_tail_height", "Lowest height that is kept", float64(h.store.Tip().Tail))
	gauge("near_gas_price", "Gas price of the next block, yoctoNEAR", hd.NextGasPrice.Float64())
	gauge("near_total_supply", "Total supply, yoctoNEAR", hd.TotalSupply.Float64())
	gauge("near_head_lag_seconds", "Age of the head", time.Since(time.Unix(0, int64(hd.Timestamp))).Seconds())
	gauge("near_sync_status", "0: in sync, 1: no peer has connected yet, 7: block sync", sync)
	gauge("near_node_protocol_version", "Newest protocol version that this node knows",
		float64(parameters.Newest(h.Engine.Chain().Version.Numbering)))
	gauge("near_current_protocol_version", "Protocol version of the head's epoch", float64(head.Config.Version.Protocol))
	gauge("troupe_storage_bytes_written",
		"Bytes written to disk since the start, compaction included; of a world: to its log in memory", float64(s.LogBytes+s.IndexBytes))
	return h.appendNear(b)
}

// appendMetrics appends the node's metrics.
func (h *Daemon) appendMetrics(b []byte) []byte {
	status := 0.
	if h.front != nil {
		switch syncing, _ := h.front.Syncing(); {
		case syncing && h.front.Awaits && !h.front.Met():
			status = 1
		case syncing:
			status = blockSync
		}
	}
	b = h.appendProcess(h.appendChain(b, status))
	gauge := func(name, help string, v float64) { b = appendMetric(b, "gauge", name, help, v) }
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	gauge("near_memory_usage_bytes", "Memory obtained from the system", float64(m.Sys))
	gauge("troupe_goroutines", "Goroutines", float64(runtime.NumGoroutine()))
	for i, v := range h.upgradeVotes {
		const name = "near_node_protocol_upgrade_voting_start"
		if i == 0 {
			b = fmt.Appendf(b, "# HELP %s Seconds since 1970 when this node begins to vote for a protocol version\n# TYPE %s gauge\n", name, name)
		}
		b = fmt.Appendf(b, "%s{protocol_version=\"%d\"} %d\n", name, v.Version, v.From)
	}
	gauge("near_node_db_version", "DB version used by the node", storage.FormatVersion)
	b = h.measured.AppendText(b, gcTime, configReloads, configReloadTime)
	gauge("near_gc_stop_height", "Target height of gc", float64(h.gcStop.Load()))
	correct := 1.
	if h.configWrong.Load() {
		correct = 0
	}
	gauge("near_config_correct", "Are the current dynamically loadable configs correct", correct)
	if h.feeds != nil {
		b = h.feeds.metrics(b)
	}
	b = h.historyMetrics(b)
	if h.front != nil {
		b = h.front.Metrics(b)
		if t := h.home.Config.Network.Transport; t == config.OverLibp2p || t == config.Both {
			b = h.libp2p.Metrics(b)
		}
	}
	full := 0.0
	if _, is := h.store.DiskSpace().Full(); is || h.bootstrap.isFull() {
		full = 1
	}
	b = appendMetric(b, "gauge", "troupe_disk_full",
		"1 while the disk is full: no blocks are stored, no transactions are accepted, no state is synced", full)
	if h.replica != nil {
		b = h.replica.metrics(b)
	}
	if p := h.publishing.Load(); p != nil {
		b = p.metrics(b)
	}
	return h.Node.Metrics(h.worlds.appendMetrics(h.appendFork(h.appendContracts(h.appendShards(b)))))
}

// blockSync is the value of near_sync_status during block sync, as in neard.
const blockSync = 7

// appendContracts appends the metrics of contract compilation and view calls.
func (h *Daemon) appendContracts(b []byte) []byte {
	b = appendVM(b, h.vm.Usage())
	s := h.vm.Stats()
	row := func(kind, name, help string, v float64) { b = appendMetric(b, kind, name, help, v) }
	row("counter", "troupe_contract_cache_hits", "Calls of contracts that were in memory", float64(s.Hits))
	row("counter", "troupe_contract_cache_loads", "Compiled contracts loaded from disk", float64(s.Loads))
	row("counter", "troupe_contract_compilations", "Contracts compiled", float64(s.Builds))
	row("counter", "troupe_contract_compilation_seconds", "Time spent compiling", s.BuildTime.Seconds())
	row("counter", "troupe_contract_cache_damaged", "Compiled contracts on disk that were damaged", float64(s.Damaged))
	row("counter", "troupe_contract_cache_disk_errors", "Compiled contracts that could not be written", float64(s.DiskErrors))
	row("counter", "troupe_contract_cache_evictions", "Compiled contracts dropped from memory", float64(s.Evictions))
	row("gauge", "troupe_contract_cache_entries", "Contracts in memory", float64(s.Entries))
	row("gauge", "troupe_contract_cache_bytes", "Bytes of compiled code in memory", float64(s.Bytes))
	row("gauge", "troupe_contract_cache_disk_bytes", "Bytes of compiled code on disk", float64(s.DiskBytes))
	row("counter", "troupe_contract_recompilations", "Contracts compiled again because the cache had dropped them", float64(s.Rebuilds))
	row("counter", "troupe_contract_cache_disk_evictions", "Compiled contracts dropped from disk", float64(s.DiskEvictions))
	k := &s.Compiler
	row("gauge", "troupe_contract_compilers", "Compiler processes, idle ones included", float64(k.Children))
	row("gauge", "troupe_contract_compilations_running", "Compilations under way", float64(k.Running))
	row("counter", "troupe_contract_compilers_started", "Compiler processes started", float64(k.Started))
	row("counter", "troupe_contract_compilers_died", "Compiler processes that died while compiling", float64(k.Deaths))
	row("counter", "troupe_contract_compilation_retries", "Compilations retried", float64(k.Retries))
	row("counter", "troupe_contract_compilation_failures", "Compilations given up because this node's compiler failed", float64(k.Failed))
	row("counter", "troupe_contract_compilations_refused",
		"Compilations not tried because an earlier one of the same code failed", float64(k.Refused))
	row("counter", "troupe_contract_compilations_in_process", "Compilations in the node's own process", float64(k.InProcess))
	row("counter", "troupe_contract_compilations_over_bound", "Compilations above their bound of time or code size", float64(k.OverBound))
	row("gauge", "troupe_contract_quarantined",
		"Contracts that the compiler failed on; they are compiled again only for a block", float64(k.Quarantined))
	row("counter", "troupe_contract_artifacts_whole",
		"Compiled contracts stored uncompacted because their format is unknown", float64(s.Whole))
	row("counter", "troupe_contract_alarms", "Faults that no contract should be able to cause", float64(s.Alarms))
	if h.views == nil {
		return b
	}
	v := h.views.Stats()
	row("gauge", "troupe_view_calls_running", "View calls that are running", float64(v.Running))
	row("gauge", "troupe_view_calls_waiting", "View calls that wait for a worker", float64(v.Waiting))
	row("counter", "troupe_view_calls", "Runs of view calls; a long call runs twice", float64(v.Done))
	row("counter", "troupe_view_calls_long", "View calls that moved to low-priority threads", float64(v.Long))
	row("counter", "troupe_view_calls_refused", "View calls refused because too many were waiting", float64(v.Refused))
	row("counter", "troupe_view_calls_timed_out", "View calls that timed out", float64(v.TimedOut))
	row("counter", "troupe_view_calls_abandoned", "Long view calls dropped because their clients had disconnected", float64(v.Gone))
	row("counter", "troupe_view_calls_panicked", "View calls that panicked", float64(v.Panicked))
	row("counter", "troupe_view_calls_seconds", "Time that workers spent on view calls", v.Busy.Seconds())
	return b
}

// metricsServer serves /metrics at rpc.prometheus_addr.
type metricsServer struct{ http *http.Server }

func serveMetrics(l net.Listener, metrics func([]byte) []byte) *metricsServer {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(metrics(nil))
	})
	s := &metricsServer{&http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute}}
	go func() { _ = s.http.Serve(&limitListener{Listener: l, most: metricsReaders}) }()
	return s
}

// metricsReaders is the maximum number of open connections of a metricsServer.
const metricsReaders = 64

// metricsWait is the time for which a stop waits for open requests.
const metricsWait = 300 * time.Millisecond

// stop closes the listener, and the connections after metricsWait.
func (s *metricsServer) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, metricsWait)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close()
	}
}
