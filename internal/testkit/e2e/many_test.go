//go:build e2e

package e2e

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// proportional returns the proportional set size of a process in MiB: memory shared with other
// processes is divided among them.
func proportional(t *testing.T, pid int) float64 {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib / 1024
		}
	}
	t.Fatal("no Pss")
	return 0
}

// TestManySandboxesStartAtOnce starts many sandboxes at the same time, as test suites that run
// files in parallel do. All are ready soon and use little memory. TROUPE_PROCESSES is their number:
// 200 must be ready within 10 s and use at most 6 GiB of proportional set size.
func TestManySandboxesStartAtOnce(t *testing.T) {
	n := 20
	if text := os.Getenv("TROUPE_PROCESSES"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	homes, addrs, others := make([]string, n), make([]string, n), make([]string, n)
	began := time.Now()
	for i := range homes {
		homes[i] = newHome(t, "--fast")
	}
	held := make([]net.Listener, 2*n) // all ports are reserved at once, two for each node, so that no port is given out twice
	for i := range held {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held[i] = l
		[][]string{addrs, others}[i%2][i/2] = l.Addr().String()
	}
	inited := time.Since(began)
	list := make([]*process, n)
	began = time.Now()
	for i := range list {
		_, _ = held[2*i].Close(), held[2*i+1].Close()
		list[i] = launch(t, homes[i], addrs[i], "--network-addr", others[i])
	}
	launched := time.Since(began)
	var ready sync.WaitGroup
	client := http.Client{Timeout: 5 * time.Second}
	for _, p := range list {
		ready.Go(func() {
			for ; p.ready == 0 && time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
				r, err := client.Get("http://" + p.addr + "/status")
				if err != nil {
					continue
				}
				body, err := io.ReadAll(r.Body)
				_ = r.Body.Close()
				if err == nil && r.StatusCode == http.StatusOK && bytes.Contains(body, []byte("latest_block_height")) {
					p.ready = time.Since(began)
				}
			}
		})
	}
	ready.Wait()
	last, memory, processor := time.Duration(0), 0., time.Duration(0)
	for _, p := range list {
		select {
		case <-p.ended:
			t.Fatalf("%s has ended: %v\n%s", p.home, p.err, tail(p.out.String(), 2000))
		default:
		}
		if p.ready == 0 {
			t.Fatalf("%s is not ready after a minute:\n%s", p.home, tail(p.out.String(), 2000))
		}
		last = max(last, p.ready)
		memory += proportional(t, p.cmd.Process.Pid)
	}
	began = time.Now()
	for _, p := range list {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	for _, p := range list {
		select {
		case <-p.ended:
			if p.err != nil {
				t.Errorf("%s: error %v", p.home, p.err)
			}
			processor += p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
		case <-time.After(20 * time.Second):
			t.Fatalf("%s still runs", p.home)
		}
	}
	t.Logf("%d processes: init one after the other %v, started in %v, all ready after %.2f s, %.0f MiB proportional (%.1f each), stopped in %v, %.0f ms of processor time each",
		n, inited.Round(time.Millisecond), launched.Round(time.Millisecond), last.Seconds(), memory, memory/float64(n), time.Since(began).Round(time.Millisecond), ms(processor/time.Duration(n)))
	if limit := 10 * time.Second * time.Duration(max(n, 50)) / 200; n < 200 && last > 4*limit || n >= 200 && last > 10*time.Second*time.Duration(n)/200 {
		t.Errorf("the last of %d nodes was ready after %v, above the limit", n, last)
	}
	if most := 6 * 1024 * float64(n) / 200; memory > most {
		t.Errorf("%d processes use %.0f MiB, want at most %.0f", n, memory, most)
	}
}
