package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Report is the result of `troupe bench load`.
type Report struct {
	Command string  `json:"command"` // "bench load"
	Format  int     `json:"format"`
	Time    string  `json:"time"`
	Commit  string  `json:"commit"`
	Machine Machine `json:"machine"`
	// speed of the machine before the start of the target; nil: not measured
	Limits   *Limits  `json:"limits,omitempty"`
	Target   Subject  `json:"target"`
	Workload string   `json:"workload"`
	Until    string   `json:"until,omitempty"`
	Arrival  string   `json:"arrival"`
	Seed     uint64   `json:"seed"`
	Phases   []Phase  `json:"phases"` // the requested runs; after a search: runs at 90 % of the knee
	Knees    *Knees   `json:"knees,omitempty"`
	Broken   string   `json:"broken,omitempty"` // the error that ended the measurement early
	Notes    []string `json:"notes,omitempty"`
}

const reportFormat = 1

// Machine describes the machine that generated the load.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Load  string `json:"load_average"`
	Go    string `json:"go"`
}

// Subject describes the system under load.
type Subject struct {
	Kind     string `json:"kind"` // kind of target: rpc, node, shard or cluster
	Name     string `json:"name"` // URL of the target, or description of the started nodes
	ChainID  string `json:"chain_id,omitempty"`
	Version  string `json:"version,omitempty"`
	Protocol uint64 `json:"protocol_version,omitempty"`
}

// NewReport returns an empty report with the current time.
func NewReport() *Report {
	return &Report{Command: "bench load", Format: reportFormat, Time: time.Now().UTC().Format(time.RFC3339)}
}

// WriteJSON writes the report as JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// maxReport is the maximum size of a report file in bytes.
const maxReport = 256 << 20

