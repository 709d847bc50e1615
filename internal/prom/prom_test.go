package prom

import (
	"math"
	"strings"
	"testing"
)

const text = `# HELP a_total how often
# TYPE a_total counter
a_total{kind="x",text="a \"b\" \\ \n{},"} 3
a_total{kind="y"} 4.5 1700000000000

b -1e3
# TYPE h histogram
h_bucket{of="1",le="1"} 2
h_bucket{of="1",le="4"} 6
h_bucket{of="1",le="+Inf"} 6
h_bucket{of="2",le="1"} 1
h_bucket{of="2",le="4"} 1
h_bucket{of="2",le="+Inf"} 2
h_sum{of="1"} 9
h_count{of="1"} 6
`

func TestMetricsTextIsRead(t *testing.T) {
	m, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := m.Sum("a_total"); s != 7.5 || !ok {
		t.Errorf("sum %v", s)
	}
	if _, ok := m.Sum("none"); ok || m.Has("none") || !m.Has("b") || !m.Has("h") || m.Types["h"] != "histogram" {
		t.Errorf("types %+v", m.Types)
	}
	if got := m.Samples["a_total"][0].Labels["text"]; got != "a \"b\" \\ \n{}," {
		t.Errorf("label %q", got)
	}
	for _, bad := range []string{"1a 3", "a", "a x", "a{b=c} 1", `a{b="c} 1`, `a{b="c"`, "a 1 2 3", "<html>", `a{b="c"}`} {
		if _, err := Read(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestQuantilesAreInterpolated(t *testing.T) {
	m, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	all := func(map[string]string) bool { return true }
	one := m.Histogram("h", func(l map[string]string) bool { return l["of"] == "1" })
	if got := one.Quantile(1. / 3); math.Abs(got-1) > 1e-9 {
		t.Errorf("a third is below %v", got)
	}
	if got := one.Quantile(2. / 3); math.Abs(got-2) > 1e-9 { // half of the way from 1 to 4, of logarithms
		t.Errorf("two thirds are below %v", got)
	}
	both := m.Histogram("h", all)
	if got := both.Quantile(1); math.Abs(got-16) > 1e-9 {
		t.Errorf("all are below %v", got)
	}
	if since := both.Since(one); since.Counts[0] != 1 || since.Counts[1] != 0 || since.Counts[2] != 1 {
		t.Errorf("since: %+v", since)
	}
	if anew := one.Since(both); anew.Counts[1] != 4 { // less than before: another process
		t.Errorf("anew: %+v", anew)
	}
	if !math.IsNaN(m.Histogram("none", all).Quantile(0.5)) {
		t.Error("a quantile of nothing")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(text)
	f.Fuzz(func(t *testing.T, in string) {
		m, err := Read(strings.NewReader(in))
		if err != nil {
			return
		}
		for name, list := range m.Samples {
			if !isName(name) || len(list) == 0 {
				t.Errorf("name %q", name)
			}
			m.Histogram(name, func(map[string]string) bool { return true }).Quantile(0.5)
		}
	})
}
