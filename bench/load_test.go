package bench

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/bench/load"
	"github.com/troupe-chain/troupe/primitives"
)

func loadOptions(target, what string) LoadOptions {
	return LoadOptions{Target: target, Workload: what, Accounts: 60, Fund: primitives.NEAR(2), Connections: 40, Until: "EXECUTED_OPTIMISTIC", Timeout: time.Minute,
		Shards: 2, Nodes: 1, Rate: 100, Arrival: load.Poisson, Warm: 200 * time.Millisecond, For: time.Second, Seed: 1, Runs: 1}
}

// TestEveryWorkloadFinishesOnEachTarget: the node's own count agrees. Nothing is left behind.
func TestEveryWorkloadFinishesOnEachTarget(t *testing.T) {
	n, err := startNode(t.TempDir(), 10, 2, "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}()
	for _, target := range []string{"shard", "node", "rpc"} {
		for _, what := range load.Workloads() {
			o := loadOptions(target, what)
			if target == "rpc" {
				o.URL, o.KeyFile = "http://"+n.Addr.String(), &primitives.KeyFile{AccountID: n.name(0), SecretKey: n.keys[0]}
			}
			o.Dir, o.Limits = t.TempDir(), target == "shard" && what == "native"
			before := n.Node.Stats().Transactions
			r, err := RunLoad(t.Context(), o)
			if refused := target == "shard" && (what == "storage-heavy" || what == "mixed" || what == "reads") || target == "node" && what == "reads"; refused {
				if err == nil || r != nil {
					t.Errorf("%s %s: got %v", target, what, r)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s %s: error %v", target, what, err)
				continue
			}
			p := r.Phases[0]
			if p.Failed > 0 || p.Done != p.Offered || p.Done < 60 || p.Latency.P50 <= 0 {
				t.Errorf("%s %s: %d of %d done: %v", target, what, p.Done, p.Offered, p.Errors)
			}
			if what != "reads" && p.Included < p.Done {
				t.Errorf("%s %s: %d done, and %d in blocks by its own count", target, what, p.Done, p.Included)
			}
			if made := int(n.Node.Stats().Transactions - before); target == "rpc" && what != "reads" && made < p.Done {
				t.Errorf("%s %s: %d transactions on the chain, %d done", target, what, made, p.Done)
			}
			if left, _ := os.ReadDir(o.Dir); len(left) > 0 {
				t.Errorf("%s %s: %s is left", target, what, left[0].Name())
			}
			if l := r.Limits; o.Limits && (l.WakeSeconds <= 0 || l.LateSeconds <= 0 || l.FsyncSeconds <= 0) {
				t.Errorf("limits %+v", l)
			}
			var b bytes.Buffer
			if err := r.WriteText(&b); err != nil || !strings.Contains(b.String(), target) || strings.Contains(b.String(), "\nlimits ") != o.Limits {
				t.Errorf("%s %s: error %v\ngot:\n%s", target, what, err, b.String())
			}
		}
	}
}

// TestStoppedNodeEndsLoadWithResults: if a node stops in the middle of a run, the run ends with the
// measurements so far.
func TestStoppedNodeEndsLoadWithResults(t *testing.T) {
	n, err := startNode(t.TempDir(), 10, 1, "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	o := loadOptions("rpc", "native")
	o.URL, o.KeyFile, o.For = "http://"+n.Addr.String(), &primitives.KeyFile{AccountID: n.name(0), SecretKey: n.keys[0]}, time.Minute
	o.Progress = func() func(float64, string) {
		stopped := false
		return func(part float64, what string) {
			if strings.HasPrefix(what, "run 1") && part > 0.03 && !stopped {
				stopped = true
				go func() { _ = n.stop() }()
			}
		}
	}()
	r, err := RunLoad(t.Context(), o)
	if !errors.Is(err, load.ErrStopped) || r == nil || len(r.Phases) != 1 || r.Phases[0].Done == 0 || !strings.Contains(r.Broken, "the target has stopped answering") {
		t.Errorf("error %v, got %+v", err, r)
	}
}

// TestKneeSearchIsReported: searches run on a node, and the report has them.
func TestKneeSearchIsReported(t *testing.T) {
	o := loadOptions("node", "native")
	o.Rate, o.For, o.Warm = 0, 300*time.Millisecond, 100*time.Millisecond
	o.Search = &load.Search{P99: time.Minute, Kept: 0.99, From: 20, Most: 40, Within: 0.1, Trials: 9}
	o.Runs, o.Dir = 2, t.TempDir()
	var order []string
	o.Progress = func(_ float64, what string) {
		if name, _, trial := strings.Cut(what, " at "); trial && (len(order) == 0 || order[len(order)-1] != name) {
			order = append(order, name)
		}
	}
	var profile bytes.Buffer
	o.CPUProfile = &profile
	r, err := RunLoad(t.Context(), o)
	if len(order) < 4 || order[0] != "knee 1 of 2, trial 1" || order[1] != "knee 2 of 2, trial 1" || order[2] != "knee 1 of 2, trial 2" {
		t.Errorf("the trials are not in turns: %q", order)
	}
	if !bytes.HasPrefix(profile.Bytes(), []byte{0x1f, 0x8b}) { // gzip, as profiles are
		t.Errorf("a profile of %d bytes", profile.Len())
	}
	o.CPUProfile, o.Progress = nil, nil
	if err != nil || r.Knees == nil || len(r.Knees.Runs) != 2 || !r.Knees.Turns || r.Knees.Runs[0].Rate == 0 || len(r.Phases) != 1 {
		t.Fatalf("got %+v, error %v", r, err)
	}
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil || !strings.Contains(b.String(), "Knee: ") {
		t.Errorf("error %v", err)
	}
	o.Search.P99, o.Search.From = time.Nanosecond, 1
	if r, err = RunLoad(t.Context(), o); !errors.Is(err, load.ErrNoKnee) || r.Broken == "" {
		t.Errorf("an unreachable bound: %v", err)
	}
}

// TestContradictingLoadOptionsAreRefused: contradicting options are refused before anything is
// started, and a cluster whose nodes end at once is not waited for.
func TestContradictingLoadOptionsAreRefused(t *testing.T) {
	for want, change := range map[string]func(o *LoadOptions){
		"the target \"moon\"": func(o *LoadOptions) { o.Target = "moon" }, "the workload \"all\"": func(o *LoadOptions) { o.Workload = "all" }, "needs --url": func(o *LoadOptions) { o.Target = "rpc" },
		"the execution level \"SOON\"": func(o *LoadOptions) { o.Until = "SOON" }, "accounts": func(o *LoadOptions) { o.Accounts = 1 }, "must be 1 to 100": func(o *LoadOptions) { o.Runs = 0 },
		"--shards 2": func(o *LoadOptions) { o.Target, o.Workload, o.Shards = "shard", "cross-shard", 1 }, "accounts in both": func(o *LoadOptions) { o.Workload, o.Shards = "cross-shard", 1 },
		"ended before it was ready": func(o *LoadOptions) { o.Target, o.Program = "cluster", "/bin/false" },
	} {
		o := loadOptions("node", "native")
		o.Dir = t.TempDir()
		change(&o)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if r, err := RunLoad(ctx, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, error %v", want, r, err)
		}
		cancel()
		if left, _ := os.ReadDir(o.Dir); len(left) > 0 {
			t.Errorf("%s: %s is left", want, left[0].Name())
		}
	}
}

// TestTransactionsReferToFinalBlock: the transactions of a run refer to the block that is final at
// that time, so that they stay valid in a long run.
func TestTransactionsReferToFinalBlock(t *testing.T) {
	l, err := openNode(&LoadOptions{Target: "node", Workload: "native", Accounts: 4, Connections: 1, Until: "FINAL", Timeout: 10 * time.Second, Shards: 1, Dir: t.TempDir(),
		Progress: func(float64, string) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	}()
	n := l.Target.(*nodeTarget)
	for i := range uint64(3) {
		before := n.base()
		if err := n.Do(t.Context(), 0, i); err != nil {
			t.Fatal(err)
		}
		if now := n.base(); now == before || now != n.n.Engine.Final().Hash {
			t.Errorf("transfer %d: the next refers to %v, this one to %v", i, now, before)
		}
	}
}
