package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/troupe-chain/troupe/internal/testkit/sim"
)

// errViolated means that an invariant was violated.
var errViolated = errors.New("the cluster violated an invariant; run the command above to reproduce it")

// simulation holds the flags of sim.
type simulation struct {
	seeds, from   uint64
	scenario, bug string
	nodes, shards int
	blocks        uint64
	workers       int
	trace         string
	profile       string
}

func newSim(*app) *cobra.Command {
	o := simulation{}
	c := &cobra.Command{
		Use:   "sim",
		Short: "Simulate clusters of validators with faults, from seeds",
		Long: `Sim runs clusters of validators, with their engines and stores, in one process and in virtual time.
The simulated network delays, loses and duplicates messages, and is partitioned. Nodes crash and
lose data that was not synced. All of this is derived from a seed.
At every step sim checks that each height has one final block and none is reverted, that all nodes
have the same states, that each receipt is applied once, that the token supply is right, that no
validator signs contradicting messages, and that the chain continues after the faults end.
For a seed that fails, sim prints the last events and the command that reproduces it.
Scenarios (where nothing else is mentioned: four validators that track all shards, four shards,
epochs of 20 blocks):
` + scenarioList(sim.Scenarios) + `
Networks, which only --scenario chooses, with some twenty seconds of one core for each seed:
` + scenarioList(sim.Networks) + `
Bugs for --plant:
` + bugList(),
		Example: `  troupe sim --seeds 100
  troupe sim --from 17 --seeds 1 --scenario chaos --trace trace.txt
  troupe sim --seeds 20 --plant forget`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := c.Flags()
	f.Uint64Var(&o.seeds, "seeds", uint64(len(sim.Scenarios)), "number of seeds; the default runs each scenario once")
	f.Uint64Var(&o.from, "from", 0, "first seed")
	f.StringVar(&o.scenario, "scenario", "", "scenario, one of those above (default: each seed chooses one)")
	f.IntVar(&o.nodes, "nodes", 0, "number of validators, at most 128 (default: the scenario's)")
	f.IntVar(&o.shards, "shards", 0, "number of shards (default: the scenario's)")
	f.Uint64Var(&o.blocks, "blocks", 0, "final blocks after which the load ends (default: the scenario's)")
	f.IntVar(&o.workers, "workers", runtime.NumCPU(), "seeds to run in parallel")
	f.StringVar(&o.trace, "trace", "", "write all events to this file; only with --seeds 1")
	f.StringVar(&o.profile, "cpuprofile", "", "write a CPU profile to this file")
	f.StringVar(&o.bug, "plant", "", "run with this deliberate bug in the nodes, to check that sim finds it")
	return c
}

// helpColumns is the width of help texts.
const helpColumns = 99

// scenarioList describes each scenario of a list.
func scenarioList(list []sim.Scenario) string {
	var b strings.Builder
	for _, s := range list {
		b.WriteString(helpEntry(s.Name, s.Doc))
	}
	return b.String()
}

// bugList describes each bug that can be planted.
func bugList() string {
	var b strings.Builder
	for _, x := range sim.Bugs {
		b.WriteString(helpEntry(x.Name, x.Doc))
	}
	return b.String()
}

// helpEntry returns a name with its description, wrapped at helpColumns.
func helpEntry(name, text string) string {
	const indent = 13
	var b strings.Builder
	line := fmt.Sprintf("  %-*s", indent-3, name)
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > helpColumns {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", indent-1)
		}
		line += " " + word
	}
	return b.String() + line + "\n"
}

// options returns the options of the simulation with one seed.
func (o *simulation) options(seed uint64) (sim.Options, error) {
	s, err := sim.ScenarioOf(o.scenario, seed)
	if err != nil {
		return sim.Options{}, usagef("%w", err)
	}
	b, err := sim.BugOf(o.bug)
	if err != nil {
		return sim.Options{}, usagef("%w", err)
	}
	if err := s.Change(o.nodes, o.shards, o.blocks); err != nil {
		return sim.Options{}, usagef("%w", err)
	}
	return sim.Options{Seed: seed, Scenario: s, Bug: b}, nil
}

