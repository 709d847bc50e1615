//go:build e2e

package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"syscall"
	"testing"
	"time"
)

// prober sends GET /status every 5 ms on one connection from an address of its own.
type prober struct {
	stop, done chan struct{}
	took       []time.Duration
	failed     []string
}

func probe(addr string) *prober {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.2")}, Timeout: 5 * time.Second}
	client := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DialContext: d.DialContext}}
	p := &prober{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer client.CloseIdleConnections()
		for {
			select {
			case <-p.stop:
				return
			case <-time.After(5 * time.Millisecond):
			}
			began := time.Now()
			r, err := client.Get("http://" + addr + "/status")
			if err == nil {
				_, err = io.Copy(io.Discard, r.Body)
				r.Body.Close()
				if r.StatusCode != http.StatusOK {
					err = fmt.Errorf("HTTP %d", r.StatusCode)
				}
			}
			p.took = append(p.took, time.Since(began))
			if err != nil {
				p.failed = append(p.failed, err.Error())
			}
		}
	}()
	return p
}

func (p *prober) end() {
	close(p.stop)
	<-p.done
}

// TestTrivialServer is not a test: TestStatusStaysFastDuringFloods runs it in a process of its own.
func TestTrivialServer(t *testing.T) {
	addr := os.Getenv("TROUPE_TRIVIAL")
	if addr == "" {
		t.Skip("run by TestStatusStaysFastDuringFloods")
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	serveTrivially(l)
}

func trivial(t *testing.T) (addr string) {
	t.Helper()
	addr = freeAddr(t)
	c := exec.Command(os.Args[0], "-test.run=^TestTrivialServer$", "-test.count=1")
	c.Env = append(os.Environ(), "TROUPE_TRIVIAL="+addr, "TROUPE_BIN="+binary)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	})
	for end := time.Now().Add(10 * time.Second); ; {
		if s, err := net.Dial("tcp", addr); err == nil {
			s.Close()
			return addr
		}
		if time.Now().After(end) {
			t.Fatal("the trivial server does not listen")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// niceness returns this process's nice value.
func niceness(t *testing.T) int {
	t.Helper()
	p, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	return 20 - p // the system call returns 20 - nice
}

// TestStatusStaysFastDuringFloods measures the latency of GET /status for an honest client during
// each attack, and during the same attack on a server that only reads and discards. TROUPE_FLOOD is
// the duration of each attack (default 4 s). TROUPE_ATTACK is a regular expression for the names of
// those to run.
func TestStatusStaysFastDuringFloods(t *testing.T) {
	each := 4 * time.Second
	if v := os.Getenv("TROUPE_FLOOD"); v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			t.Fatal(err)
		}
		each = d
	}
	p, a := besieged(t, map[string]any{
		"max_connections_per_address": 1000, "max_parked_per_address": 1000, "max_bytes_in_flight": 48 << 20, "max_bytes_in_flight_per_address": 40 << 20,
		"max_simulations_per_address": 4, "max_work_per_address": 250, "max_websockets_per_address": 256,
	})
	floor := trivial(t)
	measure := func(addr, attack string) *prober {
		wait := func() {}
		if attack != "" {
			mine := *a
			mine.Addr = addr
			wait = attackers(t, &mine, attack, each, niceness(t))
			time.Sleep(each / 8)
		}
		h := probe(addr)
		time.Sleep(each * 3 / 4)
		h.end()
		wait()
		return h
	}
	time.Sleep(time.Second)
	calm, calmFloor := measure(p.addr, ""), measure(floor, "")
	row := func(name string, h, f *prober) {
		t.Logf("| %-28s | %7.2f | %7.2f | %7.1f | %5d | %7.2f | %7.2f | %7.1f |", name, ms(quantile(h.took, .5)), ms(quantile(h.took, .99)), ms(quantile(h.took, 1)), len(h.took),
			ms(quantile(f.took, .5)), ms(quantile(f.took, .99)), ms(quantile(f.took, 1)))
	}
	t.Logf("| attack                       | node p50, p99, worst ms     | reads | trivial p50, p99, worst ms |")
	row("calm", calm, calmFloor)
	for _, x := range floodAttacks {
		if !regexp.MustCompile(os.Getenv("TROUPE_ATTACK")).MatchString(x.name) {
			continue
		}
		t.Run(x.name, func(t *testing.T) {
			before := resident(t, p.cmd.Process.Pid)
			f, h := measure(floor, x.name), measure(p.addr, x.name)
			row(x.name, h, f)
			if n := len(h.failed); n > 0 {
				t.Errorf("%d requests of the honest client failed: %s", n, h.failed[0])
			}
			most := max(leastP99, 3*quantile(calm.took, .99), 3*quantile(f.took, .99))
			if got := quantile(h.took, .99); got > most {
				t.Errorf("p99 of the honest client %v, want at most %v", got, most)
			}
			if more := resident(t, p.cmd.Process.Pid) - before; more > moreMemory {
				t.Errorf("memory grew by %.0f MiB, above the limit", more)
			}
			select {
			case <-p.ended:
				t.Fatal("the node has ended")
			default:
			}
		})
	}
	if took := p.stop(syscall.SIGTERM); took > 2*time.Second {
		t.Errorf("the node took %v to stop", took)
	}
}
