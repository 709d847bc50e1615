//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the path of the program under test.
var binary string

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if binary = os.Getenv("TROUPE_BIN"); binary == "" {
		dir, err := os.MkdirTemp("", "troupe-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "troupe")
		build := exec.Command("go", "build", "-o", binary, "../../../cmd/troupe")
		build.Stdout, build.Stderr = os.Stderr, os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return m.Run()
}

// troupe runs the program until it ends and returns its output, both streams together.
func troupe(t testing.TB, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
	return string(out), err
}

// newHome makes a home folder by init with these flags. Its chain is one that the neard of
// TROUPE_NEARD can follow.
func newHome(t testing.TB, flags ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	if out, err := troupe(t, append([]string{"--home", dir, "init"}, flags...)...); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	asOldAs(t, dir)
	return dir
}

// freeAddr returns a local address whose port is free at the moment.
func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// output collects the output of a process.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// process is a running node.
type process struct {
	t     testing.TB
	home  string
	addr  string
	cmd   *exec.Cmd
	out   output
	ended chan struct{} // closed after the process has ended and err is set
	err   error
	ready time.Duration // time from the start to the first 200 response
}

// launch starts a node without waiting until it serves.
func launch(t testing.TB, home, addr string, flags ...string) *process {
	t.Helper()
	return launchBy(t, nil, home, addr, flags...)
}

// launchBy is launch with a command that runs the program; empty: none.
func launchBy(t testing.TB, by []string, home, addr string, flags ...string) *process {
	t.Helper()
	command := append(slices.Clone(by), binary, "--home", home, "run", "--rpc-addr", addr, "--network-addr", "127.0.0.1:0")
	return launchAs(t, home, addr, command[0], append(command[1:], flags...)...)
}

// launchAs starts a node with a given command.
func launchAs(t testing.TB, home, addr, command string, args ...string) *process {
	t.Helper()
	p := &process{t: t, home: home, addr: addr, ended: make(chan struct{})}
	p.cmd = exec.Command(command, args...)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		select {
		case <-p.ended:
		default:
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
		p.logOutput("node", 4000)
	})
	return p
}

// start starts a node and waits until it serves.
func start(t testing.TB, home string, flags ...string) *process {
	t.Helper()
	began := time.Now()
	return serving(t, began, launch(t, home, freeAddr(t), flags...))
}

// serving waits until a node serves.
func serving(t testing.TB, began time.Time, p *process) *process {
	t.Helper()
	for deadline := began.Add(30 * time.Second); ; {
		if r, err := http.Get("http://" + p.addr + "/status"); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				p.ready = time.Since(began)
				return p
			}
		}
		select {
		case <-p.ended:
			t.Fatalf("the node ended: %v\n%s", p.err, p.out.String())
		case <-time.After(time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("the node does not serve:\n%s", p.out.String())
		}
	}
}

// stop sends a signal and returns how long the process took to end. It must end with code 0, or by
// the signal if that is SIGKILL.
func (p *process) stop(signal syscall.Signal) time.Duration {
	p.t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		p.t.Fatalf("%v: still running after 20 s", signal)
	}
	if p.err != nil && signal != syscall.SIGKILL {
		p.t.Errorf("after %v: %v\n%s", signal, p.err, tail(p.out.String(), 2000))
	}
	return time.Since(began)
}

// exits waits until the process ends by itself with a failure, and returns its output.
func (p *process) exits() string {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(20 * time.Second):
		p.t.Fatalf("still running, should have refused to start:\n%s", p.out.String())
	}
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) || exit.ExitCode() <= 0 {
		p.t.Errorf("ended with %v, want an exit code above 0\n%s", p.err, p.out.String())
	}
	if said := p.out.String(); strings.Contains(said, "goroutine ") || strings.Contains(said, "panic") {
		p.t.Errorf("the node panicked:\n%s", tail(said, 4000))
	}
	return p.out.String()
}

// reply is a JSON-RPC reply.
type reply struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Name  string `json:"name"`
		Cause struct {
			Name string `json:"name"`
		} `json:"cause"`
		Data json.RawMessage `json:"data"`
	} `json:"error"`
}

// call sends a request. An error is one of the connection.
func (p *process) call(method string, params any) (r reply, err error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return r, err
	}
	h, err := client.Post("http://"+p.addr, "application/json", bytes.NewReader(body))
	if err != nil {
		return r, err
	}
	defer h.Body.Close()
	return r, json.NewDecoder(h.Body).Decode(&r)
}

// client keeps connections open, as SDKs do.
var client = &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64, DialContext: dial}}

// dials maps addresses to functions that connect to them, func(ctx, network, addr) (net.Conn,
// error), for nodes in other network namespaces.
var dials sync.Map

func dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if way, ok := dials.Load(addr); ok {
		return way.(func(context.Context, string, string) (net.Conn, error))(ctx, network, addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// get sends a request that must succeed, and decodes the result.
func (p *process) get(method string, params any, result any) {
	p.t.Helper()
	r, err := p.call(method, params)
	if err != nil {
		p.t.Fatalf("%s: error %v", method, err)
	}
	if r.Error != nil {
		p.t.Fatalf("%s %v: name %s, %s, data %s", method, params, r.Error.Name, r.Error.Cause.Name, r.Error.Data)
	}
	if err := json.Unmarshal(r.Result, result); err != nil {
		p.t.Fatalf("%s: %v in %s", method, err, r.Result)
	}
}

// head is the part of a block that the tests read.
type head struct {
	Header struct {
		Height uint64 `json:"height"`
		Hash   string `json:"hash"`
	} `json:"header"`
}

func (p *process) head(finality string) (h head) {
	p.t.Helper()
	p.get("block", map[string]any{"finality": finality}, &h)
	return h
}

// logOutput logs the end of a process's output if the test failed. With TROUPE_LOGS, a folder, it
// also stores the whole output there. The nodes of a cluster then store their network messages too.
func (p *process) logOutput(kind string, most int) {
	if dir := os.Getenv("TROUPE_LOGS"); dir != "" {
		name := strings.ReplaceAll(fmt.Sprintf("%s-%s-%s-%s-%d.log", p.t.Name(), filepath.Base(filepath.Dir(p.home)), filepath.Base(p.home), kind, p.cmd.Process.Pid), "/", "-")
		if err := os.WriteFile(filepath.Join(dir, name), []byte(p.out.String()), 0o600); err != nil {
			p.t.Log(err)
		}
	}
	if p.t.Failed() {
		p.t.Logf("%s on %s said:\n%s", kind, p.home, tail(p.out.String(), most))
	}
}

// tail returns the last n bytes of a text.
func tail(s string, n int) string { return s[max(0, len(s)-n):] }
