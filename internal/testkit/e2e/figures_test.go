//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/recipes"
)

// resident returns a process's memory in MiB.
func resident(t *testing.T, pid int) float64 {
	t.Helper()
	return processMemory(t, pid, "VmRSS:")
}

// peakResident returns the peak memory of a process in MiB.
func peakResident(t *testing.T, pid int) float64 {
	t.Helper()
	return processMemory(t, pid, "VmHWM:")
}

// processMemory returns a field of /proc/PID/status in MiB. It skips the test if there is no such
// file.
func processMemory(t *testing.T, pid int, field string) float64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib / 1024
		}
	}
	t.Fatalf("no %s", field)
	return 0
}

// TestFiguresStayNearTheDocumented measures start time, memory and latency. It fails only if they
// are far worse than docs/performance.md says, since other machines are slower or busy.
func TestFiguresStayNearTheDocumented(t *testing.T) {
	var starts []time.Duration
	for range 7 {
		began := time.Now()
		home := newHome(t)
		inited := time.Since(began)
		p := start(t, home)
		starts = append(starts, inited+p.ready)
		p.stop(syscall.SIGTERM)
	}
	slices.Sort(starts)
	t.Logf("init and run to the first 200 on /status: best %.0f ms, median %.0f ms", ms(starts[0]), ms(starts[len(starts)/2]))
	if starts[len(starts)/2] > 2*time.Second {
		t.Errorf("init and run took %v, above the limit", starts[len(starts)/2])
	}

	p := start(t, newHome(t))
	time.Sleep(3 * time.Second) // idle
	idle := resident(t, p.cmd.Process.Pid)
	t.Logf("resident when idle: %.1f MiB", idle)
	if idle > 200 {
		t.Errorf("%.1f MiB resident when idle, above the limit", idle)
	}

	s := p.signer()
	times := make([]time.Duration, 0, 500)
	for i := range 600 {
		encoded, _ := s.next()
		began := time.Now()
		p.send(encoded, "FINAL")
		if i >= 100 { // after warm-up
			times = append(times, time.Since(began))
		}
	}
	slices.Sort(times)
	at := func(share float64) float64 { return ms(times[int(share*float64(len(times)-1))]) }
	t.Logf("submit to FINAL, one after the other: p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, worst %.2f ms", at(.5), at(.9), at(.99), at(1))
	if at(.5) > 500 {
		t.Errorf("p50 %v ms", at(.5))
	}
	t.Logf("resident after %d transactions: %.1f MiB", 600, resident(t, p.cmd.Process.Pid))
	p.stop(syscall.SIGTERM)
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// TestReadmeCommandsWorkInCleanClone runs the README's first commands in a clone of the committed
// files: `make run` prints commands to try, and these work.
func TestReadmeCommandsWorkInCleanClone(t *testing.T) {
	need(t, "git", "make", "curl")
	clone := cloned(t)
	if r, err := exec.Command("curl", "-s", "127.0.0.1:3030/status").Output(); err == nil {
		t.Skipf("skipped: something serves on port 3030: %s", tail(string(r), 200))
	}
	// In a process group of its own, as in a terminal, so that the signal reaches make and the node.
	c := exec.Command("make", "run")
	c.Dir, c.SysProcAttr = clone, &syscall.SysProcAttr{Setpgid: true}
	var out output
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	defer func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			t.Error("make run does not end by SIGINT")
		}
	}()
	for deadline := time.Now().Add(5 * time.Minute); !strings.Contains(out.String(), "Ctrl-C"); time.Sleep(50 * time.Millisecond) {
		select {
		case <-ended:
			t.Fatalf("make run ended:\n%s", out.String())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("make run printed nothing:\n%s", out.String())
		}
	}
	shell := func(command string) string {
		t.Helper()
		c := exec.Command("sh", "-c", command)
		c.Dir = clone
		b, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%s: error %v\ngot:\n%s", command, err, b)
		}
		return string(b)
	}
	tried := 0
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "curl ") {
			tried++
			if got := shell(line); !strings.Contains(got, "test.near") && !strings.Contains(got, `"amount"`) {
				t.Errorf("%s\nanswers %s", line, got)
			}
		}
	}
	if tried < 2 {
		t.Errorf("make run suggests %d commands, want 2:\n%s", tried, out.String())
	}
}

// TestCommandsOfGuidesWork types the commands of README.md and the guides in a clone of the
// committed files, as far as their programs are installed.
func TestCommandsOfGuidesWork(t *testing.T) {
	need(t, "git", "make", "curl", "bash")
	pages, err := filepath.Glob("../../../docs/guide/*.md")
	if err != nil {
		t.Fatal(err)
	}
	clone := cloned(t)
	makefile, err := os.ReadFile(filepath.Join(clone, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append([]string{"../../../README.md"}, pages...) { // README first: it builds bin/troupe
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(page, "../../../")
		blocks, err := recipes.Blocks(name, string(text))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			recipes.Run(t, blocks, recipes.Options{Folder: clone, Wait: 10 * time.Minute, Files: map[string]string{"Makefile": string(makefile)}})
		})
	}
}

// cloned returns a clone of the committed files.
func cloned(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	clone := filepath.Join(t.TempDir(), "clone")
	if out, err := exec.Command("git", "clone", "-q", root, clone).CombinedOutput(); err != nil {
		t.Skipf("skipped: no clone: %v %s", err, out)
	}
	return clone
}
