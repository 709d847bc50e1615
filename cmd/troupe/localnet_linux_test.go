package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/troupe-chain/troupe/internal/home"
)

// terminalText collects what a program writes to a terminal.
type terminalText struct {
	mu   sync.Mutex
	text []byte
}

func (s *terminalText) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	if most := 1 << 20; len(s.text) > most {
		s.text = s.text[len(s.text)-most:]
	}
	return len(p), nil
}

// take returns the text since the last call.
func (s *terminalText) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := string(s.text)
	s.text = nil
	return out
}

// TestLocalnetScreenHandlesEveryKey runs a network of two nodes in a terminal and presses all keys:
// load, a cut, the log of a node that is killed meanwhile, a terminal of three lines, many keys at
// once.
func TestLocalnetScreenHandlesEveryKey(t *testing.T) {
	dir := t.TempDir()
	if code := execute([]string{"--home", dir, "localnet", "-v", "1", "--non-validators-rpc", "1", "--base-port",
		"0"}, strings.NewReader(""), io.Discard, io.Discard); code != exitOK {
		t.Fatalf("localnet: %d", code)
	}
	nodes, err := home.FindLocalnet(dir, "node")
	if err != nil {
		t.Fatal(err)
	}
	screen, terminal := openPTY(t)
	size := func(width, height uint16) {
		t.Helper()
		if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: height, Col: width}); err != nil {
			t.Fatal(err)
		}
	}
	size(200, 40)
	cmd := exec.Command(os.Args[0], "--home", dir, "localnet", "run")
	cmd.Env = append(os.Environ(), asCommand+"=1", "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	expires := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer expires.Stop()
	var out terminalText
	go func() { _, _ = io.Copy(&out, screen) }()
	await := func(pattern string) string {
		t.Helper()
		want, all := regexp.MustCompile(pattern), ""
		for limit := time.Now().Add(90 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
			if all += out.take(); want.MatchString(all) {
				return all
			}
		}
		t.Fatalf("no %q in\n%.5000q", pattern, all)
		return ""
	}
	press := func(keys string) {
		t.Helper()
		out.take()
		if _, err := screen.WriteString(keys); err != nil {
			t.Fatal(err)
		}
	}
	peers := func(want int) {
		t.Helper()
		for _, n := range nodes {
			got := -1
			for limit := time.Now().Add(time.Minute); got != want && time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
				got = peersOf(n.RPC.String())
			}
			if got != want {
				t.Fatalf("%s has %d peers, want %d", n.Name, got, want)
			}
		}
	}
	await(`node1 +` + regexp.QuoteMeta(nodes[1].RPC.String()) + ` +rpc +up +[1-9]\d* `)
	peers(1)
	press("t")
	await(`[1-9]\d*\.\d tx/s .* load: 10/s, [1-9]\d* sent`)
	press("1c")
	await(`CUT: node0 \| node1`)
	peers(0)
	press("c")
	await(`the cut is healed`)
	peers(1)
	press("?")
	await(`(?s)what columns and keys mean.*endorsed `)
	press("\x1b")
	press("l")
	await(`(?s)node1 up  .*run\.log.*JSON-RPC on`)
	press("qk") // and its log is shown again, of a node that is killed
	await(`node1 is killed`)
	press("l")
	await(`node1 killed  .*run\.log`)
	size(10, 3)
	press("\x1b[A\x1b[5~")
	for _, line := range strings.Split(await(`(?s)\x1b\[H.*\x1b\[J`), "\n") {
		if text := regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`).ReplaceAllString(line, ""); len(strings.TrimRight(text, "\r")) > 10 {
			t.Errorf("screen of ten columns: %q", text)
		}
	}
	size(200, 40)
	press("q" + strings.Repeat("s\x1b[A\x1b[Bpplq?qct", 200)) // faster than processes begin and end
	await(`height`)
	press("q")
	await(`told to end`)
	if err := cmd.Wait(); err != nil && !strings.Contains(err.Error(), "exit status 1") { // of a node that one of the keys has killed early
		t.Errorf("the command ended with %v: %q", err, out.take())
	}
	for _, n := range nodes {
		if peersOf(n.RPC.String()) >= 0 {
			t.Errorf("%s still runs", n.Name)
		}
		if _, err := os.Stat(filepath.Join(n.Dir, runLog)); err != nil {
			t.Error(err)
		}
	}
	_ = screen.Close()
	_ = terminal.Close()
}

// peersOf returns the number of peers of a node; -1: it does not answer.
func peersOf(addr string) int {
	r, err := http.Post("http://"+addr, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"network_info","params":[]}`))
	if err != nil {
		return -1
	}
	defer func() { _ = r.Body.Close() }()
	var reply struct {
		Result struct {
			Peers int `json:"num_active_peers"`
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&reply); err != nil {
		return -1
	}
	return reply.Result.Peers
}

