package bench

import (
	"encoding/json"
	"fmt"
	"io"
)

// NodeReport is the result of RunNode.
type NodeReport struct {
	Command string      `json:"command"`
	Time    string      `json:"time"`
	Commit  string      `json:"commit"`
	Machine Machine     `json:"machine"`
	Options NodeOptions `json:"options"`
	Limits  Limits      `json:"limits"`
	Result  NodeResult  `json:"result"`
	Shares  NodeShares  `json:"shares"`
}

// NodeResult has the figures of the measured time, without the warm-up.
type NodeResult struct {
	SetupSeconds float64 `json:"setup_seconds"`
	SignSeconds  float64 `json:"sign_seconds"`

	Seconds float64 `json:"seconds"`
	// processor time of the process on all cores, including the load generator
	CPUSeconds float64 `json:"cpu_seconds"`
	Submitted  int     `json:"submitted"`
	Included   int     `json:"included"`
	Final      int     `json:"final"` // number of transfers whose receipts are all executed in final blocks
	Refused    int     `json:"refused"`
	Refusal    string  `json:"refusal,omitempty"` // error of the first refused transfer
	Failed     int     `json:"failed_outcomes"`
	Blocks     int     `json:"blocks"`

	AcceptedPerSecond float64 `json:"accepted_per_second"`
	IncludedPerSecond float64 `json:"included_per_second"`
	FinalPerSecond    float64 `json:"final_per_second"`
	PerCPUSecond      float64 `json:"final_per_cpu_second"`
	BlocksPerSecond   float64 `json:"blocks_per_second"`
	PerChunk          float64 `json:"transfers_per_chunk"` // average number of transfers in chunks that have any

	IncludedP50 float64 `json:"included_p50_seconds"` // median time from submission to inclusion in a block
	IncludedP99 float64 `json:"included_p99_seconds"`
	FinalP50    float64 `json:"final_p50_seconds"`
	FinalP99    float64 `json:"final_p99_seconds"`

	LogBytes   uint64 `json:"log_bytes"`
	IndexBytes uint64 `json:"index_bytes"` // bytes written to the index of the store, including compactions
	// bytes that the process wrote to disks, as counted by the system; 0: unknown
	DiskBytes     uint64  `json:"disk_bytes"`
	BytesPer      float64 `json:"bytes_written_per_transfer"`
	ResidentBytes uint64  `json:"resident_bytes"` // maximum resident memory during the run
	LoadBytes     uint64  `json:"load_bytes"`     // part of ResidentBytes that the load generator uses
	Collections   int     `json:"gc_collections"`
	GCPauseTotal  float64 `json:"gc_pause_total_seconds"`
	GCPauseP99    float64 `json:"gc_pause_p99_seconds"`
	GCPauseMax    float64 `json:"gc_pause_max_seconds"`
	AllocsPer     float64 `json:"allocations_per_transfer"`
	AllocatedPer  float64 `json:"allocated_bytes_per_transfer"`

	Actors []ActorResult `json:"actors"`

	allocated, allocations uint64
}

// Targets for a complete node, on the machine to which scale refers.
const (
	targetNode  = 15_000 // signed transfers per second on two cores
	targetBytes = 1500   // maximum number of bytes written per transfer
)

// NodeShares relates the figures of a node benchmark to the measured limits of the machine.
type NodeShares struct {
	// processor time of a transfer, divided by the processor time of one ed25519 verification
	VerifiesPerTransfer float64 `json:"ed25519_verifies_per_transfer"`
	// processor time of a transfer, divided by the processor time of a hash of 64 bytes
	HashesPerTransfer float64 `json:"sha256_64B_times_per_transfer"`
	// rate of transfers divided by the verification rate of all cores
	OfVerifies float64 `json:"of_ed25519_verify_rate"`
	// rate of blocks divided by the rate of file syncs
	OfFsync  float64 `json:"of_fsync_rate"`
	OfHTTP   float64 `json:"of_empty_http_rate"`
	Target   float64 `json:"target_per_second"` // 15,000, scaled to this machine
	OfTarget float64 `json:"of_target"`         // FinalPerSecond divided by Target
	// computed from processor time, as if the run had used all cores alone
	OfTargetCPU float64 `json:"of_target_cpu"`
	// written bytes per transfer divided by targetBytes; at most 1 if the target is met
	OfBytes float64 `json:"of_bytes_target"`
}

func (r *NodeReport) finish() {
	x, l := &r.Result, &r.Limits
	n := float64(x.Final)
	x.AcceptedPerSecond, x.IncludedPerSecond, x.FinalPerSecond = float64(x.Submitted)/x.Seconds, float64(x.Included)/x.Seconds, n/x.Seconds
	x.BlocksPerSecond = float64(x.Blocks) / x.Seconds
	if n == 0 {
		return
	}
	cpu := x.Seconds * float64(r.Machine.Cores) / n
	if x.CPUSeconds > 0 {
		cpu = x.CPUSeconds / n
	}
	x.PerCPUSecond = 1 / cpu
	x.BytesPer = float64(x.LogBytes+x.IndexBytes) / n
	x.AllocsPer, x.AllocatedPer = float64(x.allocations)/n, float64(x.allocated)/n
	cores := float64(r.Machine.Cores)
	target := targetNode * scale(l)
	r.Shares = NodeShares{
		VerifiesPerTransfer: cpu / l.ED25519Seconds, HashesPerTransfer: cpu / l.SHA256Seconds,
		OfVerifies: x.FinalPerSecond * l.ED25519Seconds / cores, OfFsync: x.BlocksPerSecond * l.FsyncSeconds,
		OfHTTP: x.FinalPerSecond / l.HTTPRequests, Target: target, OfTarget: x.FinalPerSecond / target, OfTargetCPU: cores / cpu / target,
		OfBytes: x.BytesPer / targetBytes,
	}
}

