package metrics

import (
	"slices"
	"testing"
)

// TestTextOfSet: each kind of metric has Prometheus' text form, sorted by labels, and a value on a
// bound counts in that bound's bucket.
func TestTextOfSet(t *testing.T) {
	counter := &Family{Name: "c_total", Help: "Some count", Kind: Counter, Labels: []string{"shard_id", "error"}}
	gauge := &Family{Name: "g", Help: "Some level", Kind: Gauge}
	hist := &Family{Name: "h_seconds", Help: "Some time", Kind: Histogram, Labels: []string{"shard_id"}, Bounds: []float64{-1, 0, 1}, Per: 1000}
	plain := &Family{Name: "p", Help: "Another time", Kind: Histogram, Bounds: []float64{1}}
	none := &Family{Name: "n", Help: "Nothing", Kind: Counter, Labels: []string{"shard_id"}}
	var s Set
	s.Add(counter, 2, "10", "x")
	s.Add(counter, 1, "2", "x\"y")
	s.Add(counter, 1, "10", "x")
	s.Put(gauge, 7)
	s.Put(gauge, 1e12)
	for _, v := range []int64{-2000, -1000, 500, 1000, 1750} {
		s.Add(hist, v, "3")
	}
	const want = `# HELP c_total Some count
# TYPE c_total counter
c_total{shard_id="10",error="x"} 3
c_total{shard_id="2",error="x\"y"} 1
# HELP g Some level
# TYPE g gauge
g 1000000000000
# HELP h_seconds Some time
# TYPE h_seconds histogram
h_seconds_bucket{shard_id="3",le="-1"} 2
h_seconds_bucket{shard_id="3",le="0"} 2
h_seconds_bucket{shard_id="3",le="1"} 4
h_seconds_bucket{shard_id="3",le="+Inf"} 5
h_seconds_sum{shard_id="3"} 0.25
h_seconds_count{shard_id="3"} 5
# HELP p Another time
# TYPE p histogram
p_bucket{le="1"} 0
p_bucket{le="+Inf"} 0
p_sum 0
p_count 0
# HELP n Nothing
# TYPE n counter
`
	if got := string(s.AppendText(nil, counter, gauge, hist, plain, none)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if v, n := s.Value(counter, "10", "x"), s.Count(hist, "3"); v != 3 || n != 5 {
		t.Errorf("the counter is %d, the histogram has %d values", v, n)
	}
}

// TestBounds: the bounds are those of prometheus' functions.
func TestBounds(t *testing.T) {
	for name, c := range map[string][2][]float64{
		"exponential": {Exponential(1, 2, 4), {1, 2, 4, 8}},
		"linear":      {Linear(0, 0.5, 3), {0, 0.5, 1}},
		"two sided":   {TwoSided([]float64{1, 2}), {-2, -1, 0, 1, 2}},
	} {
		if !slices.Equal(c[0], c[1]) {
			t.Errorf("%s: %v, want %v", name, c[0], c[1])
		}
	}
}