// ReadReport reads a report that WriteJSON wrote.
func ReadReport(path string) (*Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxReport {
		return nil, fmt.Errorf("%s: a file of %d bytes is too long for a report", path, info.Size())
	}
	b, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Command != "bench load" || r.Format != reportFormat {
		return nil, fmt.Errorf("%s is not a report of bench load in format %d", path, reportFormat)
	}
	for i := range r.Phases {
		for k := range r.Phases[i].Series {
			if _, err := r.Phases[i].Series[k].Latency.histogram(); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return r, nil
}

// WriteText writes the report as text for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	var errs []error
	line := func(format string, args ...any) {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		errs = append(errs, err)
	}
	line("machine   %s, %d cores, %s, load %s; commit %s", r.Machine.CPU, r.Machine.Cores, r.Machine.OS, r.Machine.Load, r.Commit)
	if r.Limits != nil {
		line("limits    %s", r.Limits)
	}
	line("target    %s", r.Target.words())
	line("load      %s, %s arrivals%s", r.Workload, r.Arrival, map[bool]string{true: ", until " + r.Until}[r.Until != ""])
	for i := range r.Phases {
		p := &r.Phases[i]
		line("%-9s %s", p.Name, p.words())
		for _, what := range slices.Sorted(maps.Keys(p.Errors)) {
			line("          %d times: %s", p.Errors[what], what)
		}
	}
	if k := r.Knees; k != nil {
		for i := range k.Runs {
			line("knee %d    %s", i+1, k.Runs[i].words())
		}
		if len(k.Runs) > 1 {
			line("knees     %s%s", k.words(), map[bool]string{true: ", trials in turns"}[k.Turns])
		}
	}
	for _, n := range r.Notes {
		line("note      %s", n)
	}
	if r.Broken != "" {
		line("ended     %s", r.Broken)
	}
	return errors.Join(errs...)
}

func (s *Subject) words() string {
	out := []string{s.Kind + " " + s.Name}
	if s.ChainID != "" {
		out = append(out, "chain "+s.ChainID)
	}
	if s.Version != "" {
		out = append(out, fmt.Sprintf("version %s, protocol %d", s.Version, s.Protocol))
	}
	return strings.Join(out, ", ")
}

func (p *Phase) words() string {
	rate := "as many as go"
	if p.Rate > 0 {
		rate = fmt.Sprintf("%.1f/s offered", p.Rate)
	}
	l := &p.Latency
	text := fmt.Sprintf("%s at %d lanes for %.0f s: %.1f/s done, %.2f %% of what was due; p50 %s, p90 %s, p99 %s, "+
		"p99.9 %s, longest %s", rate, p.Lanes, p.Seconds,
		p.Achieved, p.Kept()*100, ms(l.P50), ms(l.P90), ms(l.P99), ms(l.P999), ms(l.Max))
	if p.Again > 0 {
		text += fmt.Sprintf("; %d requests sent again", p.Again)
	}
	if p.Blocks > 0 {
		text += fmt.Sprintf("; %.2f blocks/s", p.Blocks)
	}
	if p.Included > 0 {
		text += fmt.Sprintf("; %d transactions in blocks by the node's count", p.Included)
	}
	if p.Heights != nil {
		text += p.Heights.words()
	}
	return text
}

// words describes the knee in a sentence: the mean of all searches, or the only one.
func (k *Knees) words() string {
	without := 0
	for i := range k.Runs {
		if !k.Runs[i].found() {
			without++
		}
	}
	switch {
	case len(k.Runs) == 1:
		return k.Runs[0].rate()
	case without > 0:
		return fmt.Sprintf("%d of %d searches ended without one", without, len(k.Runs))
	}
	return fmt.Sprintf("%.1f/s on average, %.1f %% between the highest and the lowest of %d", k.Mean, k.Spread*100, len(k.Runs))
}

// found returns whether the search found a sustained rate and a higher one that fails.
func (k *Knee) found() bool { return k.Rate != 0 && !k.AtMost && k.High != 0 }

// rate returns the knee as text, or the bound that is known if the search ended without one.
func (k *Knee) rate() string {
	switch {
	case k.Rate == 0:
		least := math.Inf(1)
		for i := range k.Phases {
			least = min(least, k.Phases[i].Rate)
		}
		if math.IsInf(least, 1) {
			return "none"
		}
		return fmt.Sprintf("not even %.1f/s was kept up with", least)
	case k.AtMost:
		return fmt.Sprintf("at least %.1f/s, the most that was tried", k.Rate)
	case k.High == 0:
		return fmt.Sprintf("not below %.1f/s when %d trials were over", k.Rate, k.Trials())
	}
	return fmt.Sprintf("%.1f/s", k.Rate)
}

func (k *Knee) words() string {
	bound := fmt.Sprintf("p99 within %s and %.0f %% done", ms(k.P99), k.Kept*100)
	switch {
	case k.Rate == 0 || k.AtMost:
		return fmt.Sprintf("%s (%s), in %d trials", k.rate(), bound, k.Trials())
	case !k.found():
		return fmt.Sprintf("%s (%s)", k.rate(), bound)
	}
	text := fmt.Sprintf("%s, between %.1f and %.1f at 95 %% (%s), in %d trials; from nine tenths of trials that hold "+
		"to one tenth it is %.0f %% of that", k.rate(), k.Low, k.High, bound,
		k.Trials(), k.Chance*100)
	if !k.Reached {
		text += "; more trials or longer ones would say it as narrow as was asked"
	}
	if k.Disturbed > 0 {
		text += fmt.Sprintf("; %d more do not count, since others had the processor", k.Disturbed)
	}
	return text
}

// ms converts seconds to text in milliseconds with three digits.
func ms(s float64) string {
	switch {
	case s >= 10:
		return fmt.Sprintf("%.1f s", s)
	case s >= 1:
		return fmt.Sprintf("%.2f s", s)
	case s >= 0.01:
		return fmt.Sprintf("%.0f ms", s*1e3)
	}
	return fmt.Sprintf("%.2f ms", s*1e3)
}
