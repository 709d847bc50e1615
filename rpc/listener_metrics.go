package rpc

import (
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/rpc/limits"
)

// fill returns the current use of each limit. For a limit by address, fill returns the use of the
// address with the highest use. known is false for limits of a single request.
func (s *Server) fill() (fill [limits.Count]int64, known [limits.Count]bool) {
	d := s.limiter
	d.mu.Lock()
	set := func(id limits.ID, v int64) { fill[id], known[id] = v, true }
	set(limits.MaxConnections, int64(len(d.conns)))
	for _, id := range []limits.ID{limits.MaxAddressSockets, limits.MaxAddressSubscriptions, limits.MaxAddressConnections,
		limits.MaxAddressParked, limits.MaxAddressSimulations, limits.MaxAddressInFlight} {
		set(id, 0)
	}
	for _, c := range d.clients {
		set(limits.MaxAddressConnections, max(fill[limits.MaxAddressConnections], int64(c.conns)))
		set(limits.MaxAddressSockets, max(fill[limits.MaxAddressSockets], c.sockets.Load()))
		set(limits.MaxAddressSubscriptions, max(fill[limits.MaxAddressSubscriptions], c.subs.Load()))
		set(limits.MaxAddressParked, max(fill[limits.MaxAddressParked], c.parked.Load()))
		set(limits.MaxAddressSimulations, max(fill[limits.MaxAddressSimulations], c.simulations.Load()))
		set(limits.MaxAddressInFlight, max(fill[limits.MaxAddressInFlight], c.inFlight.Load()))
	}
	d.mu.Unlock()
	s.sockets.mu.Lock()
	set(limits.MaxSockets, int64(len(s.sockets.open)))
	s.sockets.mu.Unlock()
	set(limits.MaxSubscriptions, s.sockets.subs.Load())
	set(limits.MaxQueuedBytes, s.sockets.queued.Load())
	set(limits.MaxParked, s.metrics.waiting.Load())
	set(limits.MaxSimulations, s.metrics.simulating.Load())
	set(limits.MaxInFlight, d.inFlight.Load())
	set(limits.MaxHeavyWaiting, int64(d.heavy.waiting()))
	return fill, known
}

// appendLimits appends, for each limit, its value, its use and the number of requests that the
// limit rejected.
func (s *Server) appendLimits(b []byte) []byte {
	fill, known := s.fill()
	b = appendHead(b, "troupe_rpc_limit", "gauge", "Limits of the RPC: numbers, bytes, seconds")
	for i := range limits.Table {
		r := &limits.Table[i]
		v := float64(r.Get(&s.opts.Limits))
		if r.Time != nil {
			v /= 1e9
		}
		b = fmt.Appendf(b, "troupe_rpc_limit{limit=%q} %s\n", r.Key, strconv.FormatFloat(v, 'g', -1, 64))
	}
	b = appendHead(b, "troupe_rpc_limit_fill", "gauge", "What of a limit is taken; of those by address, by the address that has most")
	for i := range limits.Table {
		if known[i] {
			b = fmt.Appendf(b, "troupe_rpc_limit_fill{limit=%q} %d\n", limits.Table[i].Key, fill[i])
		}
	}
	b = appendHead(b, "troupe_rpc_limit_refusals_total", "counter", "What a limit refused, or ended")
	for i := range limits.Table {
		b = fmt.Appendf(b, "troupe_rpc_limit_refusals_total{limit=%q} %d\n", limits.Table[i].Key, s.limiter.refused[i].Load())
	}
	s.limiter.mu.Lock()
	addresses := len(s.limiter.clients)
	s.limiter.mu.Unlock()
	b = fmt.Appendf(appendHead(b, "troupe_rpc_addresses", "gauge", "Addresses with connections"),
		"troupe_rpc_addresses %d\n", addresses)
	b = fmt.Appendf(appendHead(b, "troupe_rpc_paced", "gauge", "Connections that wait as they send more than half of the cores can answer"),
		"troupe_rpc_paced %d\n", s.limiter.pacer.waiting())
	b = fmt.Appendf(appendHead(b, "troupe_rpc_paced_total", "counter", "How often a connection waited for that"),
		"troupe_rpc_paced_total %d\n", s.limiter.pacer.delays.Load())
	waiting, texts := s.limiter.replies.waiting()
	b = fmt.Appendf(appendHead(b, "troupe_rpc_replies_waiting", "gauge", "Large replies that many are told and that wait for room"),
		"troupe_rpc_replies_waiting %d\n", waiting)
	b = fmt.Appendf(appendHead(b, "troupe_rpc_replies_waiting_bytes", "gauge", "What these are made of, each text once; at most 32 MiB"),
		"troupe_rpc_replies_waiting_bytes %d\n", texts)
	b = fmt.Appendf(appendHead(b, "troupe_rpc_connections_opened_total", "counter", "Connections that were let in"),
		"troupe_rpc_connections_opened_total %d\n", s.limiter.opened.Load())
	b = fmt.Appendf(
		appendHead(b, "troupe_rpc_connections_failed_total", "counter", "Connections that the system could not give: too many open files"),
		"troupe_rpc_connections_failed_total %d\n",
		s.limiter.failed.Load(),
	)
	return fmt.Appendf(appendHead(b, "troupe_rpc_connections_evicted_total", "counter", "Idle connections that gave way to new ones"),
		"troupe_rpc_connections_evicted_total %d\n", s.limiter.evicted.Load())
}
