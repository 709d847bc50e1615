package load

import (
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
)

// The HTML report is one self-contained file: the file contains its styles and drawings, has no
// script, and needs no network.

var page = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("report").Funcs(template.FuncMap{"ms": ms,
		"rate":    func(v float64) string { return fmt.Sprintf("%.1f/s", v) },
		"percent": func(v float64) string { return fmt.Sprintf("%.2f %%", v*100) }, "inc": func(i int) int { return i + 1 },
		"knees": (*Knees).words, "knee": func(k Knee) string { return k.rate() }}).Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>troupe bench: {{.R.Workload}}, {{.R.Target.Name}}</title>
<style>
:root{color-scheme:light dark;--ink:#1b1f24;--dim:#59636e;--line:#d1d9e0;--back:#fff;--a:#0969da;--b:#bc4c00;--c:#1a7f37;--d:#8250df}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--dim:#9198a1;--line:#3d444d;--back:#0d1117;--a:#58a6ff;--b:#f0883e;--c:#56d364;--d:#bc8cff}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}table{border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.6rem 0}
th,td{border-bottom:1px solid var(--line);padding:.25rem .8rem .25rem 0;text-align:right}th:first-child,td:first-child{text-align:left}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
svg{width:100%;height:auto;display:block;margin:.4rem 0}svg text{fill:var(--dim);font:12px system-ui,sans-serif}
.grid{stroke:var(--line);stroke-width:1}.a{stroke:var(--a)}.b{stroke:var(--b)}.c{stroke:var(--c)}.d{stroke:var(--d)}
polyline{fill:none;stroke-width:2}circle{stroke-width:2;fill:var(--back)}.fa{fill:var(--a)}.fb{fill:var(--b)}.fc{fill:var(--c)}.fd{fill:var(--d)}.bad{color:var(--b)}figcaption{color:var(--dim)}figure{margin:0}
</style></head><body>
<h1>{{.R.Workload}} against {{.R.Target.Kind}} {{.R.Target.Name}}</h1>
{{if .R.Broken}}<p class="bad">It has ended before its end: {{.R.Broken}}</p>{{end}}
<dl><dt>time</dt><dd>{{.R.Time}}</dd>
{{if .R.Target.ChainID}}<dt>chain</dt><dd>{{.R.Target.ChainID}}</dd>{{end}}
{{if .R.Target.Version}}<dt>node</dt><dd>version {{.R.Target.Version}}, protocol {{.R.Target.Protocol}}</dd>{{end}}
<dt>load from</dt><dd>{{.R.Machine.CPU}}, {{.R.Machine.Cores}} cores, {{.R.Machine.OS}}, {{.R.Machine.Go}}, load average {{.R.Machine.Load}}</dd>
{{with .R.Limits}}<dt>its limits</dt><dd>{{.}}</dd>{{end}}
<dt>tool</dt><dd>troupe {{.R.Commit}}</dd>
<dt>load</dt><dd>{{.R.Workload}}, {{.R.Arrival}} arrivals, seed {{.R.Seed}}{{if .R.Until}}, a transaction is done at {{.R.Until}}{{end}}</dd>
{{range .R.Notes}}<dt>note</dt><dd>{{.}}</dd>{{end}}</dl>
<p>Latencies count from when a thing was due, not from when it could be begun.</p>
{{with .R.Knees}}<h2>Knee: {{knees .}}</h2>
<table><tr><th>search</th><th>knee</th><th>at 95 % not below</th><th>nor above</th><th>nine to one tenth hold</th><th>trials</th></tr>
{{range $i, $k := .Runs}}<tr><td>{{inc $i}}</td><td>{{knee $k}}</td><td>{{if $k.Low}}{{rate $k.Low}}{{end}}</td><td>{{if $k.High}}{{rate $k.High}}{{end}}</td><td>{{if $k.Chance}}{{percent $k.Chance}}{{end}}</td><td>{{$k.Trials}}</td></tr>{{end}}</table>
<p>The knee is the rate at which half of the trials have p99 within {{ms (index .Runs 0).P99}} and {{percent (index .Runs 0).Kept}} of what is due done.{{if .Turns}} The searches made their trials in turns.{{end}}</p>
{{end}}{{range .Plots}}<figure><figcaption>{{.Title}}</figcaption>{{.SVG}}</figure>{{end}}
{{range .Phases}}<h2>{{.P.Name}}: {{if .P.Rate}}{{rate .P.Rate}} offered{{else}}as many as go{{end}}, {{rate .P.Achieved}} done</h2>
<table><tr><th></th><th>due</th><th>done</th><th>failed</th><th>mean</th><th>p50</th><th>p90</th><th>p99</th><th>p99.9</th><th>longest</th></tr>
<tr><td>{{.P.Seconds}} s, {{.P.Lanes}} lanes</td><td>{{.P.Offered}}</td><td>{{.P.Done}}</td><td>{{.P.Failed}}</td><td>{{ms .P.Latency.Mean}}</td><td>{{ms .P.Latency.P50}}</td><td>{{ms .P.Latency.P90}}</td><td>{{ms .P.Latency.P99}}</td><td>{{ms .P.Latency.P999}}</td><td>{{ms .P.Latency.Max}}</td></tr></table>
{{if .Errors}}<table><tr><th>error</th><th>times</th></tr>{{range .Errors}}<tr><td>{{.What}}</td><td>{{.Times}}</td></tr>{{end}}</table>{{end}}
{{range .Plots}}<figure><figcaption>{{.Title}}</figcaption>{{.SVG}}</figure>{{end}}{{end}}
</body></html>
`))
})

type plotted struct {
	Title string
	SVG   template.HTML
}

type errorRow struct {
	What  string
	Times int
}

type phaseView struct {
	P      *Phase
	Errors []errorRow
	Plots  []plotted
}

// WriteHTML writes the report as an HTML page.
func (r *Report) WriteHTML(w io.Writer) error {
	view := struct {
		R      *Report
		Plots  []plotted
		Phases []phaseView
	}{R: r}
	if r.Knees != nil {
		view.Plots = kneePlots(r.Knees)
	}
	for i := range r.Phases {
		p := &r.Phases[i]
		v := phaseView{P: p}
		for _, what := range slices.Sorted(maps.Keys(p.Errors)) {
			v.Errors = append(v.Errors, errorRow{what, p.Errors[what]})
		}
		var err error
		if v.Plots, err = phasePlots(p); err != nil {
			return err
		}
		view.Phases = append(view.Phases, v)
	}
	return page().Execute(w, view)
}

// kneePlots returns plots of latency and throughput over the offered rate of all trials.
func kneePlots(k *Knees) []plotted {
	latency := plot{X: "offered a second", Y: "p99", LogX: true, LogY: true, SayY: ms}
	kept := plot{X: "offered a second", Y: "done of it", LogX: true, SayY: func(v float64) string { return fmt.Sprintf("%.0f %%", v*100) }}
	for i := range k.Runs {
		run := &k.Runs[i]
		name := fmt.Sprintf("search %d", i+1)
		var a, b []point
		for j := range run.Phases {
			p := &run.Phases[j]
			if p.Disturbed {
				continue
			}
			if p.Latency.P99 > 0 {
				a = append(a, point{p.Rate, p.Latency.P99})
			}
			b = append(b, point{p.Rate, p.Kept()})
		}
		latency.Series = append(latency.Series, series{Name: name, Points: a, Dots: true})
		kept.Series = append(kept.Series, series{Name: name, Points: b, Dots: true})
		if i == 0 {
			latency.Bound, kept.Bound = run.P99, run.Kept
		}
	}
	return []plotted{{"p99 of each trial, and its bound", latency.svg()}, {"part that was done of each trial, and its bound", kept.svg()}}
}

// phasePlots returns plots of a phase over time, and of the phase's latency distribution.
func phasePlots(p *Phase) ([]plotted, error) {
	rate := plot{X: "seconds", Y: "a second", SayY: func(v float64) string { return fmt.Sprintf("%.4g", v) }}
	done, failed := series{Name: "done"}, series{Name: "failed"}
	latency := plot{X: "seconds", Y: "latency", LogY: true, SayY: ms}
	p50, p99, most := series{Name: "p50"}, series{Name: "p99"}, series{Name: "longest"}
	for i := range p.Series {
		s, x := &p.Series[i], float64(i)+0.5
		done.Points = append(done.Points, point{x, float64(s.Done)})
		failed.Points = append(failed.Points, point{x, float64(s.Failed)})
		if s.Done > 0 {
			p50.Points = append(p50.Points, point{x, s.Latency.P50})
			p99.Points = append(p99.Points, point{x, s.Latency.P99})
			most.Points = append(most.Points, point{x, s.Latency.Max})
		}
	}
	rate.Series = []series{done}
	if p.Failed > 0 {
		rate.Series = append(rate.Series, failed)
	}
	latency.Series = []series{p50, p99, most}
	h, err := p.Latency.histogram()
	if err != nil {
		return nil, err
	}
	whole := plot{X: "percentile", Y: "latency", LogY: true, SayY: ms, SayX: func(v float64) string {
		if v != math.Trunc(v) { // the axis has labels for 90, 99, 99.9, ... only
			return ""
		}
		return fmt.Sprintf("%.6g", 100-100/math.Pow(10, v))
	}}
	var points []point
	for nines := 0.0; h.TotalCount() > 0 && nines <= math.Log10(float64(h.TotalCount())); nines += 0.05 {
		points = append(points, point{nines, float64(h.ValueAtQuantile(100-100/math.Pow(10, nines))) / 1e9})
	}
	whole.Series = []series{{Name: "all", Points: points}}
	return []plotted{{"by the second in which things were due", rate.svg()}, {"latency by that second", latency.svg()},
		{"latency by percentile", whole.svg()}}, nil
}

type point struct{ x, y float64 }

type series struct {
	Name   string
	Points []point
	Dots   bool
}

// plot is one diagram of the report.
type plot struct {
	X, Y       string
	LogX, LogY bool
	Bound      float64 // position of a horizontal line; 0: none
	Series     []series
	SayX, SayY func(float64) string
}

const (
	plotWidth, plotHeight        = 900.0, 280.0
	plotLeft, plotRight, plotTop = 70.0, 12.0, 24.0
	plotBottom                   = 40.0
	classes                      = "abcd"
	fewest, largest, ticks       = 1e-9, 1e12, 5.0
)

// scale maps the values of one axis (lo to hi, logarithmic if log is set) to positions in the
// drawing (from to to).
type scale struct {
	lo, hi   float64
	log      bool
	from, to float64
}

func (s *scale) at(v float64) float64 {
	lo, hi := s.lo, s.hi
	if s.log {
		lo, hi, v = math.Log10(lo), math.Log10(hi), math.Log10(max(v, s.lo))
	}
	return s.from + (v-lo)/(hi-lo)*(s.to-s.from)
}

// marks returns the values at which the axis gets labels.
func (s *scale) marks() (out []float64) {
	if s.log {
		for e := math.Floor(math.Log10(s.lo)); e <= math.Ceil(math.Log10(s.hi)); e++ {
			for _, m := range []float64{1, 2, 5} {
				if v := m * math.Pow(10, e); v >= s.lo*0.999 && v <= s.hi*1.001 && (m == 1 || s.hi/s.lo < 300) {
					out = append(out, v)
				}
			}
		}
		return out
	}
	step := math.Pow(10, math.Floor(math.Log10((s.hi-s.lo)/ticks)))
	for _, m := range []float64{1, 2, 5, 10} {
		if (s.hi-s.lo)/(step*m) <= ticks+1 {
			step *= m
			break
		}
	}
	for v := math.Ceil(s.lo/step) * step; v <= s.hi*1.0001; v += step {
		out = append(out, v)
	}
	return out
}

// newScale returns a scale for all values. A linear axis starts at 0.
func newScale(values []float64, log bool, from, to float64) scale {
	s := scale{lo: math.Inf(1), hi: math.Inf(-1), log: log, from: from, to: to}
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) || log && v <= 0 {
			continue
		}
		s.lo, s.hi = min(s.lo, v), max(s.hi, v)
	}
	switch {
	case s.lo > s.hi:
		s.lo, s.hi = 1, 10
	case log:
		s.lo, s.hi = max(s.lo/1.2, fewest), min(s.hi*1.2, largest)
	default:
		s.lo = min(0, s.lo)
		if s.hi *= 1.05; s.hi <= s.lo {
			s.hi = s.lo + 1
		}
	}
	return s
}

// svg returns the drawing as SVG.
func (p *plot) svg() template.HTML {
	var xs, ys []float64
	for _, s := range p.Series {
		for _, q := range s.Points {
			xs, ys = append(xs, q.x), append(ys, q.y)
		}
	}
	if p.Bound > 0 {
		ys = append(ys, p.Bound)
	}
	sayX := p.SayX
	if sayX == nil {
		sayX = func(v float64) string { return fmt.Sprintf("%.4g", v) }
	}
	x := newScale(xs, p.LogX, plotLeft, plotWidth-plotRight)
	y := newScale(ys, p.LogY, plotHeight-plotBottom, plotTop)
	var b strings.Builder
	text := func(x, y float64, anchor, class, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`, x, y, anchor, class, template.HTMLEscapeString(s))
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" role="img" aria-label="%s over %s">`,
		plotWidth, plotHeight, template.HTMLEscapeString(p.Y), template.HTMLEscapeString(p.X))
	for _, v := range y.marks() {
		fmt.Fprintf(&b, `<line class="grid" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`, plotLeft, plotWidth-plotRight, y.at(v), y.at(v))
		text(plotLeft-6, y.at(v)+4, "end", "", p.SayY(v))
	}
	for _, v := range x.marks() {
		text(x.at(v), plotHeight-plotBottom+16, "middle", "", sayX(v))
	}
	text(plotWidth-plotRight, plotHeight-4, "end", "", p.X)
	text(plotLeft, 14, "start", "", p.Y)
	if p.Bound > 0 {
		fmt.Fprintf(&b, `<line class="b" stroke-dasharray="6 4" x1="%g" x2="%g" y1="%.1f" y2="%.1f"/>`, plotLeft,
			plotWidth-plotRight, y.at(p.Bound), y.at(p.Bound))
	}
	at := plotWidth - plotRight
	for i, s := range slices.Backward(p.Series) {
		text(at, 14, "end", fmt.Sprintf(` class="f%c" style="fill:var(--%c)"`, classes[i%4], classes[i%4]), s.Name)
		at -= 12 + 8*float64(len(s.Name))
	}
	for i, s := range p.Series {
		class := string(classes[i%4])
		if s.Dots {
			for _, q := range s.Points {
				fmt.Fprintf(&b, `<circle class="%s" r="3.5" cx="%.1f" cy="%.1f"><title>%s: %s</title></circle>`, class, x.at(q.x),
					y.at(q.y), template.HTMLEscapeString(sayX(q.x)), template.HTMLEscapeString(p.SayY(q.y)))
			}
			continue
		}
		fmt.Fprintf(&b, `<polyline class="%s" points="`, class)
		for _, q := range s.Points {
			fmt.Fprintf(&b, "%.1f,%.1f ", x.at(q.x), y.at(q.y))
		}
		b.WriteString(`"/>`)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // b contains only escaped texts
}
