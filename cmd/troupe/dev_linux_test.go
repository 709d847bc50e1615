package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/fork"
	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
)

// devProcess is a `troupe dev` in a process of its own, with a folder for its temporary homes.
type devProcess struct {
	t       *testing.T
	cmd     *exec.Cmd
	temp    string
	pipe    io.Closer // of stdout
	out     *bufio.Scanner
	text    string // of stdout, so far
	stderr  strings.Builder
	expires *time.Timer
}

// startDev starts it. attr may be nil.
func startDev(t *testing.T, temp string, in io.Reader, attr *syscall.SysProcAttr, args ...string) *devProcess {
	t.Helper()
	p := &devProcess{t: t, temp: temp, cmd: exec.Command(os.Args[0], append([]string{"dev"}, args...)...)}
	p.cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+temp)
	p.cmd.Stdin, p.cmd.Stderr, p.cmd.SysProcAttr = in, &p.stderr, attr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.pipe, p.out = out, bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.expires = time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// until reads stdout up to a line that contains a word.
func (p *devProcess) until(word string) {
	p.t.Helper()
	for p.out.Scan() {
		p.text += p.out.Text() + "\n"
		if strings.Contains(p.out.Text(), word) {
			return
		}
	}
	_ = p.cmd.Wait()
	p.t.Fatalf("no %q in\n%s%s", word, p.text, p.stderr.String())
}

// end reads the rest of stdout and waits for the process.
func (p *devProcess) end() error {
	for p.out.Scan() {
		p.text += p.out.Text() + "\n"
	}
	p.expires.Stop()
	return p.cmd.Wait()
}

func (p *devProcess) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// homes returns the homes in the temporary folder.
func (p *devProcess) homes() []string {
	list, err := filepath.Glob(filepath.Join(p.temp, devPrefix+"*"))
	if err != nil {
		p.t.Fatal(err)
	}
	return list
}

