package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/troupe-chain/troupe/bench/load"
	"github.com/troupe-chain/troupe/internal/daemon"
	"github.com/troupe-chain/troupe/primitives"
)

// LoadOptions configure RunLoad. "For x" in a comment names the targets that use the field.
type LoadOptions struct {
	Target      string // one of LoadTargets
	Workload    string
	URL         string              // for rpc: the URL of the node
	KeyFile     *primitives.KeyFile // for rpc: the account that funds the sending accounts
	Accounts    int
	Fund        primitives.Balance // for rpc and cluster: initial balance of each account
	Connections int
	Until       string
	Timeout     time.Duration
	Shards      int    // for shard, node and cluster: number of shards
	Nodes       int    // for cluster: number of validators
	Program     string // for cluster: the nodes' program; empty: this program
	Transport   string // for cluster: one of Transports; empty: near
	Pace        string // for cluster: troupe.network.pace; empty: the default
	Dir         string // parent folder for the data of started nodes

	Rate    float64 // operations per second; 0 without a search: as many as possible
	Arrival load.Arrival
	Warm    time.Duration
	For     time.Duration
	Seed    uint64
	Search  *load.Search // search for the sustainable rate; nil: no search, only runs at Rate
	Runs    int          // number of searches; without a search, number of runs at Rate
	Limits  bool         // true: first measure the speed of the machine (load.Limits)

	Commit     string
	Progress   func(part float64, what string)
	CPUProfile io.Writer // receives a CPU profile of the measurement; nil: none
}

// Again implements load.Repeater. Again returns 0 if the target does not repeat requests.
func (l *loaded) Again() int {
	if r, ok := l.Target.(load.Repeater); ok {
		return r.Again()
	}
	return 0
}

// LoadTargets lists the kinds of targets.
var LoadTargets = []string{"shard", "node", "rpc", "cluster"}

// loaded is a target that is ready for load, with its description for the report.
type loaded struct {
	load.Target
	subject load.Subject
	notes   []string
	close   func() error
	// stats returns the number of transactions in blocks and the head's height. ok is false if
	// number and height are unknown.
	stats func(ctx context.Context) (included int, height primitives.Height, ok bool)
	// heights returns data about the heights of a run. nil: the report does not contain heights.
	heights func(ctx context.Context, from, to primitives.Height) (*load.Heights, error)
}

// RunLoad generates load on a target. If the target stops during the run, RunLoad returns the error
// and a report of the measurements so far.
func RunLoad(ctx context.Context, o LoadOptions) (_ *load.Report, err error) {
	w, err := load.WorkloadOf(o.Workload)
	if err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = func(float64, string) {}
	}
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	if o.Runs < 1 || o.Runs > 100 {
		return nil, fmt.Errorf("bench: the number of runs is %d, must be 1 to 100", o.Runs)
	}
	m := ThisMachine()
	r := load.NewReport()
	r.Commit, r.Machine = o.Commit, load.Machine{CPU: m.CPU, Cores: m.Cores, OS: m.OS, Load: m.Load, Go: m.Go}
	r.Workload, r.Arrival, r.Seed = o.Workload, string(o.Arrival), o.Seed
	if !w.Reads() && o.Target != "shard" {
		r.Until = o.Until
	}
	if o.Limits {
		o.Progress(0, "machine limits")
		limits, err := MeasureLimits(o.Dir)
		if err != nil {
			return nil, err
		}
		r.Limits = &limits
	}
	if o.Target == "node" {
		defer debug.SetGCPercent(debug.SetGCPercent(daemon.GCPercent))
	}
	t, err := o.open(ctx, w)
	if err != nil {
		return nil, err
	}
	defer func() {
		if t != nil {
			err = errors.Join(err, t.close())
		}
	}()
	r.Target, r.Notes = t.subject, t.notes
	// afresh closes the target and opens a new target of the same kind. A target becomes slower
	// with every trial, because its state grows.
	afresh := func() (_ *loaded, err error) {
		if err, t = t.close(), nil; err != nil {
			return nil, err
		}
		// Collect garbage so that the next target reuses this memory. The cost of new memory from
		// the system varies.
		runtime.GC()
		t, err = o.open(ctx, w)
		return t, err
	}
	if o.CPUProfile != nil {
		if err := pprof.StartCPUProfile(o.CPUProfile); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile()
	}
	if err := o.measure(ctx, t, afresh, r); err != nil {
		r.Broken = err.Error()
		return r, err
	}
	return r, nil
}

// open starts the target that the options name, or connects to a running one.
func (o *LoadOptions) open(ctx context.Context, w load.Workload) (*loaded, error) {
	switch o.Target {
	case "rpc":
		return openRPC(ctx, o, w)
	case "node":
		return openNode(o)
	case "shard":
		return openShard(o)
	case "cluster":
		return openCluster(ctx, o, w)
	}
	return nil, fmt.Errorf("bench: the target %q is unknown, must be one of %v", o.Target, LoadTargets)
}

