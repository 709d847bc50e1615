package bench

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"time"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/storage"
)

// ActorResult is the activity of one kind of actor during the measurement.
type ActorResult struct {
	Name       string  `json:"name"`
	Messages   int64   `json:"messages"`
	MailboxMax int64   `json:"mailbox_max"` // maximum mailbox length in samples taken every 10 ms
	BusyShare  float64 `json:"busy_share"`  // share of the measured time that the actor spent in Receive
	// WaitedSeconds is the 99th percentile of the time in the mailbox since the node's start.
	WaitedSeconds float64 `json:"waited_p99_seconds"`
	// 99th percentile of the handling time since the node's start
	HandledSeconds float64 `json:"handled_p99_seconds"`
}

// meter measures, over the measured time, the process and the node's actors.
type meter struct {
	n      *fullNode
	start  time.Time
	cpu    time.Duration
	store  storage.Stats
	disk   uint64
	mem    runtime.MemStats
	pauses *metrics.Float64Histogram
	actors []system.Sample

	done chan struct{}
	wg   sync.WaitGroup
	max  map[string]int64 // largest mailbox length by actor
	rss  uint64
}

const sampling = 10 * time.Millisecond

func startMeter(n *fullNode) *meter {
	m := &meter{n: n, done: make(chan struct{}), max: map[string]int64{}, store: n.Engine.Store().Stats(), disk: written(),
		pauses: gcPauses(), actors: n.Node.Meter()}
	runtime.ReadMemStats(&m.mem)
	m.start, m.cpu = time.Now(), cpuTime()
	m.wg.Go(m.sample)
	return m
}

func (m *meter) sample() {
	tick := time.NewTicker(sampling)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-m.done:
			return
		case <-tick.C:
		}
		for _, s := range m.n.Node.Meter() {
			m.max[s.Title()] = max(m.max[s.Title()], s.Mailbox)
		}
		if i%16 == 0 {
			m.rss = max(m.rss, resident(os.Getpid()))
		}
	}
}

// stop ends the measurement and sets the fields of r that are about the process, the store and the
// actors.
func (m *meter) stop(r *NodeResult) {
	took := time.Since(m.start)
	r.CPUSeconds = (cpuTime() - m.cpu).Seconds()
	close(m.done)
	m.wg.Wait()
	s := m.n.Engine.Store().Stats()
	r.LogBytes, r.IndexBytes = s.LogBytes-m.store.LogBytes, s.IndexBytes-m.store.IndexBytes
	if m.disk > 0 {
		r.DiskBytes = written() - m.disk
	}
	r.ResidentBytes = m.rss
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r.Collections = int(mem.NumGC - m.mem.NumGC)
	r.GCPauseTotal = time.Duration(mem.PauseTotalNs - m.mem.PauseTotalNs).Seconds()
	r.GCPauseP99, r.GCPauseMax = pauseQuantiles(m.pauses, gcPauses())
	r.allocated, r.allocations = mem.TotalAlloc-m.mem.TotalAlloc, mem.Mallocs-m.mem.Mallocs
	before := map[string]system.Sample{}
	for _, a := range m.actors {
		before[a.Title()] = a
	}
	for _, a := range m.n.Node.Meter() {
		b := before[a.Title()]
		r.Actors = append(r.Actors, ActorResult{Name: a.Title(), Messages: a.Messages - b.Messages, MailboxMax: m.max[a.Title()],
			BusyShare: (a.Busy - b.Busy).Seconds() / took.Seconds(), WaitedSeconds: a.Waited.Within(0.99).Seconds(),
			HandledSeconds: a.Handled.Within(0.99).Seconds()})
	}
}

// gcPauses returns the runtime's histogram of garbage collection pauses, in seconds.
func gcPauses() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindFloat64Histogram {
		return &metrics.Float64Histogram{}
	}
	return s[0].Value.Float64Histogram()
}

// pauseQuantiles returns upper bounds of quantiles of the pauses between two readings of the
// histogram.
func pauseQuantiles(from, to *metrics.Float64Histogram) (p99, longest float64) {
	var total, seen uint64
	for i := range to.Counts {
		if i < len(from.Counts) {
			to.Counts[i] -= from.Counts[i]
		}
		total += to.Counts[i]
	}
	for i, n := range to.Counts {
		if n == 0 {
			continue
		}
		top := to.Buckets[i+1]
		if math.IsInf(top, 1) {
			top = to.Buckets[i]
		}
		if seen += n; seen*100 >= total*99 && p99 == 0 {
			p99 = top
		}
		longest = top
	}
	return p99, longest
}

// written returns the bytes that the process has written to disks; 0 if the system does not report
// that number.
func written() uint64 {
	raw, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		var n uint64
		if _, err := fmt.Sscanf(line, "write_bytes: %d", &n); err == nil {
			return n
		}
	}
	return 0
}
