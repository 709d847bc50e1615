package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// ShardReport is the result of RunShard.
type ShardReport struct {
	Command string       `json:"command"`
	Time    string       `json:"time"`
	Commit  string       `json:"commit"`
	Machine Machine      `json:"machine"`
	Options ShardOptions `json:"options"`
	Limits  Limits       `json:"limits"`
	Result  ShardResult  `json:"result"`
	Shares  ShardShares  `json:"shares"`
}

// ShardResult contains the figures. Rates are per wall-clock time. Rates with cpu in their names
// are per processor time, which is independent of the load of other programs on the machine.
type ShardResult struct {
	SetupSeconds float64 `json:"setup_seconds"`
	Blocks       int     `json:"blocks"`
	Transfers    int     `json:"transfers"`
	Seconds      float64 `json:"seconds"`
	CPUSeconds   float64 `json:"cpu_seconds"`
	// LoadCPUSeconds is the processor time for loading the entries of each block before the block
	// is applied. LoadCPUSeconds is set only for a stored state. No other figure includes this
	// time.
	LoadCPUSeconds  float64 `json:"load_cpu_seconds,omitempty"`
	BlocksPerSecond float64 `json:"blocks_per_second"`
	PerSecond       float64 `json:"transfers_per_second"`
	PerCPUSecond    float64 `json:"transfers_per_cpu_second"`
	PerChunk        float64 `json:"transfers_per_chunk"`
	GasPerChunk     float64 `json:"gas_per_chunk"`
	// size of the state proof in bytes; above 4 MB, receipts are delayed
	RecordedPerChunk float64 `json:"recorded_bytes_per_chunk"`
	Outcomes         int     `json:"outcomes"`
	Failed           int     `json:"failed"`
	WaitingBlocks    int     `json:"blocks_with_waiting_receipts"`
	RanInParallel    int     `json:"receipts_run_in_parallel"`
	AllocsPer        float64 `json:"allocations_per_transfer"`
	AllocatedPer     float64 `json:"allocated_bytes_per_transfer"`
	ArenaBytes       uint64  `json:"trie_arena_bytes"`
	ArenaInUse       uint64  `json:"trie_arena_bytes_in_use"`

	Height primitives.Height `json:"height"`
	Roots  []primitives.Hash `json:"roots"`

	sampled, chunks int
}

// ShardShares relates the figures of a shard benchmark to the measured limits of the machine.
type ShardShares struct {
	// processor time of a transfer, divided by the processor time of a hash of 64 bytes
	HashesPerTransfer float64 `json:"sha256_64B_times_per_transfer"`
	// processor time of a transfer, divided by the processor time of one ed25519 verification
	VerifiesPerTransfer float64 `json:"ed25519_verifies_per_transfer"`
	// processor time of a transfer, divided by the processor time of one random memory read whose
	// address depends on the previous read
	ReadsPerTransfer float64 `json:"memory_reads_per_transfer"`
	// OfVerifies is the number of transfers divided by the number of verifications in the same
	// processor time.
	OfVerifies float64 `json:"of_ed25519_verify_rate"`
	OfFsync    float64 `json:"of_fsync_rate"`      // rate of blocks divided by the rate of file syncs
	OfHTTP     float64 `json:"of_empty_http_rate"` // rate of transfers divided by the rate of empty HTTP requests
	// Target is 40,000, or 10,000 with ft_transfer, scaled to this machine by scale.
	Target   float64 `json:"target_transfers_per_second"`
	OfTarget float64 `json:"of_target"` // transfers per second of processor time, divided by Target
}

// Figures of the machine for which targets are stated: 2 cores without SHA-NI.
const (
	targetTransfers = 40_000
	targetSHA256    = 0.44e-6
	targetED25519   = 45e-6
)

// scale estimates how much faster this machine applies chunks than the machine of the targets. On
// that machine, half of the time is hashing, which scales with sha256. The rest of the time scales
// with ed25519, which is plain arithmetic. The estimate ignores memory latency, which matters for
// large states.
func scale(l *Limits) float64 {
	return 2 / (l.SHA256Seconds/targetSHA256 + l.ED25519Seconds/targetED25519)
}

func (r *ShardResult) add(results []*apply.Result, size int) {
	r.Blocks++
	for _, x := range results {
		r.chunks++
		r.Transfers += size
		r.Outcomes += len(x.Outcomes)
		r.GasPerChunk += float64(x.GasUsed)
		r.RecordedPerChunk += float64(x.RecordedSize)
		r.RanInParallel += x.Stats.RanInParallel
		for i := range x.Outcomes {
			if x.Outcomes[i].Outcome.Status.Kind == primitives.StatusFailure {
				r.Failed++
			}
		}
	}
}