// measure runs the load at o.Rate or, if o.Search is set, searches for the knee. measure adds the
// results to r.
func (o *LoadOptions) measure(ctx context.Context, t *loaded, afresh func() (*loaded, error), r *load.Report) error {
	plan := load.Plan{Rate: o.Rate, Arrival: o.Arrival, Warm: o.Warm, For: o.For, Grace: o.Timeout, Seed: o.Seed}
	once := func(name string, plan load.Plan) error {
		plan.Progress = func(part float64, what string) { o.Progress(part, name+": "+what) }
		before, from, ok := t.stats(ctx)
		begin := time.Now()
		p, err := load.Run(ctx, t, plan)
		took := time.Since(begin)
		if p == nil {
			return err
		}
		if p.Name = name; ok && err == nil {
			if after, to, ok := t.stats(ctx); ok {
				p.Included, p.Blocks = max(after-before, 0), float64(to-from)/took.Seconds()
				if t.heights != nil {
					p.Heights, err = t.heights(ctx, from, to)
				}
			}
		}
		r.Phases = append(r.Phases, *p)
		return err
	}
	if o.Search == nil {
		for i := range o.Runs {
			plan.Seed = o.Seed + uint64(i)
			if err := once(fmt.Sprintf("run %d", i+1), plan); err != nil {
				return err
			}
		}
		return nil
	}
	used := false
	// young opens a new target before each trial if the target starts quickly, and before each
	// search if the target is a cluster. So all trials or searches start with a target of the same
	// age, without load from previous trials or searches.
	soon := o.Target == "node" || o.Target == "shard"
	young := func(n int) (err error) {
		if used && (soon || n == 0 && o.Target == "cluster") {
			t, err = afresh()
		}
		used = true
		return err
	}
	search := *o.Search
	search.Fresh = soon
	knees, err := load.FindKnees(ctx, search, o.Runs, soon, func(ctx context.Context, i int, rate float64, n int) (*load.Phase, error) {
		if err := young(n); err != nil {
			return nil, err
		}
		trial := plan
		trial.Ease = load.TrialEase
		trial.Rate, trial.Seed, trial.Behind = rate, o.Seed+uint64(1000*i+n), max(2*o.Search.P99, time.Second)
		trial.Progress = func(part float64, what string) {
			o.Progress(part, fmt.Sprintf("knee %d of %d, trial %d at %.0f/s: %s", i+1, o.Runs, n+1, rate, what))
		}
		trial.Progress(0, "begins")
		// The target may run in other processes, whose load must not count as foreign load.
		if !soon {
			return load.Run(ctx, t, trial)
		}
		before := busy()
		p, err := load.Run(ctx, t, trial)
		if p != nil {
			p.Others = before.others(busy())
		}
		return p, err
	})
	if r.Knees = knees; err != nil {
		return err
	}
	if err := young(1); err != nil {
		return err
	}
	plan.Rate, plan.Ease = 0.9*r.Knees.Mean, load.TrialEase
	return once("at nine tenths of the knee", plan)
}

// openRPC connects to a running node.
func openRPC(ctx context.Context, o *LoadOptions, w load.Workload) (*loaded, error) {
	if o.URL == "" {
		return nil, errors.New("bench: target rpc needs --url")
	}
	return openChain(ctx, o, w, load.Subject{Kind: "rpc", Name: o.URL}, func() error { return nil })
}

// openChain connects to a chain by the URL of a node. close stops the processes that were started
// for that chain.
func openChain(ctx context.Context, o *LoadOptions, w load.Workload, s load.Subject, close func() error) (*loaded, error) {
	c, err := load.OpenChain(ctx, load.ChainOptions{URL: o.URL, Funder: o.KeyFile, Workload: w, Accounts: o.Accounts,
		Fund: o.Fund, Connections: o.Connections,
		Until: o.Until, Timeout: o.Timeout, Progress: o.Progress})
	if err != nil {
		return nil, errors.Join(err, close())
	}
	s.ChainID, s.Version, s.Protocol = c.Status.ChainID, c.Status.Version.Version+" "+c.Status.Version.Build, c.Status.Protocol
	l := &loaded{Target: c, subject: s, close: func() error { c.Close(); return close() },
		stats: func(ctx context.Context) (int, primitives.Height, bool) {
			n, counts := c.Included()
			h, err := c.Height(ctx)
			return n, h, counts && err == nil
		}}
	if o.Target == "cluster" {
		l.heights = c.Heights
	}
	return l, nil
}
