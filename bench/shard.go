package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/pprof"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/apply"
)

// ShardOptions configure RunShard.
type ShardOptions struct {
	Accounts int           `json:"accounts"`
	Skew     float64       `json:"skew"` // exponent of the Zipf distribution of senders and receivers; 0: uniform
	Shards   int           `json:"shards"`
	Cross    float64       `json:"cross_shard"` // share of transfers to another shard
	Batch    int           `json:"batch"`       // transfers per chunk; 0: the maximum that delays no receipts
	Blocks   int           `json:"blocks"`      // number of measured blocks; 0: as many as fit into Duration
	Duration time.Duration `json:"duration_ns"` // time for which blocks are measured
	// number of cores; 1: sequential; more: shards and receipts run in parallel
	Cores int `json:"cores"`
	// true: call ft_transfer of token contracts instead of native transfers
	Tokens    bool   `json:"ft_transfer"`
	Contracts int    `json:"tokens"` // number of token contracts per shard; 0: 1
	Seed      uint64 `json:"seed"`
	// folder created by RunState, whose accounts are used, all in one shard
	State string `json:"state,omitempty"`
	// Memory is the memory in bytes for the tries with State. 0: the node's default.
	Memory     uint64    `json:"memory_bytes,omitempty"`
	Commit     string    `json:"-"`
	Dir        string    `json:"-"` // folder for the file of the fsync measurement; empty: the system's temporary folder
	CPUProfile io.Writer `json:"-"` // receives a CPU profile of the measured blocks and the creation of their transactions; nil: none
	// Progress is called with the completed share of the run, 0 to 1, and the current step.
	Progress func(part float64, what string) `json:"-"`
}

func (o *ShardOptions) check() error {
	if o.State != "" {
		at, err := readState(o.State)
		if err != nil {
			return err
		}
		o.Accounts = at.Accounts
	}
	switch {
	case o.State != "" && (o.Shards != 1 || o.Tokens):
		return errors.New("bench: a stored state (--state) has one shard and no token contract")
	case o.Accounts < 2 || o.Accounts > 1<<31-1:
		return fmt.Errorf("bench: the number of accounts is %d, must be 2 to 2,147,483,647", o.Accounts)
	case o.Skew < 0 || o.Skew > 5:
		return fmt.Errorf("bench: the skew is %v, must be 0 to 5", o.Skew)
	case o.Cross < 0 || o.Cross > 1:
		return fmt.Errorf("bench: the cross-shard fraction is %v, must be 0 to 1", o.Cross)
	case o.Batch < 0 || o.Batch >= primitives.NonceRangeMultiplier:
		return fmt.Errorf("bench: the number of transfers in a chunk is %d, must be 0 to %d", o.Batch, primitives.NonceRangeMultiplier-1)
	case o.Blocks < 0 || o.Blocks == 0 && o.Duration <= 0:
		return errors.New("bench: give the number of blocks or the duration to measure")
	case o.Contracts < 0 || o.Contracts > maxContracts:
		return fmt.Errorf("bench: the number of tokens is %d, must be 1 to %d", o.Contracts, maxContracts)
	case o.Cores < 1 || o.Cores > runtime.NumCPU():
		return fmt.Errorf("bench: the number of cores is %d, must be 1 to %d", o.Cores, runtime.NumCPU())
	}
	return nil
}

const (
	mostTransfers = 1490 // maximum number of transfers per chunk of 1 PGas, with receipts and refunds
	warmBlocks    = 12   // number of blocks without delayed receipts before the measurement
	mostWarm      = 400
)

// RunShard measures the application of chunks without a node, block after block. The measured time
// includes transactions, receipts, trie, outcomes and roots. It excludes the creation of the
// transactions. Signatures are not checked.
func RunShard(ctx context.Context, o ShardOptions) (*ShardReport, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(float64, string) {}
	}
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	r := &ShardReport{Command: "bench shard", Time: time.Now().UTC().Format(time.RFC3339), Commit: o.Commit,
		Machine: ThisMachine(), Options: o}
	run := &shardRun{o: &o, rng: rand.New(rand.NewPCG(o.Seed, 1)), size: o.Batch, r: &r.Result}
	if o.Cores > 1 {
		run.par = workload.Goroutines
	}
	o.Progress(0, "accounts")
	start := time.Now()
	var err error
	if run.net, err = newShardNet(&o, run.rng); err != nil {
		return nil, err
	}
	defer run.net.close()
	r.Result.SetupSeconds = time.Since(start).Seconds()
	o.Progress(0, "machine limits")
	if r.Limits, err = MeasureLimits(o.Dir); err != nil {
		return nil, err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(o.Cores)) // garbage collection is limited to the same number of cores
	if err := run.warm(ctx); err != nil {
		return nil, err
	}
	if o.CPUProfile != nil {
		if err := pprof.StartCPUProfile(o.CPUProfile); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile()
	}
	if err := run.measure(ctx); err != nil {
		return nil, err
	}
	r.finish(run)
	return r, nil
}

