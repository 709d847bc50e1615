package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

// StartOptions configure RunStart.
type StartOptions struct {
	Binary string        `json:"binary"` // path of the troupe binary
	Times  int           `json:"times"`
	Idle   time.Duration `json:"idle_ns"` // idle time after the start before the memory is measured
	Commit string        `json:"-"`
	Dir    string        `json:"-"`
	// Progress is called with the completed share of the run.
	Progress func(part float64, what string) `json:"-"`
}

// StartReport is the result of RunStart.
type StartReport struct {
	Command string       `json:"command"`
	Time    string       `json:"time"`
	Commit  string       `json:"commit"`
	Machine Machine      `json:"machine"`
	Options StartOptions `json:"options"`
	Limits  Limits       `json:"limits"`
	Result  StartResult  `json:"result"`
}

// StartResult contains medians. WorstSeconds is the maximum instead.
type StartResult struct {
	ProcessSeconds float64 `json:"process_seconds"` // time to run `troupe version`, which starts nothing
	InitSeconds    float64 `json:"init_seconds"`
	RunSeconds     float64 `json:"run_seconds"`   // time from the start of run to the first reply 200 of /status
	TotalSeconds   float64 `json:"total_seconds"` // time of init and run together
	WorstSeconds   float64 `json:"worst_seconds"` // maximum of init plus run
	AgainSeconds   float64 `json:"again_seconds"` // RunSeconds of a second start on the same folder
	CPUSeconds     float64 `json:"cpu_seconds"`   // processor time of init and run, until IdleBytes was measured
	IdleBytes      uint64  `json:"idle_bytes"`    // resident memory after the idle time, in bytes
	StopSeconds    float64 `json:"stop_seconds"`  // time from SIGTERM to the end of the process
}

// Targets for the start and the idle memory of a node, in seconds and bytes.
const (
	targetStart = 0.050
	targetIdle  = 40 << 20
)

// RunStart measures the time from an empty folder to a chain that answers requests, and the memory
// of an idle node.
func RunStart(ctx context.Context, o StartOptions) (*StartReport, error) {
	if o.Times < 1 || o.Times > 10_000 || o.Idle < 0 {
		return nil, fmt.Errorf("bench: %d starts with %v idle time: the number of starts must be 1 to 10,000", o.Times, o.Idle)
	}
	if o.Dir == "" {
		o.Dir = os.TempDir()
	}
	if o.Progress == nil {
		o.Progress = func(float64, string) {}
	}
	r := &StartReport{Command: "bench start", Time: time.Now().UTC().Format(time.RFC3339), Commit: o.Commit,
		Machine: ThisMachine(), Options: o}
	o.Progress(0, "machine limits")
	var err error
	if r.Limits, err = MeasureLimits(o.Dir); err != nil {
		return nil, err
	}
	var all []StartResult
	for i := range o.Times {
		o.Progress(float64(i)/float64(o.Times), "starting")
		one, err := startOnce(ctx, &o)
		if err != nil {
			return nil, err
		}
		all = append(all, *one)
	}
	r.Result = medians(all)
	return r, nil
}

func medians(all []StartResult) (m StartResult) {
	of := func(get func(*StartResult) float64) (median, worst float64) {
		list := make([]float64, len(all))
		for i := range all {
			list[i] = get(&all[i])
		}
		slices.Sort(list)
		return list[len(list)/2], list[len(list)-1]
	}
	m.ProcessSeconds, _ = of(func(r *StartResult) float64 { return r.ProcessSeconds })
	m.InitSeconds, _ = of(func(r *StartResult) float64 { return r.InitSeconds })
	m.RunSeconds, _ = of(func(r *StartResult) float64 { return r.RunSeconds })
	m.TotalSeconds, m.WorstSeconds = of(func(r *StartResult) float64 { return r.TotalSeconds })
	m.AgainSeconds, _ = of(func(r *StartResult) float64 { return r.AgainSeconds })
	m.CPUSeconds, _ = of(func(r *StartResult) float64 { return r.CPUSeconds })
	m.StopSeconds, _ = of(func(r *StartResult) float64 { return r.StopSeconds })
	idle, _ := of(func(r *StartResult) float64 { return float64(r.IdleBytes) })
	m.IdleBytes = uint64(idle)
	return m
}

