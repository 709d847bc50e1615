// Package metrics counts and measures by label, and writes the results in Prometheus' text format.
//
//	in      values with their labels, from any goroutine. Values are integers, so that packages
//	        without floats can count
//	out     the text of a list of families
//	state   Set: the series of each family
//	units   those that the family's name states
//	bound   callers must choose labels from a bounded set
//	errors  none; a wrong number of labels panics
//	source  our own; https://prometheus.io/docs/instrumenting/exposition_formats
package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// scaled returns a value in the metric's unit.
func (f *Family) scaled(v int64) float64 {
	if f.Per == 0 {
		return float64(v)
	}
	return float64(v) / f.Per
}

// Kind is a type of metrics.
type Kind string

// Kinds of metrics.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Family describes metrics of one name.
type Family struct {
	Name, Help string
	Kind       Kind
	Labels     []string  // names of the labels
	Bounds     []float64 // upper bounds of a histogram's buckets, ascending
	Per        float64   // number of the values' units in one of the metric's, as 1e9 for ns and seconds; 0: 1
}

// Bounds returns its arguments.
func Bounds(b ...float64) []float64 { return b }

// Exponential returns n bounds, of which each is factor times the one before.
func Exponential(start, factor float64, n int) (out []float64) {
	for range n {
		out = append(out, start)
		start *= factor
	}
	return out
}

// Linear returns n bounds that are step apart.
func Linear(start, step float64, n int) (out []float64) {
	for range n {
		out = append(out, start)
		start += step
	}
	return out
}

// TwoSided returns the negated bounds, 0 and the bounds.
func TwoSided(bounds []float64) (out []float64) {
	for _, b := range slices.Backward(bounds) {
		out = append(out, -b)
	}
	return append(append(out, 0), bounds...)
}

// Set holds the values of any number of families. The zero value is ready to use. Add and Put of a
// nil Set do nothing. Safe for concurrent use.
type Set struct {
	mu sync.Mutex
	of map[*Family]map[string]*Series // by the labels' text
}

// Series is a metric with its labels. Adding to it looks up nothing and takes no lock. Methods of a
// nil Series do nothing. Safe for concurrent use.
type Series struct {
	f      *Family
	sum    atomic.Int64    // sum of all values; of a gauge the last value
	counts []atomic.Uint64 // of a histogram: number of values in each bucket, the last one above all bounds
}

// Add adds v to a counter or gauge, or counts v in a histogram.
func (x *Series) Add(v int64) {
	if x == nil {
		return
	}
	x.sum.Add(v)
	if x.f.Kind == Histogram {
		i, _ := slices.BinarySearch(x.f.Bounds, x.f.scaled(v)) // index of the first bound >= v
		x.counts[i].Add(1)
	}
}

// Put sets a gauge.
func (x *Series) Put(v int64) {
	if x != nil {
		x.sum.Store(v)
	}
}

// Series returns the metric of a family with these values of the labels, for callers that add to it
// often. The Series of a nil Set is nil.
func (s *Set) Series(f *Family, values ...string) *Series {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at(f, values)
}

// Add adds v to a counter or gauge, or counts v in a histogram. values are those of the labels.
func (s *Set) Add(f *Family, v int64, values ...string) { s.Series(f, values...).Add(v) }

// Put sets a gauge. values are those of the labels.
func (s *Set) Put(f *Family, v int64, values ...string) { s.Series(f, values...).Put(v) }

// Value returns the sum of the values that were added, or the last value of a gauge, in the unit in
// which they were added.
func (s *Set) Value(f *Family, values ...string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at(f, values).sum.Load()
}

// Count returns the number of values that were added to a histogram.
func (s *Set) Count(f *Family, values ...string) (n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.at(f, values)
	for i := range x.counts {
		n += x.counts[i].Load()
	}
	return n
}

func (s *Set) at(f *Family, values []string) *Series {
	if len(values) != len(f.Labels) {
		panic(fmt.Sprintf("metrics: %s has %d labels, not %d", f.Name, len(f.Labels), len(values)))
	}
	labels := make([]string, len(values))
	for i, v := range values {
		labels[i] = f.Labels[i] + "=" + strconv.Quote(v)
	}
	if s.of == nil {
		s.of = map[*Family]map[string]*Series{}
	}
	of := s.of[f]
	if of == nil {
		of = map[string]*Series{}
		s.of[f] = of
	}
	key := strings.Join(labels, ",")
	if of[key] == nil {
		of[key] = &Series{f: f, counts: make([]atomic.Uint64, len(f.Bounds)+1)}
	}
	return of[key]
}

// AppendText appends the families to b. A counter or gauge without labels is 0 if nothing was added.
// Other metrics without a value have only the lines of help and type.
func (s *Set) AppendText(b []byte, families ...*Family) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range families {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", f.Name, f.Help, f.Name, f.Kind)
		if len(f.Labels) == 0 {
			s.at(f, nil)
		}
		of := s.of[f]
		keys := make([]string, 0, len(of))
		for k := range of {
			keys = append(keys, k)
		}
		slices.SortFunc(keys, func(x, y string) int { return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)) })
		for _, k := range keys {
			b = of[k].append(b, f, k)
		}
	}
	return b
}

func (x *Series) append(b []byte, f *Family, labels string) []byte {
	with, alone := labels, ""
	if labels != "" {
		with, alone = labels+",", "{"+labels+"}"
	}
	if f.Kind != Histogram {
		return fmt.Appendf(b, "%s%s %s\n", f.Name, alone, number(f.scaled(x.sum.Load())))
	}
	total := uint64(0)
	for i, bound := range f.Bounds {
		total += x.counts[i].Load()
		b = fmt.Appendf(b, "%s_bucket{%sle=\"%s\"} %d\n", f.Name, with, number(bound), total)
	}
	total += x.counts[len(f.Bounds)].Load()
	return fmt.Appendf(b, "%s_bucket{%sle=\"+Inf\"} %d\n%s_sum%s %s\n%s_count%s %d\n",
		f.Name, with, total, f.Name, alone, number(f.scaled(x.sum.Load())), f.Name, alone, total)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