// TestLocalnetNamesTakenPort: the ports are the same each time, and one that is taken is named with
// what to do, before anything is written or started.
func TestLocalnetNamesTakenPort(t *testing.T) {
	run := func(args ...string) (int, string) {
		var errs strings.Builder
		code := execute(args, strings.NewReader(""), io.Discard, &errs)
		return code, errs.String()
	}
	var dir string
	var base uint16
	const tries = 10
	for try := 1; ; try++ {
		free, err := home.Localnet(home.LocalnetOptions{Dir: t.TempDir(), Prefix: "node", Shards: 1, Validators: 1,
			TrackedShards: "all", Now: time.Now, Random: rand.Reader, Free: home.PortFree})
		if err != nil {
			t.Fatal(err)
		}
		base, dir = free.Nodes[0].Network.Port(), t.TempDir() // the next hundred ports are likely free, too
		var errs string
		code := exitOK
		for _, name := range []string{"a", "b"} {
			if code == exitOK {
				code, errs = run("--home", filepath.Join(dir, name), "localnet", "-v", "2", "--base-port", fmt.Sprint(base),
					"--host", "127.0.0.1")
			}
		}
		if code == exitOK {
			break
		}
		if !strings.Contains(errs, "is in use") {
			t.Fatal(errs)
		}
		if try == tries {
			t.Skipf("each of %d ranges of ports has one in use, the last from %d on; run the test on a machine with fewer listeners: %s",
				tries, base, errs)
		}
	}
	a, err := home.FindLocalnet(filepath.Join(dir, "a"), "node")
	if err != nil {
		t.Fatal(err)
	}
	b, err := home.FindLocalnet(filepath.Join(dir, "b"), "node")
	if err != nil || a[1].RPC != b[1].RPC || a[1].RPC.Port() != base+101 || a[1].Network.Port() != base+1 {
		t.Errorf("nodes %+v and %+v, %v", a, b, err)
	}
	l, err := net.Listen("tcp", a[1].RPC.String())
	if err != nil {
		t.Skipf("another program took port %d since it was found free; run the test again: %v", a[1].RPC.Port(), err)
	}
	defer func() { _ = l.Close() }()
	code, errs := run("--home", filepath.Join(dir, "c"), "localnet", "-v", "2", "--base-port", fmt.Sprint(base), "--host", "127.0.0.1")
	if _, err := os.Stat(filepath.Join(dir, "c")); code != exitFailure ||
		!strings.Contains(errs, fmt.Sprintf("127.0.0.1:%d, a port of node1, is in use", base+101)) ||
		!strings.Contains(errs, "--base-port") || err == nil {
		t.Errorf("localnet on a taken port: %d, %s, %v", code, errs, err)
	}
	code, errs = run("--home", filepath.Join(dir, "a"), "localnet", "run", "--plain")
	if code != exitFailure || !strings.Contains(errs,
		fmt.Sprintf("node1: rpc.addr: 127.0.0.1:%d is in use by PID %d ", base+101, os.Getpid())) {
		t.Errorf("localnet run on a taken port: %d, %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(a[0].Dir, runLog)); err == nil {
		t.Error("node0 was started")
	}
}