// startOnce creates a chain in a new folder, runs that chain twice and removes the folder.
func startOnce(ctx context.Context, o *StartOptions) (_ *StartResult, err error) {
	dir, err := os.MkdirTemp(o.Dir, "troupe-bench-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, home := &StartResult{}, filepath.Join(dir, "home")
	command := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, o.Binary, append([]string{"--home", home}, args...)...)
		c.Stderr = new(bytes.Buffer)
		return c
	}
	run := func(c *exec.Cmd) (time.Duration, error) {
		begin := time.Now()
		if err := c.Run(); err != nil {
			return 0, fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, c.Stderr)
		}
		return time.Since(begin), nil
	}
	took, err := run(command("version"))
	if err != nil {
		return nil, err
	}
	r.ProcessSeconds = took.Seconds()
	c := command("init", "--chain-id", "bench")
	if took, err = run(c); err != nil {
		return nil, err
	}
	r.InitSeconds = took.Seconds()
	r.CPUSeconds = (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
	for _, again := range []bool{false, true} {
		addr, err := freePort(loopback)
		if err != nil {
			return nil, err
		}
		c := command("run", "--rpc-addr", addr)
		begin := time.Now()
		if err := c.Start(); err != nil {
			return nil, err
		}
		err = firstStatus(ctx, addr)
		took := time.Since(begin)
		if err != nil {
			_ = c.Process.Kill()
			_ = c.Wait()
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, c.Stderr)
		}
		if again {
			r.AgainSeconds = took.Seconds()
		} else {
			r.RunSeconds, r.TotalSeconds = took.Seconds(), r.InitSeconds+took.Seconds()
			select {
			case <-ctx.Done():
			case <-time.After(o.Idle):
			}
			r.IdleBytes = resident(c.Process.Pid)
		}
		begin = time.Now()
		if err := errors.Join(c.Process.Signal(syscall.SIGTERM), c.Wait()); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", strings.Join(c.Args, " "), err, c.Stderr)
		}
		if !again {
			r.StopSeconds = time.Since(begin).Seconds()
			r.CPUSeconds += (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
		}
	}
	return r, nil
}

// loopback is the usual address of this machine.
const loopback = "127.0.0.1"

// freePort returns an address of this machine with a free port. If another process takes the port
// before the node listens on it, the run fails.
func freePort(of string) (string, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(of, "0"))
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// firstStatus requests /status until the reply is 200.
func firstStatus(ctx context.Context, addr string) error {
	for deadline := time.Now().Add(30 * time.Second); ; {
		code, _, err := fasthttp.GetTimeout(nil, "http://"+addr+"/status", time.Second)
		if err == nil && code == fasthttp.StatusOK {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return errors.Join(ctx.Err(), err, errors.New("/status did not answer with 200"))
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// WriteJSON writes the report as JSON.
func (r *StartReport) WriteJSON(w io.Writer) error { return writeJSON(w, r) }

// WriteText writes the report as text.
func (r *StartReport) WriteText(w io.Writer) error {
	x := &r.Result
	ms := func(s float64) string { return fmt.Sprintf("%.1f ms", s*1e3) }
	return writeLines(w, append(r.Machine.lines(r.Commit, &r.Limits), [][2]string{
		{"load", fmt.Sprintf("%s, %d times, each in a new folder; medians", r.Options.Binary, r.Options.Times)}, {},
		{"start", fmt.Sprintf("init and run to the first 200 on /status %s, at worst %s (target %s)", ms(x.TotalSeconds),
			ms(x.WorstSeconds), ms(targetStart))},
		{"", fmt.Sprintf("init %s, run %s; a process that does nothing takes %s; %.0f ms of processor in all",
			ms(x.InitSeconds), ms(x.RunSeconds), ms(x.ProcessSeconds), x.CPUSeconds*1e3)},
		{"restart", fmt.Sprintf("run on the same folder again, to the first 200: %s", ms(x.AgainSeconds))},
		{"idle", fmt.Sprintf("%.1f MiB resident after %v (target %d MiB)", float64(x.IdleBytes)/(1<<20), r.Options.Idle, targetIdle>>20)},
		{"stop", fmt.Sprintf("%s from SIGTERM to the end", ms(x.StopSeconds))},
	}...))
}
