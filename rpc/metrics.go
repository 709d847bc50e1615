package rpc

import (
	"fmt"
	"sort"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
)

// Metrics of the RPC, under nearcore's names (chain/jsonrpc/src/metrics.rs). As in nearcore, a
// series is absent until its first event.
const (
	timeBuckets = 16 // bounds from 1 ms on, each twice the previous one
)

// The methods of near_rpc_wait_until_count, by index.
const (
	waitTx = iota
	waitTxStatus
	waitExperimentalTxStatus
	waitSendTx
)

var waitNames = [...]string{
	waitTx: "tx", waitTxStatus: "tx_status", waitExperimentalTxStatus: "EXPERIMENTAL_tx_status", waitSendTx: "send_tx",
}

// errorCodes are the JSON-RPC error codes that have a counter.
var errorCodes = [...]int{-32000, -32601, -32700}

// series are the counters of one method.
type series struct {
	calls   atomic.Uint64
	errors  [len(errorCodes)]atomic.Uint64
	buckets [timeBuckets + 1]atomic.Uint64 // calls by duration; the last bucket counts calls above all bounds
	nanos   atomic.Uint64                  // total duration of calls in ns
}

type metrics struct {
	methods  map[string]*series // counters by the label of the method; the map is not changed after its creation
	unknown  series             // calls of methods that do not exist
	timeouts atomic.Uint64
	waits    [len(waitNames)][len(view.LevelNames)]atomic.Uint64
	status   atomic.Uint64 // number of GET /status
	scrapes  atomic.Uint64 // number of GET /metrics
	waiting  atomic.Int64  // number of requests that wait now
	refused  atomic.Uint64 // number of requests rejected because too many wait
	gone     atomic.Uint64 // number of waits that ended because the client hung up
	// simulating is the number of simulations and traces that run or wait now.
	simulating atomic.Int64
	indexing   atomic.Int64 // number of calls of EXPERIMENTAL_indexer_block that run now
	panics     atomic.Uint64
}

const unknownLabel = "UNSUPPORTED_METHOD"

func newMetrics() *metrics {
	m := &metrics{methods: map[string]*series{}}
	for i := range methods {
		r := &methods[i]
		for _, names := range [][]string{{r.name}, r.aliases, r.labels} {
			for _, n := range names {
				m.methods[n] = new(series)
			}
		}
	}
	return m
}

func (m *metrics) wait(which int, level view.ExecutionLevel) { m.waits[which][level].Add(1) }

// observe counts a call of a method. code is its JSON-RPC error code; 0: success.
func (m *metrics) observe(label string, took time.Duration, code int) {
	s := m.methods[label]
	if s == nil {
		s = &m.unknown
	}
	s.calls.Add(1)
	s.nanos.Add(uint64(took))
	bucket := 0
	for limit := time.Millisecond; bucket < timeBuckets && took > limit; limit *= 2 {
		bucket++
	}
	s.buckets[bucket].Add(1)
	for i, c := range errorCodes {
		if c == code {
			s.errors[i].Add(1)
		}
	}
}

func appendHead(b []byte, name, kind, help string) []byte {
	return fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// counter appends a counter without labels. counter appends nothing if v is 0.
func counter(b []byte, name, help string, v uint64) []byte {
	if v == 0 {
		return b
	}
	return fmt.Appendf(appendHead(b, name, "counter", help), "%s %d\n", name, v)
}

// appendText appends all metrics in Prometheus' text format.
func (m *metrics) appendText(b []byte) []byte {
	labels := make([]string, 0, len(m.methods))
	for l, s := range m.methods {
		if s.calls.Load() > 0 {
			labels = append(labels, l)
		}
	}
	if m.unknown.calls.Load() > 0 {
		labels = append(labels, unknownLabel)
	}
	sort.Strings(labels)
	of := func(l string) *series {
		if s := m.methods[l]; s != nil {
			return s
		}
		return &m.unknown
	}
	b = counter(b, "near_http_prometheus_requests_total", "Total count of Prometheus requests received", m.scrapes.Load())
	b = counter(b, "near_http_status_requests_total", "Total count of HTTP Status requests received", m.status.Load())
	b = m.appendErrors(b, labels, of)
	if len(labels) > 0 {
		b = appendHead(b, "near_rpc_processing_time", "histogram", "Time taken to process rpc queries")
		for _, l := range labels {
			b = of(l).appendHistogram(b, l)
		}
	}
	b = counter(b, "near_rpc_timeout_total", "Total count of rpc queries that ended on timeout", m.timeouts.Load())
	if len(labels) > 0 {
		b = appendHead(b, "near_rpc_total_count", "counter", "Total count of HTTP RPC requests received, by method")
		for _, l := range labels {
			b = fmt.Appendf(b, "near_rpc_total_count{method=%q} %d\n", l, of(l).calls.Load())
		}
	}
	return m.appendWaits(b)
}

// appendOwn appends the metrics that nearcore does not have.
func (m *metrics) appendOwn(b []byte) []byte {
	b = fmt.Appendf(appendHead(b, "troupe_rpc_waiting_requests", "gauge", "Requests that wait for the chain now"),
		"troupe_rpc_waiting_requests %d\n", m.waiting.Load())
	b = counter(b, "troupe_rpc_refused_waits_total", "Requests refused because too many were waiting", m.refused.Load())
	b = counter(b, "troupe_rpc_abandoned_waits_total", "Waits whose client hung up", m.gone.Load())
	return counter(b, "troupe_rpc_panics_total", "Requests that ended in a panic", m.panics.Load())
}

func (m *metrics) appendErrors(b []byte, labels []string, of func(string) *series) []byte {
	head := false
	for _, l := range labels {
		for i, code := range errorCodes {
			if n := of(l).errors[i].Load(); n > 0 {
				if !head {
					b, head = appendHead(b, "near_rpc_error_count", "counter", "Total count of errors by method and message"), true
				}
				b = fmt.Appendf(b, "near_rpc_error_count{err_code=\"%d\",method=%q} %d\n", code, l, n)
			}
		}
	}
	return b
}

func (s *series) appendHistogram(b []byte, label string) []byte {
	total, limit := uint64(0), 0.001
	for i := range timeBuckets {
		total += s.buckets[i].Load()
		b = fmt.Appendf(b, "near_rpc_processing_time_bucket{method=%q,le=\"%s\"} %d\n", label, strconv.FormatFloat(limit, 'g', -1, 64), total)
		limit *= 2
	}
	total += s.buckets[timeBuckets].Load()
	b = fmt.Appendf(b, "near_rpc_processing_time_bucket{method=%q,le=\"+Inf\"} %d\n", label, total)
	seconds := strconv.FormatFloat(float64(s.nanos.Load())/1e9, 'g', -1, 64)
	return fmt.Appendf(b, "near_rpc_processing_time_sum{method=%q} %s\nnear_rpc_processing_time_count{method=%q} %d\n",
		label, seconds, label, total)
}

func (m *metrics) appendWaits(b []byte) []byte {
	head := false
	for which, method := range waitNames {
		for level := range m.waits[which] {
			if n := m.waits[which][level].Load(); n > 0 {
				if !head {
					b, head = appendHead(b, "near_rpc_wait_until_count", "counter",
						"Tracks number of RPC calls using each wait_until transaction finality variant"), true
				}
				b = fmt.Appendf(b, "near_rpc_wait_until_count{method=%q,wait_until=%q} %d\n", method, view.LevelNames[level], n)
			}
		}
	}
	return b
}