// WriteJSON writes the report as JSON.
func (r *NodeReport) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// WriteText writes the report as text.
func (r *NodeReport) WriteText(w io.Writer) error {
	x, s, o := &r.Result, &r.Shares, &r.Options
	rate := "as many as the window lets through"
	if o.Rate > 0 {
		rate = fmt.Sprintf("%.0f/s", o.Rate)
	}
	lines := append(r.Machine.lines(r.Commit, &r.Limits), [][2]string{
		{"load", fmt.Sprintf("%d accounts, %d of them sign, Zipf %g, %d shard(s); %d senders submit %s, %d at a time, at most %d not included",
			o.Accounts, o.Signers, o.Skew, o.Shards, o.Senders, rate, o.Batch, o.Window)},
		{},
		{"transfers", fmt.Sprintf("%.0f/s accepted, %.0f/s included, %.0f/s FINAL in %.1f s; %d refused, %d outcomes failed",
			x.AcceptedPerSecond, x.IncludedPerSecond, x.FinalPerSecond, x.Seconds, x.Refused, x.Failed)},
		{"", fmt.Sprintf("%.0f %% of the target's %.0f/s for a machine like this (15,000/s where sha256 takes 0.44 us and "+
			"a verify 45 us)", s.OfTarget*100, s.Target)},
		{"", fmt.Sprintf("%.0f/s of processor time on %d cores: %.0f %% of the target (%.1f s of processor, load included)",
			x.PerCPUSecond*float64(r.Machine.Cores), r.Machine.Cores, s.OfTargetCPU*100, x.CPUSeconds)},
		{"", fmt.Sprintf("one takes %.1f us of processor: %.2f verifies, %.0f sha256 of 64 B; %.0f %% of the verify rate, "+
			"%.1f %% of the empty HTTP rate",
			1e6/max(x.PerCPUSecond, 1e-9), s.VerifiesPerTransfer, s.HashesPerTransfer, s.OfVerifies*100, s.OfHTTP*100)},
		{"blocks", fmt.Sprintf("%.1f/s, %.1f %% of the fsync rate; %.0f transfers a chunk", x.BlocksPerSecond, s.OfFsync*100, x.PerChunk)},
		{"latency", fmt.Sprintf("to a block p50 %.1f ms, p99 %.1f ms; to FINAL p50 %.1f ms, p99 %.1f ms",
			x.IncludedP50*1e3, x.IncludedP99*1e3, x.FinalP50*1e3, x.FinalP99*1e3)},
		{"disk", fmt.Sprintf("%.0f bytes written a transfer (log %.0f, index with compactions %.0f; by the system's count "+
			"%.0f), at most %d wanted",
			x.BytesPer, per(x.LogBytes, x.Final), per(x.IndexBytes, x.Final), per(x.DiskBytes, x.Final), targetBytes)},
		{"memory", fmt.Sprintf("%d MiB resident, %d MiB of them the load's own; %.0f allocations and %.0f bytes a transfer",
			x.ResidentBytes>>20, x.LoadBytes>>20, x.AllocsPer, x.AllocatedPer)},
		{"gc", fmt.Sprintf("%d collections, pauses p99 %.2f ms, longest %.2f ms, %.1f ms in all", x.Collections,
			x.GCPauseP99*1e3, x.GCPauseMax*1e3, x.GCPauseTotal*1e3)},
	}...)
	for _, a := range x.Actors {
		lines = append(lines, [2]string{"actor",
			fmt.Sprintf("%-14s %8d messages, %5.1f %% busy, mailbox at most %d; of 100, 99 waited %.2f ms and took %.2f at most",
				a.Name, a.Messages, a.BusyShare*100, a.MailboxMax, a.WaitedSeconds*1e3, a.HandledSeconds*1e3)})
	}
	if x.Refusal != "" {
		lines = append(lines, [2]string{"refused", x.Refusal})
	}
	return writeLines(w, lines)
}

func per(v uint64, n int) float64 { return float64(v) / max(float64(n), 1) }

// lines returns the lines about machine and program with which each report of a node begins.
func (m *Machine) lines(commit string, l *Limits) [][2]string {
	sha := "without SHA-NI"
	if m.SHANI {
		sha = "with SHA-NI"
	}
	return [][2]string{
		{"machine", fmt.Sprintf("%s, %d cores, %s, %s, %s, load %s", m.CPU, m.Cores, sha, m.OS, m.Go, m.Load)},
		{"commit", commit},
		{"limits", l.String()},
	}
}

func writeLines(w io.Writer, lines [][2]string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintf(w, "%-10s %s\n", line[0], line[1]); err != nil {
			return err
		}
	}
	return nil
}
