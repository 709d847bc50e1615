package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/troupe-chain/troupe/bench/load"
	"github.com/troupe-chain/troupe/primitives"
)

// Use is what a process used of the machine. Sizes are in bytes. A field is 0 if the system does not
// report it.
type Use struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	Peak       uint64  `json:"peak_bytes"`    // greatest resident memory
	Read       uint64  `json:"read_bytes"`    // read from the disk
	Written    uint64  `json:"written_bytes"` // written to the disk
}

// add adds the use of a later run of the process.
func (u *Use) add(x Use) {
	u.CPUSeconds, u.Peak, u.Read, u.Written = u.CPUSeconds+x.CPUSeconds, max(u.Peak, x.Peak), u.Read+x.Read, u.Written+x.Written
}

// since returns the use after an earlier moment.
func (u Use) since(x Use) Use {
	u.CPUSeconds, u.Read, u.Written = u.CPUSeconds-x.CPUSeconds, u.Read-x.Read, u.Written-x.Written
	return u
}

// pollEvery is the time between two looks at a process.
const pollEvery = 100 * time.Millisecond

// child is a node in a process of its own. Only one goroutine may use a child.
type child struct {
	cmd      *exec.Cmd
	addr     string // address of the RPC
	client   *load.Client
	log      childLog
	ended    chan struct{} // closed when the process has ended and err is set
	err      error
	seen     Use    // at the last look
	received uint64 // bytes from peers, up to the last look
	counter  uint64 // of the bytes from peers at the last look; a restart of the node's network resets it
}

// childLog keeps the end of a process's log, and whether syncComplete was in it. Safe for concurrent
// use.
type childLog struct {
	mu       sync.Mutex
	text     []byte
	complete bool
}

// keptLog is the number of bytes of a log that are kept.
const keptLog = 16 << 10

func (l *childLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	l.complete = l.complete || bytes.Contains(l.text, []byte(syncComplete))
	if n := len(l.text); n > 2*keptLog {
		l.text = append(l.text[:0], l.text[n-keptLog:]...)
	}
	return len(p), nil
}

// startChild starts a node and waits until it serves.
func startChild(ctx context.Context, binary, dir string, flags ...string) (*child, error) {
	addr, err := freePort(loopback)
	if err != nil {
		return nil, err
	}
	n := &child{addr: addr, ended: make(chan struct{})}
	if n.client, err = load.NewClient("http://"+addr, 1, time.Minute); err != nil {
		return nil, err
	}
	n.cmd = exec.Command(binary, append([]string{"--home", dir, "run", "--rpc-addr", addr}, flags...)...)
	n.cmd.Stdout, n.cmd.Stderr = &n.log, &n.log
	if err := n.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		n.err = n.cmd.Wait()
		close(n.ended)
	}()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err = n.client.Status(ctx); err == nil {
			return n, nil
		}
		if ended := n.failed(); ended != nil || ctx.Err() != nil || time.Since(begun) > stalled {
			return nil, errors.Join(ended, ctx.Err(), err, n.kill())
		}
	}
}

// failed returns an error if the process has ended.
func (n *child) failed() error {
	select {
	case <-n.ended:
		return fmt.Errorf("bench: the node ended, %w: %s", errors.Join(n.err, errEnded), n.log.tail())
	default:
		return nil
	}
}

var errEnded = errors.New("which it should not")

// isComplete returns whether the log says that a state sync is complete.
func (l *childLog) isComplete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.complete
}

// tail returns the end of the log.
func (l *childLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text[max(0, len(l.text)-4000):])
}

// metrics returns the metrics without labels, and looks at the use of the process.
func (n *child) metrics() (map[string]float64, error) {
	n.use()
	code, body, err := fasthttp.GetTimeout(nil, "http://"+n.addr+"/metrics", 10*time.Second)
	if err != nil || code != fasthttp.StatusOK {
		return nil, errors.Join(err, fmt.Errorf("/metrics: status %d", code))
	}
	out := map[string]float64{}
	for line := range strings.Lines(string(body)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			out[name] = v
		}
	}
	now := uint64(out["troupe_network_received_bytes_total"])
	if now < n.counter {
		n.counter = 0
	}
	n.received, n.counter = n.received+now-n.counter, now
	return out, nil
}

// await waits until a condition of the head's height holds.
func (n *child) await(ctx context.Context, holds func(primitives.Height) bool) error {
	last, moved := primitives.Height(0), time.Now()
	for ; ; time.Sleep(pollEvery / 5) {
		if err := errors.Join(n.failed(), ctx.Err()); err != nil {
			return err
		}
		s, err := n.client.Status(ctx)
		if err == nil && holds(s.Sync.Height) {
			return nil
		}
		if err == nil && s.Sync.Height > last {
			last, moved = s.Sync.Height, time.Now()
		}
		if time.Since(moved) > stalled {
			return errors.Join(fmt.Errorf("bench: no block since height %d for %v: %s", last, stalled, n.log.tail()), err)
		}
	}
}

// use returns what the process has used. After its end, use returns what the last look found.
func (n *child) use() Use {
	of := func(file, key string) (v uint64) {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", n.cmd.Process.Pid, file))
		for line := range strings.Lines(string(text)) {
			if rest, found := strings.CutPrefix(line, key+":"); found && v == 0 {
				v, _ = strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			}
		}
		return v
	}
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", n.cmd.Process.Pid))
	cpu := 0.0
	// utime and stime are the 12th and 13th field after the name, in hundredths of a second.
	if f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:])); len(f) > 12 {
		user, _ := strconv.ParseFloat(f[11], 64)
		system, _ := strconv.ParseFloat(f[12], 64)
		cpu = (user + system) / 100
	}
	s := &n.seen
	s.CPUSeconds, s.Peak = max(s.CPUSeconds, cpu), max(s.Peak, of("status", "VmHWM")<<10)
	s.Read, s.Written = max(s.Read, of("io", "read_bytes")), max(s.Written, of("io", "write_bytes"))
	return *s
}

// kill ends the process at once.
func (n *child) kill() error {
	err := n.cmd.Process.Kill()
	<-n.ended
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// stop stops the node cleanly. A nil child has been stopped already, or was never started.
func (n *child) stop() error {
	if n == nil || n.failed() != nil {
		return nil
	}
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-n.ended:
	case <-time.After(time.Minute):
		return errors.Join(errors.New("bench: the node did not stop within a minute"), n.kill())
	}
	if n.err != nil {
		return fmt.Errorf("bench: the node did not stop cleanly: %w: %s", n.err, n.log.tail())
	}
	return nil
}