func (r *ShardReport) finish(s *shardRun) {
	x, l := &r.Result, &r.Limits
	x.Seconds, x.CPUSeconds = s.took.Seconds(), s.cpu.Seconds()
	n := float64(x.Transfers)
	x.BlocksPerSecond, x.PerSecond = float64(x.Blocks)/x.Seconds, n/x.Seconds
	if x.CPUSeconds > 0 {
		x.PerCPUSecond = n / x.CPUSeconds
	}
	chunks := float64(x.chunks)
	x.PerChunk, x.GasPerChunk, x.RecordedPerChunk = n/chunks, x.GasPerChunk/chunks, x.RecordedPerChunk/chunks
	if x.sampled > 0 {
		x.AllocsPer, x.AllocatedPer = float64(s.allocs)/float64(x.sampled), float64(s.allocated)/float64(x.sampled)
	}
	for i := range s.net.shards {
		stats := s.net.shards[i].root.Forest().Stats()
		x.ArenaBytes += stats.Reserved
		x.ArenaInUse += stats.Bytes
	}
	x.Height, x.Roots = s.net.height, s.net.roots()
	cpu := x.Seconds / n
	if x.CPUSeconds > 0 {
		cpu = x.CPUSeconds / n
	}
	r.Shares = ShardShares{
		HashesPerTransfer: cpu / l.SHA256Seconds, VerifiesPerTransfer: cpu / l.ED25519Seconds, ReadsPerTransfer: cpu / l.MemoryReadSeconds,
		OfVerifies: l.ED25519Seconds / cpu, OfFsync: x.BlocksPerSecond * l.FsyncSeconds, OfHTTP: x.PerSecond / l.HTTPRequests,
		Target: r.Options.target() * scale(l),
	}
	r.Shares.OfTarget = 1 / cpu / r.Shares.Target
}

// WriteJSON writes the report as JSON.
func (r *ShardReport) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// WriteText writes the report as text.
func (r *ShardReport) WriteText(w io.Writer) error {
	x, l, s, m, o := &r.Result, &r.Limits, &r.Shares, &r.Machine, &r.Options
	lines := append(m.lines(r.Commit, l), [][2]string{
		{"", "limits but fsync and HTTP are of processor time, as are the shares of them; others' work on the machine slows that down too"},
		{"load", fmt.Sprintf("%d accounts in %d shards, Zipf %g, %.0f %% to other shards, on %d core(s), seed %d", o.Accounts,
			o.Shards, o.Skew, o.Cross*100, o.Cores, o.Seed)},
		{o.what(), fmt.Sprintf("%.0f/s by the clock, %.0f/s of processor time (%d in %.2f s, %.2f s of processor)",
			x.PerSecond, x.PerCPUSecond, x.Transfers, x.Seconds, x.CPUSeconds)},
		{"", fmt.Sprintf("%.0f %% of the target's %.0f/s for a machine like this (%.0f/s where sha256 takes 0.44 us and a "+
			"verify 45 us)", s.OfTarget*100, s.Target, o.target())},
		{"", fmt.Sprintf("one takes as long as %.1f sha256 of 64 B, %.2f verifies, or %.0f random reads; %.0f %% of the "+
			"verify rate of a core, %.0f %% of the empty HTTP rate",
			s.HashesPerTransfer, s.VerifiesPerTransfer, s.ReadsPerTransfer, s.OfVerifies*100, s.OfHTTP*100)},
		{"blocks", fmt.Sprintf("%.1f/s, %.1f %% of the fsync rate; %d measured, %d of them with receipts that had to wait",
			x.BlocksPerSecond, s.OfFsync*100, x.Blocks, x.WaitingBlocks)},
		{"chunks", fmt.Sprintf("%.0f %s, %.0f TGas, %.2f MB of recorded state each", x.PerChunk, o.what(), x.GasPerChunk/1e12,
			x.RecordedPerChunk/1e6)},
		{"outcomes", fmt.Sprintf("%d, %d failed; %d receipts run in parallel", x.Outcomes, x.Failed, x.RanInParallel)},
		{"memory", fmt.Sprintf("%.1f allocations and %.0f bytes a transfer; trie arenas %d MiB, %d MiB in use", x.AllocsPer,
			x.AllocatedPer, x.ArenaBytes>>20, x.ArenaInUse>>20)},
		{"loads", fmt.Sprintf("%.1f us of processor a transfer before its block, not in the figures above",
			x.LoadCPUSeconds/max(float64(x.Transfers), 1)*1e6)},
		{"setup", (time.Duration(x.SetupSeconds*1000) * time.Millisecond).String()},
	}...)
	if o.State == "" {
		lines = slices.DeleteFunc(lines, func(l [2]string) bool { return l[0] == "loads" })
	}
	for i, root := range x.Roots {
		lines = append(lines, [2]string{"root", fmt.Sprintf("%v of shard %d at block %d", root, i, x.Height)})
	}
	for _, line := range lines {
		if _, err := fmt.Fprintf(w, "%-11s %s\n", line[0], line[1]); err != nil {
			return err
		}
	}
	return nil
}