// again returns the command line that repeats the simulation of a seed.
func (o *simulation) again(seed uint64, scenario string) string {
	c := fmt.Sprintf("troupe sim --seeds 1 --from %d --scenario %s", seed, scenario)
	for _, x := range []struct {
		flag  string
		value uint64
	}{{"nodes", uint64(o.nodes)}, {"shards", uint64(o.shards)}, {"blocks", o.blocks}} {
		if x.value != 0 {
			c += fmt.Sprintf(" --%s %d", x.flag, x.value)
		}
	}
	if o.bug != "" {
		c += " --plant " + o.bug
	}
	return c + " --trace trace.txt"
}

func (o *simulation) run(cmd *cobra.Command) (err error) {
	if _, err := o.options(o.from); err != nil {
		return err
	}
	if o.trace != "" && o.seeds != 1 {
		return usagef("--trace needs --seeds 1, and --seeds is %d", o.seeds)
	}
	if o.profile != "" {
		f, err := os.Create(o.profile)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	var (
		mu                sync.Mutex
		failed            error
		sum               totals
		next              = o.from
		bar, ended, began = simProgress(cmd.ErrOrStderr(), int(o.seeds)), 0, time.Now()
	)
	var wg sync.WaitGroup
	for range max(min(o.workers, int(o.seeds)), 1) {
		wg.Go(func() {
			for {
				mu.Lock()
				seed := next
				if next++; seed >= o.from+o.seeds || failed != nil || cmd.Context().Err() != nil {
					mu.Unlock()
					return
				}
				mu.Unlock()
				r, name, err := o.one(seed)
				mu.Lock()
				switch {
				case err != nil:
					failed = err
				case r.Violation != nil && failed == nil:
					failed = errViolated
					say(cmd, "%s", strings.Join(r.Tail, "\n"))
					say(cmd, "seed %d, scenario %s: %v\n%s", seed, name, r.Violation, o.again(seed, name))
				}
				if err == nil {
					sum.add(r)
					ended++
					if bar != nil {
						bar(ended)
					}
					if o.seeds == 1 {
						say(cmd, "hash %x", r.Hash)
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failed == nil {
		failed = cmd.Context().Err()
	}
	took := time.Since(began).Seconds()
	say(cmd, "%d seeds: %d final blocks, %d outcomes, %d messages, %d crashes; %d heights and %d chunks missed; %.0f s of virtual time in %.1f s, %.0f times as fast",
		ended, sum.final, sum.receipts, sum.messages, sum.crashes, sum.missed, sum.gaps, sum.seconds, took, sum.seconds/took)
	return failed
}

// gcPercent is the GC percentage of sim. This value is high because simulations are small and
// produce much garbage.
const gcPercent = 400

// one simulates the cluster with one seed. scenario is the name of the simulated scenario.
func (o *simulation) one(seed uint64) (r *sim.Result, scenario string, err error) {
	so, err := o.options(seed)
	if err != nil {
		return nil, "", err
	}
	if o.trace != "" {
		f, err := os.Create(o.trace)
		if err != nil {
			return nil, "", err
		}
		so.Trace = f
		defer func() { err = errors.Join(err, f.Close()) }()
	}
	r, err = sim.Run(so)
	return r, so.Scenario.Name, err
}

// totals sums the results of all seeds.
type totals struct {
	final                                     uint64
	receipts, messages, crashes, missed, gaps int
	seconds                                   float64
}

func (t *totals) add(r *sim.Result) {
	t.final += uint64(r.Final)
	t.receipts, t.messages, t.crashes = t.receipts+r.Receipts, t.messages+r.Messages, t.crashes+r.Crashes
	t.missed, t.gaps = t.missed+r.Missed, t.gaps+r.Gaps
	t.seconds += float64(r.Time) / float64(time.Second)
}

// simProgress returns a progress bar, or nil if w is not a terminal.
func simProgress(w io.Writer, seeds int) func(done int) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	bar := progressbar.NewOptions(seeds, progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("seeds"),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionShowCount(),
		progressbar.OptionShowIts(), progressbar.OptionClearOnFinish())
	return func(done int) { _ = bar.Set(done) }
}
