package load

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// made is a report of one phase with latencies around a value.
func made(t *testing.T, mean float64, seconds int, seed uint64) *Report {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 9))
	rec := newRecord(0, time.Duration(seconds)*time.Second)
	for s := range seconds {
		slow := 1 + 0.2*rng.Float64() // latencies close in time are correlated
		for range 200 {
			rec.add(time.Duration(s)*time.Second, time.Duration(mean*slow*rng.ExpFloat64()*1e9), nil)
		}
	}
	p := &Phase{Name: "run", Rate: 200, Arrival: "poisson", Seconds: float64(seconds), Offered: 200 * seconds, Lanes: 8}
	p.gather([]*record{rec})
	p.finish()
	r := NewReport()
	r.Workload, r.Until, r.Arrival, r.Target = "native", "EXECUTED_OPTIMISTIC", "poisson", Subject{Kind: "rpc", Name: "http://x", ChainID: "test"}
	r.Phases = []Phase{*p}
	return r
}

// reread writes a report as a file and reads it.
func reread(t *testing.T, r *Report) *Report {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := ReadReport(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCompareDetectsOnlyRealDifferences: for equal distributions no interval misses one more often
// than it may. A difference is detected with its direction. Reports read from files give the same
// result.
func TestCompareDetectsOnlyRealDifferences(t *testing.T) {
	wrong, rows := 0, 0
	for seed := range uint64(12) {
		c, err := Compare(made(t, 0.01, 30, 2*seed), reread(t, made(t, 0.01, 30, 2*seed+1)))
		if err != nil {
			t.Fatal(err)
		}
		for i := range c.Rows {
			if r := &c.Rows[i]; r.A != 0 && strings.Contains(r.Name, "p") {
				if rows++; r.Differs() {
					wrong++
				}
			}
		}
	}
	if wrong > rows/5 {
		t.Errorf("%d of %d intervals report a difference of equal distributions", wrong, rows)
	}
	c, err := Compare(made(t, 0.01, 30, 1), reread(t, made(t, 0.02, 30, 2)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Rows {
		r := &c.Rows[i]
		if !strings.HasSuffix(r.Name, "done/s") && (!r.Differs() || math.Abs(r.Ratio-2) > 0.3 || r.Interval[0] > 2.3 || r.Interval[1] < 1.7) {
			t.Errorf("%s: %v, interval %v, for twice as long", r.Name, r.Ratio, r.Interval)
		}
	}
	var b bytes.Buffer
	if err := c.WriteText(&b); err != nil || strings.Count(b.String(), "B is worse") != 5 || !strings.Contains(b.String(), "bootstrap") {
		t.Errorf("error %v\ngot:\n%s", err, b.String())
	}
	if c, err = Compare(made(t, 0.01, 3, 1), made(t, 0.02, 3, 2)); err != nil || c.Rows[1].Differs() {
		t.Errorf("three seconds are too little: %+v, %v", c.Rows[1], err)
	}
}

// TestCompareKneesUsesWelchsInterval: Welch's interval, by a known example.
func TestCompareKneesUsesWelchsInterval(t *testing.T) {
	// By hand: means 21.62 and 23.34, variances 16.77 and 5.598, 6.40 degrees of freedom, t = 2.41,
	// a standard error of 2.115.
	half, ok := welch([]float64{27.5, 21.0, 19.0, 23.6, 17.0}, []float64{27.1, 22.0, 20.8, 23.4, 23.4}, 1)
	if !ok || math.Abs(half-5.10) > 0.02 {
		t.Errorf("half an interval %v", half)
	}
	for freedom, want := range map[float64]float64{1: 12.706, 4: 2.776, 7: 2.365, 12: 2.179, 40: 2.021, 1e12: 1.960} {
		if got := studentT(freedom); math.Abs(got-want) > 0.004 {
			t.Errorf("t(%v) = %v, want %v", freedom, got, want)
		}
	}
	knees := func(rates ...float64) *Report {
		r := made(t, 0.01, 10, 1)
		var runs []Knee
		for _, v := range rates {
			runs = append(runs, Knee{Rate: v, Low: v * 0.98, High: v * 1.02, P99: 1, Kept: 0.99, Reached: true, Phases: []Phase{{Rate: v, Offered: 10, Done: 10, Latency: Latency{P99: 0.5}}}})
		}
		k := Together(runs)
		r.Knees = &k
		return r
	}
	c, err := Compare(knees(1000, 1010, 990), reread(t, knees(1200, 1210, 1190)))
	if err != nil {
		t.Fatal(err)
	}
	// standard error 9.017, 3.87 degrees of freedom, t = 2.81
	if r := c.Rows[len(c.Rows)-1]; r.Method != "Welch" || !r.Differs() || math.Abs(r.Ratio-1.2) > 0.001 || math.Abs(r.Interval[1]-r.Interval[0]-2*0.0254) > 0.001 {
		t.Errorf("got %+v", r)
	}
	if c, err = Compare(knees(1000), knees(1200)); err != nil || c.Rows[len(c.Rows)-1].Differs() {
		t.Errorf("comparison of single runs: %+v, %v", c.Rows, err)
	}
}

// TestUnlikeReportsAreNotCompared: reports that cannot be compared are refused with the reason.
func TestUnlikeReportsAreNotCompared(t *testing.T) {
	a := made(t, 0.01, 10, 1)
	for what, change := range map[string]func(r *Report){
		"workload": func(r *Report) { r.Workload = "ft" }, "until": func(r *Report) { r.Until = "FINAL" }, "rate": func(r *Report) { r.Phases[0].Rate = 7 },
		"nothing": func(r *Report) { r.Phases = nil },
	} {
		t.Run(what, func(t *testing.T) {
			b := made(t, 0.01, 10, 2)
			change(b)
			if c, err := Compare(a, b); !errors.Is(err, ErrUnlike) {
				t.Errorf("got %+v, error %v", c, err)
			}
		})
	}
	dir := t.TempDir()
	for what, text := range map[string]string{"no JSON": "{", "another report": `{"command":"bench shard"}`, "no histogram": `{"command":"bench load","format":1,"phases":[{"series":[{"latency":{"hdr":"nonsense"}}]}]}`} {
		t.Run(what, func(t *testing.T) {
			path := filepath.Join(dir, "r.json")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadReport(path); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("got error %v", err)
			}
		})
	}
}

// TestHTMLReportHasNoExternalReference: the page is one well-formed file without external
// references, shows the measurements, and escapes text of other programs.
func TestHTMLReportHasNoExternalReference(t *testing.T) {
	r := made(t, 0.01, 30, 1)
	evil := `<script>alert(1)</script>"'&`
	r.Phases[0].Errors = map[string]int{evil: 3}
	r.Phases[0].Failed = 3
	r.Target.Name, r.Broken = "http://x/"+evil, evil
	k := Together([]Knee{{Rate: 100, Low: 98, High: 102, P99: 1, Kept: 0.99, Phases: []Phase{{Rate: 50, Offered: 10, Done: 10, Latency: Latency{P99: 0.1}}, {Rate: 102, Offered: 10, Done: 1}}}, {Rate: 101, P99: 1, Kept: 0.99}})
	r.Knees = &k
	var b bytes.Buffer
	if err := reread(t, r).WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, outside := range []string{"<script", "<link", "<img", "<iframe", "src=", "@import", "url(", "javascript:"} {
		if strings.Contains(text, outside) {
			t.Errorf("the page has %s", outside)
		}
	}
	// title and heading name the target
	if found := regexp.MustCompile(`https?://[^ "<]*`).FindAllString(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), -1); len(found) != 2 {
		t.Errorf("addresses in the page: %q", found)
	}
	if n := strings.Count(text, "<polyline"); n < 6 || strings.Count(text, "<circle") != 3 || strings.Count(text, "&lt;script&gt;") != 4 {
		t.Errorf("got %d lines, %d dots, %d foreign texts", n, strings.Count(text, "<circle"), strings.Count(text, "&lt;script&gt;"))
	}
	for _, points := range regexp.MustCompile(`points="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if strings.Contains(points[1], "NaN") || strings.Contains(points[1], "Inf") || strings.TrimSpace(points[1]) == "" {
			t.Errorf("a line of no points: %.100s", points[1])
		}
	}
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1) {
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in %.200s", err, svg)
			}
		}
	}
	empty := NewReport()
	empty.Phases = []Phase{{Name: "nothing"}}
	if err := empty.WriteHTML(io.Discard); err != nil {
		t.Error(err)
	}
}

// TestErrorTextIsOneSafeLine: an error text of a node cannot control the terminal and is at most
// one line.
func TestErrorTextIsOneSafeLine(t *testing.T) {
	if got := words(errors.New(" a\x1b[2Jb\nc\u202ed ")); got != "a?[2Jb?c?d" {
		t.Errorf("got %q", got)
	}
	if got := words(errors.New(strings.Repeat("ä", 200))); len(got) > maxWords+3 || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
