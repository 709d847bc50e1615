package rpc

import (
	"strconv"
	"sync"
	"time"
)

// The console's charts begin with the last ten minutes. The node records these samples, because a
// page that is opened afterwards has no source for earlier samples except the node.
const (
	// historyEvery is the time between samples.
	historyEvery = 5 * time.Second
	// historyKept is the number of samples that are kept: ten minutes, some 30 KiB.
	historyKept = 120
)

// historySample has the values of counters at one time. The counters only grow.
type historySample struct {
	at      int64                   // ms since 1970
	txs     uint64                  // transactions in blocks that have become the head
	buckets [timeBuckets + 1]uint64 // calls of all methods, by duration
}

// consoleHistory is a ring of the last samples. It is safe for concurrent use.
type consoleHistory struct {
	begin   sync.Once
	mu      sync.Mutex
	samples [historyKept]historySample
	taken   int // number of samples since the start; the next one goes to index taken % historyKept
}

// keepHistory records samples until the server shuts down. keepHistory does nothing if the page is
// switched off or Options.Included is nil.
func (s *Server) keepHistory() {
	if !s.opts.Console || s.opts.Included == nil {
		return
	}
	s.history.begin.Do(func() {
		go func() {
			tick := time.NewTicker(historyEvery)
			defer tick.Stop()
			for {
				s.history.add(s.sample(time.Now()))
				select {
				case <-tick.C:
				case <-s.ctx.Done():
					return
				}
			}
		}()
	})
}

// sample reads the counters.
func (s *Server) sample(now time.Time) historySample {
	x := historySample{at: now.UnixMilli(), txs: s.opts.Included()}
	for _, m := range s.metrics.methods {
		for i := range x.buckets {
			x.buckets[i] += m.buckets[i].Load()
		}
	}
	return x
}

func (h *consoleHistory) add(x historySample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.samples[h.taken%historyKept] = x
	h.taken++
}

// appendJSON appends the samples, the oldest first: [time in ms, transactions, calls by duration].
// bounds_ns has the upper bounds of the durations. The last number counts the calls that took
// longer than all bounds.
func (h *consoleHistory) appendJSON(b []byte) []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	b = append(b, `{"bounds_ns":[`...)
	for i := range timeBuckets {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(time.Millisecond)<<i, 10)
	}
	b = append(b, `],"samples":[`...)
	for i := max(0, h.taken-historyKept); i < h.taken; i++ {
		x := &h.samples[i%historyKept]
		if b[len(b)-1] == ']' {
			b = append(b, ',')
		}
		b = strconv.AppendUint(append(strconv.AppendInt(append(b, '['), x.at, 10), ','), x.txs, 10)
		for _, n := range x.buckets {
			b = strconv.AppendUint(append(b, ','), n, 10)
		}
		b = append(b, ']')
	}
	return append(b, "]}"...)
}