// shardRun is the state of one RunShard.
type shardRun struct {
	o    *ShardOptions
	rng  *rand.Rand
	net  *shardNet
	par  apply.Par
	size int // number of transfers per chunk
	r    *ShardResult

	took, cpu         time.Duration
	allocs, allocated uint64
}

// block creates the transactions of a block and applies the transactions. Only the application is
// measured. waits says whether receipts were delayed or buffered.
func (s *shardRun) block() (results []*apply.Result, waits bool, err error) {
	txs := make([][]apply.Transaction, len(s.net.shards))
	for i := range txs {
		txs[i] = s.net.chunk(s.rng, i, s.size, s.o.Cross)
	}
	var before, after runtime.MemStats
	sample := s.r.Blocks%64 == 0 // memory is sampled rarely, because each sample stops all goroutines
	if sample {
		runtime.ReadMemStats(&before)
	}
	cpu, start := cpuTime(), time.Now()
	if s.o.State != "" {
		if err := s.net.load(txs[0], s.par); err != nil {
			return nil, false, err
		}
		s.r.LoadCPUSeconds += (cpuTime() - cpu).Seconds()
		cpu, start = cpuTime(), time.Now()
	}
	results, err = s.net.step(txs, s.par)
	s.took += time.Since(start)
	s.cpu += cpuTime() - cpu
	if err == nil && s.o.Tokens {
		err = failed(results)
	}
	if err != nil {
		return nil, false, err
	}
	if sample {
		runtime.ReadMemStats(&after)
		s.allocs += after.Mallocs - before.Mallocs
		s.allocated += after.TotalAlloc - before.TotalAlloc
		s.r.sampled += len(txs) * s.size
	}
	for i, r := range results {
		waits = waits || r.Stats.DelayedLen > 0 || s.net.shards[i].info.ReceiptBytes > 0
	}
	return results, waits, nil
}

// warm applies blocks until a steady state is reached: caches and arenas have grown, and chunks
// have the maximum size at which no receipts are delayed.
func (s *shardRun) warm(ctx context.Context) error {
	if s.o.Batch == 0 {
		s.size = s.o.most()
	}
	calm, size := 0, s.size
	for n := 0; calm < warmBlocks && n < mostWarm; n++ {
		s.o.Progress(0, "warming up")
		if err := ctx.Err(); err != nil {
			return err
		}
		_, waits, err := s.block()
		if err != nil {
			return err
		}
		switch {
		// first apply empty chunks until no receipts are delayed, then use smaller chunks
		case waits && s.o.Batch == 0:
			if s.size > 0 {
				size = max(1, size*97/100)
			}
			calm, s.size = 0, 0
		default:
			calm, s.size = calm+1, size
		}
	}
	s.size = size
	*s = shardRun{o: s.o, rng: s.rng, net: s.net, par: s.par, size: s.size, r: s.r}
	*s.r = ShardResult{SetupSeconds: s.r.SetupSeconds}
	runtime.GC()
	return nil
}

func (s *shardRun) measure(ctx context.Context) error {
	waited := false
	for s.more() {
		part := s.took.Seconds() / s.o.Duration.Seconds()
		if s.o.Blocks > 0 {
			part = float64(s.r.Blocks) / float64(s.o.Blocks)
		}
		s.o.Progress(min(part, 1), fmt.Sprintf("%.0f %s/s", float64(s.r.Transfers)/max(s.took.Seconds(), 1e-9), s.o.what()))
		if err := ctx.Err(); err != nil {
			return err
		}
		results, waits, err := s.block()
		if err != nil {
			return err
		}
		s.r.add(results, s.size)
		if waits {
			s.r.WaitingBlocks++
			// use slightly smaller chunks from now on, so that delayed receipts fit into the next
			// chunks
			if !waited && s.o.Batch == 0 {
				s.size = max(1, s.size*99/100)
			}
		}
		waited = waits
	}
	s.o.Progress(1, "done")
	return nil
}

func (s *shardRun) more() bool {
	if s.o.Blocks > 0 {
		return s.r.Blocks < s.o.Blocks
	}
	return s.took < s.o.Duration
}
