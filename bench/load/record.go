package load

import (
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Latencies are recorded from one microsecond to ten minutes, with three significant digits.
const (
	shortest = int64(time.Microsecond)
	longest  = int64(10 * time.Minute)
	digits   = 3
)

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(shortest, longest, digits) }

// maxWords is the maximum length of an error text in a report. maxKinds is the maximum number of
// different error texts.
const (
	maxWords = 200
	maxKinds = 20
)

// record holds the latencies and errors of the operations that one worker ran.
type record struct {
	warm, length time.Duration
	done         atomic.Int64
	seconds      []second
	errors       map[string]int
}

// second contains the operations that were due in one second.
type second struct {
	took   []int64 // latencies in ns
	failed int
}

func newRecord(warm, length time.Duration) *record {
	return &record{warm: warm, length: length, seconds: make([]second, int(math.Ceil(length.Seconds()))), errors: map[string]int{}}
}

// add records one operation in the second in which it was due. Operations of the warm-up are not
// counted.
func (r *record) add(due, took time.Duration, err error) {
	r.done.Add(1)
	at := due - r.warm
	if at < 0 || at >= r.length {
		return
	}
	s := &r.seconds[min(int(at/time.Second), len(r.seconds)-1)]
	if err != nil {
		s.failed++
		r.errors[words(err)]++
		return
	}
	s.took = append(s.took, int64(took))
}

// words returns the text of an error for the report. That text is the first part of the error,
// without control characters. The first part identifies the kind of error.
func words(err error) string {
	text := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.TrimSpace(err.Error()))
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "..."
	}
	return text
}

// Latency is a distribution of latencies, in seconds.
type Latency struct {
	Mean float64 `json:"mean_seconds"`
	P50  float64 `json:"p50_seconds"`
	P90  float64 `json:"p90_seconds"`
	P99  float64 `json:"p99_seconds"`
	P999 float64 `json:"p999_seconds"`
	Max  float64 `json:"max_seconds"`
	// HDR is the histogram of nanoseconds (HdrHistogram V2, compressed, base64); empty: no values.
	HDR string `json:"hdr,omitempty"`

	h *hdrhistogram.Histogram
}

// latencyOf returns the quantiles of a histogram, and the histogram itself in encoded form.
func latencyOf(h *hdrhistogram.Histogram) (l Latency) {
	if h.TotalCount() == 0 {
		return l
	}
	sec := func(ns int64) float64 { return float64(ns) / 1e9 }
	l = Latency{Mean: h.Mean() / 1e9, P50: sec(h.ValueAtQuantile(50)), P90: sec(h.ValueAtQuantile(90)), P99: sec(h.ValueAtQuantile(99)),
		P999: sec(h.ValueAtQuantile(99.9)), Max: sec(h.Max()), h: h}
	if b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase); err == nil {
		l.HDR = string(b)
	}
	return l
}

// histogram decodes the field HDR.
func (l *Latency) histogram() (_ *hdrhistogram.Histogram, err error) {
	defer func() {
		if p := recover(); p != nil { // the histogram library panics on invalid input
			err = fmt.Errorf("load: decode a histogram: %v", p)
		}
	}()
	if l.h != nil {
		return l.h, nil
	}
	if l.HDR == "" {
		return newHistogram(), nil
	}
	h, err := hdrhistogram.Decode([]byte(l.HDR))
	if err != nil {
		return nil, fmt.Errorf("load: decode a histogram: %w", err)
	}
	l.h = h
	return h, nil
}

// Phase is the result of one Run.
type Phase struct {
	Name    string  `json:"name,omitempty"`
	Rate    float64 `json:"rate"` // offered operations per second; 0: no fixed rate
	Arrival string  `json:"arrival,omitempty"`
	Lanes   int     `json:"lanes"` // maximum number of concurrent operations
	Seconds float64 `json:"seconds"`
	Warm    float64 `json:"warm_seconds,omitempty"` // duration of the warm-up
	Offered int     `json:"offered"`
	Done    int     `json:"done"`
	Failed  int     `json:"failed"`
	// true: the run was stopped early because due operations waited too long
	Behind   bool           `json:"behind,omitempty"`
	Achieved float64        `json:"achieved_per_second"`
	Latency  Latency        `json:"latency"`
	Errors   map[string]int `json:"errors,omitempty"`
	// Again is the number of requests that were repeated because the target was busy. That number
	// includes the warm-up.
	Again int `json:"again,omitempty"`
	// Others is the share of the machine's processor time that other processes used, including
	// during the warm-up. 0: none, or unknown.
	Others float64 `json:"others,omitempty"`
	// set only for trials: the trial does not count, because Others was too high
	Disturbed bool     `json:"disturbed,omitempty"`
	Series    []Second `json:"series"`

	Included int     `json:"included,omitempty"` // number of transactions in blocks, as counted by the target
	Blocks   float64 `json:"blocks_per_second,omitempty"`

	Heights *Heights `json:"heights,omitempty"` // heights of a cluster; nil: the target is no cluster
}

// Second holds the operations that were due in one second of a phase.
type Second struct {
	Done    int     `json:"done"`
	Failed  int     `json:"failed,omitempty"`
	Latency Latency `json:"latency"`
}

// gather merges the records of all workers into the phase.
func (p *Phase) gather(records []*record) {
	p.Errors = map[string]int{}
	all := newHistogram()
	for s := range records[0].seconds {
		h := newHistogram()
		var at Second
		for _, r := range records {
			x := &r.seconds[s]
			at.Failed += x.failed
			for _, ns := range x.took {
				_ = h.RecordValue(min(max(ns, shortest), longest)) // the value is within the bounds
			}
			at.Done += len(x.took)
		}
		at.Latency = latencyOf(h)
		all.Merge(h)
		p.Done += at.Done
		p.Failed += at.Failed
		p.Series = append(p.Series, at)
	}
	for _, r := range records {
		for what, n := range r.errors {
			if _, known := p.Errors[what]; !known && len(p.Errors) >= maxKinds {
				what = "others"
			}
			p.Errors[what] += n
		}
	}
	p.Latency = latencyOf(all)
}

func (p *Phase) finish() { p.Achieved = float64(p.Done) / p.Seconds }

// Kept returns the share of offered operations that succeeded.
func (p *Phase) Kept() float64 { return float64(p.Done) / float64(max(p.Offered, 1)) }