// url returns the URL that it printed.
func (p *devProcess) url() string {
	p.t.Helper()
	m := regexp.MustCompile(`JSON-RPC  (http://127\.0\.0\.1:\d+)\n`).FindStringSubmatch(p.text)
	if m == nil {
		p.t.Fatalf("no URL in\n%s", p.text)
	}
	return m[1]
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestDevAccountsAndSuggestionsWork: the printed accounts have their balance, the client commands
// find their keys, the suggested commands work, and a hostile contract cannot write control
// characters to the terminal. SIGHUP ends the command, which removes its folder.
func TestDevAccountsAndSuggestionsWork(t *testing.T) {
	p := startDev(t, t.TempDir(), nil, nil, "--accounts", "3", "--balance", "1234.5", "--port", portOf(t, testutil.Addr(t)))
	p.until("Transactions:")
	if strings.Count(p.text, "\n  dev") != 3 || !strings.Contains(p.text,
		"dev2.near  "+primitives.TestKey("dev2.near").String()) || !strings.Contains(p.text, p.url()+"/console") {
		t.Errorf("output\n%s", p.text)
	}
	if len(p.homes()) != 1 {
		t.Errorf("its homes are %v", p.homes())
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	client := func(want string, args ...string) {
		t.Helper()
		if got := runLine(append([]string{"--home", home}, args...)); !strings.Contains(got, want) {
			t.Errorf("%v prints\n%s, want %q", args, got, want)
		}
	}
	client("balance  1234.5 NEAR", "account", "dev2.near", "--url", p.url())
	var tried int
	for line := range strings.Lines(p.text) { // the suggested commands up to the contract
		if words := strings.Fields(line); len(words) > 1 && words[0] == "troupe" && words[1] != "deploy" && words[1] != "call" {
			client("  ok  ", words[1:]...)
			tried++
		}
	}
	if tried != 2 {
		t.Errorf("%d suggestions", tried)
	}
	wasm := filepath.Join(home, "probe.wasm")
	if err := os.WriteFile(wasm, contracts.Probe(), 0o600); err != nil {
		t.Fatal(err)
	}
	client("  ok  ", "deploy", "app.dev0.near", wasm, "--url", p.url())
	var hostile contracts.Program
	hostile.Call("log_utf8", "\x1b]0;title\x07\x1b[2J\r#1 dev0.near -> you  ok\u202e")
	hostile.Call("panic_utf8", "\x1b[31mpanic\nline two")
	client("failed", "call", "app.dev0.near", "run", base64.StdEncoding.EncodeToString(hostile.Bytes()), "--base64", "--as", "dev1.near", "--url", p.url())
	client("failed", "send", "nobody.near", "1", "--as", "dev1.near", "--url", p.url())
	p.until("-> nobody.near")
	p.signal(syscall.SIGHUP)
	if err := p.end(); err != nil {
		t.Errorf("SIGHUP: %v\n%s", err, p.stderr.String())
	}
	if left := p.homes(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	for _, want := range []string{
		" dev0.near -> dev1.near  Transfer 2.5 NEAR  ok  ",
		" dev0.near -> app.dev0.near  CreateAccount, Transfer 100 NEAR, AddKey  ok  ",
		" app.dev0.near -> app.dev0.near  DeployContract of ",
		`  failed: Smart contract panicked: \x1b[31mpanic\nline two  `,
		"\n" + `    app.dev0.near: \x1b]0;title\x07\x1b[2J\x0d#1 dev0.near -> you  ok\u202e` + "\n",
		" dev1.near -> nobody.near  Transfer 1 NEAR  failed: AccountDoesNotExist",
	} {
		if !strings.Contains(p.text, want) {
			t.Errorf("no %q in\n%s", want, p.text)
		}
	}
	if strings.ContainsAny(p.text, "\x1b\x07\r\u202e") {
		t.Errorf("control characters in %q", p.text)
	}
}

// TestDevRemovesHomeOfKilledProcess: the next start removes the home of a killed process, and no
// other.
func TestDevRemovesHomeOfKilledProcess(t *testing.T) {
	temp := t.TempDir()
	running := startDev(t, temp, nil, nil, "--port", portOf(t, testutil.Addr(t)))
	running.until("Transactions:")
	killed := startDev(t, temp, nil, nil, "--port", portOf(t, testutil.Addr(t)))
	killed.until("Transactions:")
	killed.signal(syscall.SIGKILL)
	if err := killed.end(); err == nil {
		t.Error("a killed process ends without an error")
	}
	var kept []string
	for i, name := range []string{devPrefix + "x-1", devPrefix, fmt.Sprint(devPrefix, os.Getpid(), "-1"), "other"} {
		kept = append(kept, filepath.Join(temp, name))
		if err := os.Mkdir(kept[i], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(running.homes()); n != 5 {
		t.Fatalf("%d homes: %v", n, running.homes())
	}
	next := startDev(t, temp, nil, nil, "--port", portOf(t, testutil.Addr(t)))
	next.until("Transactions:")
	for end := time.Now().Add(time.Minute); len(next.homes()) != 5 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	var old bool
	for _, dir := range next.homes() {
		old = old || strings.HasPrefix(filepath.Base(dir), fmt.Sprint(devPrefix, killed.cmd.Process.Pid, "-"))
	}
	if n := len(next.homes()); n != 5 || old { // running, next, and the three that look like homes
		t.Errorf("%d homes: %v", n, next.homes())
	}
	for _, p := range []*devProcess{running, next} {
		p.signal(syscall.SIGINT)
		if err := p.end(); err != nil {
			t.Errorf("SIGINT: %v\n%s", err, p.stderr.String())
		}
	}
	for _, dir := range kept {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	if n := len(next.homes()); n != 3 {
		t.Errorf("%d homes are left: %v", n, next.homes())
	}
}

// TestDevEndsWithItsTerminal: the command ends when its terminal is closed, and removes its folder.
func TestDevEndsWithItsTerminal(t *testing.T) {
	screen, terminal := openPTY(t)
	p := startDev(t, t.TempDir(), terminal, &syscall.SysProcAttr{Setsid: true, Setctty: true}, "--port", portOf(t, testutil.Addr(t)))
	_ = terminal.Close()
	p.until("Transactions:")
	if err := screen.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.end(); err != nil {
		t.Errorf("error %v\nstderr:\n%s", err, p.stderr.String())
	}
	if left := p.homes(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestDevEndsIfStdoutIsClosed: the command ends at the first line that cannot be written, as in
// `troupe dev | head`, and removes its folder.
func TestDevEndsIfStdoutIsClosed(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	p := startDev(t, t.TempDir(), nil, nil, "--port", portOf(t, testutil.Addr(t)))
	p.until("Transactions:")
	if err := p.pipe.Close(); err != nil {
		t.Fatal(err)
	}
	runLine([]string{"--home", user, "send", "dev1.near", "1", "--as", "dev0.near", "--url", p.url(), "--wait", "NONE"})
	if err := p.end(); err != nil {
		t.Errorf("error %v\nstderr:\n%s", err, p.stderr.String())
	}
	if left := p.homes(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// startDevInto starts `troupe dev` whose stdout and stderr are one pipe of 4 KB, and returns the
// other end once the chain runs.
func startDevInto(t *testing.T, temp string, args ...string) (cmd *exec.Cmd, reader *os.File, url string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, w.Fd(), syscall.F_SETPIPE_SZ, 4096); errno != 0 {
		t.Fatal(errno)
	}
	cmd = exec.Command(os.Args[0], append([]string{"dev", "--port", "0"}, args...)...)
	cmd.Env = append(os.Environ(), asCommand+"=1", "TMPDIR="+temp)
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	expires := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() {
		expires.Stop()
		_ = cmd.Process.Kill()
	})
	_ = w.Close()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if after, ok := strings.CutPrefix(lines.Text(), "JSON-RPC  "); ok {
			url = after
		}
		if strings.HasSuffix(lines.Text(), "Transactions:") {
			return cmd, r, url
		}
	}
	t.Fatal("it does not start")
	return
}

// TestStalledOutputDelaysNoTransaction: a reader of stdout and stderr that takes nothing delays no
// transaction and not the end.
func TestStalledOutputDelaysNoTransaction(t *testing.T) {
	user, temp := t.TempDir(), t.TempDir()
	t.Setenv("HOME", user)
	cmd, _, url := startDevInto(t, temp, "--verbose")
	for range 30 { // each writes a line of some 120 bytes, and the log more
		if got := runLine([]string{"--home", user, "send", "dev1.near", "1", "--as", "dev0.near", "--url",
			url}); !strings.Contains(got, "  ok  ") {
			t.Fatal(got)
		}
	}
	if got := runLine([]string{"--home", user, "account", "dev1.near", "--url", url}); !strings.Contains(got, "balance  10030 NEAR") {
		t.Error(got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(temp, devPrefix+"*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestDevEndsCleanlyIfOutputsAreClosed: it ends cleanly when stdout and stderr are closed, as in
// `troupe dev |& head`.
func TestDevEndsCleanlyIfOutputsAreClosed(t *testing.T) {
	user, temp := t.TempDir(), t.TempDir()
	t.Setenv("HOME", user)
	cmd, r, url := startDevInto(t, temp, "--verbose")
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	runLine([]string{"--home", user, "send", "dev1.near", "1", "--as", "dev0.near", "--url", url, "--wait", "NONE"})
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(temp, devPrefix+"*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestDevAccountsAreSpreadOverShards: each shard has as many of them as any other, or one less.
func TestDevAccountsAreSpreadOverShards(t *testing.T) {
	for _, c := range []struct{ accounts, shards int }{{10, 1}, {10, 2}, {10, 4}, {12, 12}, {100, 7}} {
		o := devFlags{accounts: c.accounts, shards: c.shards}
		hm, err := o.makeChain(t.Context(), t.TempDir(), fork.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		of := map[primitives.ShardID]int{}
		for _, id := range devNames(c.accounts) {
			of[hm.Genesis.ShardLayout.ShardOf(id)]++
		}
		least, most := c.accounts, 0
		for _, n := range of {
			least, most = min(least, n), max(most, n)
		}
		if len(of) != c.shards || most-least > 1 {
			t.Errorf("%d accounts, %d shards: %v", c.accounts, c.shards, of)
		}
	}
	if b := devBoundaries(3, 4); b != nil {
		t.Errorf("more shards than accounts: %v", b)
	}
}

// TestDevUsesNextFreePort: without a flag the next free port is used and named; a port of a flag is
// not replaced, and a start that fails leaves nothing.
func TestDevUsesNextFreePort(t *testing.T) {
	if l, err := net.Listen("tcp", devAddr(devPort)); err == nil { // otherwise another process has the port
		defer func() { _ = l.Close() }()
	}
	p := startDev(t, t.TempDir(), nil, nil)
	p.until("Transactions:")
	port := strings.TrimPrefix(p.url(), "http://127.0.0.1:")
	if port == "3030" || !strings.Contains(p.text, "Port 3030 is in use; this chain has port "+port+".\n") || strings.Count(p.text, " --url "+p.url()+"\n") != 4 {
		t.Errorf("output\n%s", p.text)
	}
	for _, args := range [][]string{{"--port", port}, {"--rpc-addr", devAddr(devPort)}} {
		q := startDev(t, p.temp, nil, nil, args...)
		if err := q.end(); err == nil || !strings.Contains(q.stderr.String(), "is in use") || q.text != "" {
			t.Errorf("%v: %v, stdout %q, stderr %q", args, err, q.text, q.stderr.String())
		}
	}
	if n := len(p.homes()); n != 1 {
		t.Errorf("%d homes: %v", n, p.homes())
	}
	p.signal(syscall.SIGTERM)
	if err := p.end(); err != nil {
		t.Error(err)
	}
}

// TestInvalidDevFlagsCreateNothing: wrong flags end with exit code 2 and create nothing.
func TestInvalidDevFlagsCreateNothing(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for _, c := range []struct{ args, want string }{
		{"--home " + temp + "/h dev", "--home is for"},
		{"dev --accounts -1", "--accounts is -1"},
		{"dev --accounts 101", "--accounts is 101"},
		{"dev --balance x", "--balance is"},
		{"dev --shards 0", "--shards is 0"},
		{"dev --shards 2 --fork http://127.0.0.1:1", "exclude each other"},
		{"dev --fork ftp://x", "--fork: "},
		{"dev --port 4000 --rpc-addr 127.0.0.1:1", "exclude each other"},
		{"dev --rpc-addr nowhere", "--rpc-addr is"},
		{"dev --log-transactions=some", "must be all or failed"},
		{"dev --log-accounts A", "--log-accounts"},
		{"run --log-transactions=some", "must be all or failed"},
	} {
		if got := runLine(strings.Fields(c.args)); !strings.Contains(got, c.want) || !strings.HasSuffix(got, "exit 2\n") {
			t.Errorf("%s: got %s", c.args, got)
		}
	}
	if list, err := os.ReadDir(temp); err != nil || len(list) != 0 {
		t.Errorf("created: %v, %v", list, err)
	}
}

// TestDevForkKeepsKeysAndNonces: a fork keeps the keys and nonces of accounts that it has, and
// gives them the balance; blocks that sandbox_revert removes are reported.
func TestDevForkKeepsKeysAndNonces(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	client := func(want string, args ...string) {
		t.Helper()
		if got := runLine(append([]string{"--home", home}, args...)); !strings.Contains(got, want) {
			t.Errorf("%v prints\n%s, want %q", args, got, want)
		}
	}
	p := startDev(t, t.TempDir(), nil, nil, "--accounts", "2", "--port", portOf(t, testutil.Addr(t)))
	p.until("Transactions:")
	send := func(url, amount string) {
		t.Helper()
		client("  ok  ", "send", "dev1.near", amount, "--as", "dev0.near", "--url", url, "--wait", "FINAL")
	}
	send(p.url(), "11")
	p.until("Transfer 11 NEAR  ok")
	client(`"id": "here"`, "rpc", "sandbox_snapshot", `{"name": "here"}`, "--url", p.url())
	send(p.url(), "12")
	client(`"height"`, "rpc", "sandbox_revert", `{"id": "here"}`, "--url", p.url())
	send(p.url(), "13")
	p.until("reverted: block")
	if !strings.Contains(p.text, "Transfer 12 NEAR  ok") || !strings.HasSuffix(p.text, " no longer in the chain, with 1 transaction\n") {
		t.Errorf("output\n%s", p.text)
	}
	p.until("Transfer 13 NEAR  ok")

	q := startDev(t, p.temp, nil, nil, "--accounts", "3", "--balance", "77", "--fork", p.url(), "--port", portOf(t, testutil.Addr(t)))
	q.until("Transactions:")
	client("nonce 2  FullAccess", "account", "dev0.near", "--url", q.url()) // 12 was reverted
	for _, id := range []string{"dev0.near", "dev2.near"} {
		client("balance  77 NEAR\nstorage  182 bytes", "account", id, "--url", q.url())
	}
	send(q.url(), "14")
	q.until("Transfer 14 NEAR  ok")
	for _, d := range []*devProcess{q, p} {
		d.signal(syscall.SIGINT)
		if err := d.end(); err != nil {
			t.Errorf("error %v\nstderr:\n%s", err, d.stderr.String())
		}
	}
}
