// Package prom reads metrics in Prometheus' text format.
//
//	in      the body of GET /metrics
//	out     Metrics: samples by name, with their types; quantiles of histograms
//	state   none
//	units   those of the metrics
//	bound   lines of at most 1 MiB
//	errors  an invalid line, with its number
//	source  prometheus.io/docs/instrumenting/exposition_formats (0.0.4)
package prom

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Sample is one value of a metric.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Metrics are the samples of one scrape by series name. A histogram consists of three series.
type Metrics struct {
	Samples map[string][]Sample
	Types   map[string]string // by family; no entry if the text has no TYPE line for the family
}

// maxLine is the maximum length of a line in bytes.
const maxLine = 1 << 20

// Read reads metrics until the end of r.
func Read(r io.Reader) (*Metrics, error) {
	m := &Metrics{Samples: map[string][]Sample{}, Types: map[string]string{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			if name, kind, ok := strings.Cut(rest, " "); ok {
				m.Types[name] = kind
			}
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		name, s, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		m.Samples[name] = append(m.Samples[name], s)
	}
	return m, lines.Err()
}

var errLine = errors.New("not a sample in Prometheus text format")

func isName(s string) bool {
	for i, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '_' && c != ':' && (c < '0' || c > '9' || i == 0) {
			return false
		}
	}
	return s != ""
}

// parse reads NAME{LABELS} VALUE [TIME].
func parse(line string) (name string, s Sample, err error) {
	end := strings.IndexAny(line, "{ \t")
	if end < 0 || !isName(line[:end]) {
		return "", s, errLine
	}
	name, rest := line[:end], line[end:]
	if rest[0] == '{' {
		if s.Labels, rest, err = labels(rest[1:]); err != nil {
			return "", s, err
		}
	}
	fields := strings.Fields(rest)
	if len(fields) < 1 || len(fields) > 2 {
		return "", s, errLine
	}
	if s.Value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return "", s, errLine
	}
	return name, s, nil
}

// labels reads KEY="VALUE", up to the closing brace.
func labels(in string) (out map[string]string, rest string, err error) {
	out = map[string]string{}
	for {
		in = strings.TrimLeft(in, " ,")
		if strings.HasPrefix(in, "}") {
			return out, in[1:], nil
		}
		key, more, ok := strings.Cut(in, `="`)
		if !ok || !isName(key) {
			return nil, "", errLine
		}
		var value strings.Builder
		i := 0
		for ; i < len(more) && more[i] != '"'; i++ {
			c := more[i]
			if c == '\\' && i+1 < len(more) {
				i++
				if c = more[i]; c == 'n' {
					c = '\n'
				}
			}
			value.WriteByte(c)
		}
		if i == len(more) {
			return nil, "", errLine
		}
		out[key], in = value.String(), more[i+1:]
	}
}

// Sum returns the sum of a series' samples. Sum returns false if there are no samples.
func (m *Metrics) Sum(name string) (sum float64, ok bool) {
	for _, s := range m.Samples[name] {
		sum += s.Value
	}
	return sum, len(m.Samples[name]) > 0
}

// Has returns whether a metric of that name exists: a series or a histogram's family.
func (m *Metrics) Has(name string) bool {
	return len(m.Samples[name]) > 0 || len(m.Samples[name+"_count"]) > 0
}

// Buckets are the counts of a histogram, not cumulative, by ascending upper bounds. The last bound
// is infinite.
type Buckets struct{ Bounds, Counts []float64 }

// Histogram returns the sum of the histograms of a family whose labels match accepts.
func (m *Metrics) Histogram(family string, match func(map[string]string) bool) (b Buckets) {
	under := map[float64]float64{}
	for _, s := range m.Samples[family+"_bucket"] {
		if bound, err := strconv.ParseFloat(s.Labels["le"], 64); err == nil && match(s.Labels) {
			under[bound] += s.Value
		}
	}
	for bound := range under {
		b.Bounds = append(b.Bounds, bound)
	}
	slices.SortFunc(b.Bounds, func(x, y float64) int { return cmp.Compare(x, y) })
	before := 0.
	for _, bound := range b.Bounds {
		b.Counts = append(b.Counts, max(under[bound]-before, 0))
		before = under[bound]
	}
	return b
}

// Since returns the counts added after earlier was read. If the bounds of earlier are not those of
// b, or its count is higher, the process has restarted in between, and Since returns all of b.
func (b Buckets) Since(earlier Buckets) Buckets {
	out := Buckets{b.Bounds, slices.Clone(b.Counts)}
	if !slices.Equal(b.Bounds, earlier.Bounds) {
		return out
	}
	for i := range out.Counts {
		if out.Counts[i] -= earlier.Counts[i]; out.Counts[i] < 0 {
			return b
		}
	}
	return out
}

// Quantile returns the value below which this share of the samples lies. Within a bucket, Quantile
// interpolates by logarithm. It returns NaN if there are no samples.
func (b Buckets) Quantile(share float64) float64 {
	all := 0.
	for _, n := range b.Counts {
		all += n
	}
	if all == 0 {
		return math.NaN()
	}
	left := share * all
	for i, n := range b.Counts {
		if n == 0 || left > n {
			left -= n
			continue
		}
		high := b.Bounds[i]
		if math.IsInf(high, 1) {
			if i == 0 {
				return math.Inf(1)
			}
			high = 4 * b.Bounds[i-1]
		}
		low := high / 4
		if i > 0 {
			low = b.Bounds[i-1]
		}
		return low * math.Pow(high/low, left/n)
	}
	return b.Bounds[len(b.Bounds)-1]
}
