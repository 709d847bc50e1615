package bench

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// RPCReport is the result of RunRPC.
type RPCReport struct {
	Command string      `json:"command"`
	Time    string      `json:"time"`
	Commit  string      `json:"commit"`
	Machine Machine     `json:"machine"`
	Options RPCOptions  `json:"options"`
	Limits  Limits      `json:"limits"`
	Results []RPCResult `json:"results"`
}

// RPCResult has the figures of one scenario.
type RPCResult struct {
	Scenario    string  `json:"scenario"`
	Connections int     `json:"connections"`
	Seconds     float64 `json:"seconds"`
	// processor time of this process: the load generator, plus the node if the node runs in this
	// process
	CPUSeconds float64 `json:"cpu_seconds"`
	Requests   int     `json:"requests"`
	PerSecond  float64 `json:"requests_per_second"`
	OfHTTP     float64 `json:"of_empty_http_rate"`
	P50        float64 `json:"p50_seconds"`
	P99        float64 `json:"p99_seconds"`
	Max        float64 `json:"max_seconds"`

	BlocksPerSecond float64 `json:"blocks_per_second"`
	// Included is the number of submitted transfers that blocks include. The rate of these
	// transfers is measured from the first request to the last block.
	Included          int     `json:"included,omitempty"`
	IncludedSeconds   float64 `json:"included_seconds,omitempty"`
	IncludedPerSecond float64 `json:"included_per_second,omitempty"`

	Target float64 `json:"target_per_second,omitempty"` // target rate on the machine to which scale refers
	// not scaled to this machine, because HTTP costs depend little on hashing
	OfTarget  float64 `json:"of_target,omitempty"`
	TargetP50 float64 `json:"target_p50_seconds,omitempty"`
	TargetP99 float64 `json:"target_p99_seconds,omitempty"`

	end time.Time
}

// latencies sets the latency figures from the times of all requests, in ns.
func (r *RPCResult) latencies(all []int64) {
	r.end = time.Now()
	slices.Sort(all)
	r.Requests = len(all)
	if len(all) == 0 {
		return
	}
	at := func(q float64) float64 { return float64(all[min(int(q*float64(len(all))), len(all)-1)]) / 1e9 }
	r.P50, r.P99, r.Max = at(.5), at(.99), at(1)
}

func (r *RPCResult) finish(l *Limits) {
	r.PerSecond = float64(r.Requests) / r.Seconds
	r.OfHTTP = r.PerSecond / l.HTTPRequests
	if r.IncludedSeconds > 0 {
		r.IncludedPerSecond = float64(r.Included) / r.IncludedSeconds
	}
	if r.Target > 0 {
		r.OfTarget = r.PerSecond / r.Target
	}
}

// WriteJSON writes the report as JSON.
func (r *RPCReport) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

// WriteText writes the report as text.
func (r *RPCReport) WriteText(w io.Writer) error {
	where := fmt.Sprintf("a node in this process, %d accounts", r.Options.Accounts)
	if r.Options.URL != "" {
		where = r.Options.URL
	}
	lines := append(r.Machine.lines(r.Commit, &r.Limits),
		[2]string{"load", fmt.Sprintf("%s; %v a scenario, %g transfers/s in the background", where, r.Options.Duration,
			r.Options.Background)}, [2]string{})
	for i := range r.Results {
		x := &r.Results[i]
		text := fmt.Sprintf("%8.0f/s at %d connections", x.PerSecond, x.Connections)
		if x.Target > 0 {
			text += fmt.Sprintf(", %.0f %% of the target's %.0f/s", x.OfTarget*100, x.Target)
		}
		lines = append(lines, [2]string{x.Scenario,
			text + fmt.Sprintf(", %.0f %% of the empty HTTP rate; %.1f blocks/s meanwhile", x.OfHTTP*100, x.BlocksPerSecond)})
		text = fmt.Sprintf("         p50 %.2f ms, p99 %.2f ms, longest %.1f ms", x.P50*1e3, x.P99*1e3, x.Max*1e3)
		switch {
		case x.TargetP50 > 0:
			text += fmt.Sprintf(" (targets %g and %g ms)", x.TargetP50*1e3, x.TargetP99*1e3)
		case x.TargetP99 > 0:
			text += fmt.Sprintf(" (target of p99 %g ms)", x.TargetP99*1e3)
		}
		lines = append(lines, [2]string{"", text + fmt.Sprintf("; %.1f us of processor a request, load included",
			x.CPUSeconds/max(float64(x.Requests), 1)*1e6)})
		if x.Included > 0 {
			lines = append(lines, [2]string{"",
				fmt.Sprintf("         %d of %d in blocks: %.0f/s from the first request to the last block", x.Included, x.Requests,
					x.IncludedPerSecond)})
		}
	}
	return writeLines(w, lines)
}
