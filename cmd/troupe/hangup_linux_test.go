package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hangupHome names the home of the process that TestNodeEndsWithItsTerminal starts.
const hangupHome = "TROUPE_HANGUP_HOME"

// TestHangupChild is the process that TestNodeEndsWithItsTerminal starts. It is skipped in a normal
// run.
func TestHangupChild(t *testing.T) {
	home := os.Getenv(hangupHome)
	if home == "" {
		t.Skip("only as a child of TestNodeEndsWithItsTerminal")
	}
	root := newRoot(new(app))
	root.SetArgs([]string{"--home", home, "run", "--rpc-addr", "127.0.0.1:0"})
	root.SetOut(io.Discard)
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	if err := root.ExecuteContext(ctx); err != nil {
		t.Fatal(err)
	}
}

// openPTY returns both ends of a new terminal.
func openPTY(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	return screen, terminal
}

// TestNodeEndsWithItsTerminal: a node started from a terminal ends when the terminal is closed.
// SIGHUP while the terminal is open, or without a terminal, makes the node read its files again.
func TestNodeEndsWithItsTerminal(t *testing.T) {
	for _, has := range []bool{true, false} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestHangupChild$")
		cmd.Env = append(os.Environ(), hangupHome+"="+newHome(t, ""))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		screen, terminal := openPTY(t)
		if has {
			cmd.Stdin, cmd.SysProcAttr.Setctty = terminal, true
		}
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		_ = terminal.Close()
		lines, said := bufio.NewScanner(out), ""
		until := func(word string) {
			t.Helper()
			for lines.Scan() {
				said += lines.Text() + "\n"
				if strings.Contains(lines.Text(), word) {
					return
				}
			}
			t.Fatalf("terminal %v: no %q in\n%s", has, word, said)
		}
		until("JSON-RPC on")
		hangUp := func() {
			t.Helper()
			if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			until("reload: config.json has not changed")
		}
		hangUp()
		if err := screen.Close(); err != nil {
			t.Fatal(err)
		}
		if !has {
			hangUp()
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		until("stopping")
		for lines.Scan() {
			said += lines.Text() + "\n"
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("terminal %v: %v\n%s", has, err, said)
		}
		kill.Stop()
	}
}

// TestFailedStartLeavesNoRecording: a start that fails leaves no recording, so that the next one
// may use its name; a recording that is there is kept.
func TestFailedStartLeavesNoRecording(t *testing.T) {
	dir := newHome(t, "")
	path := dir + "/frames.jsonl.gz"
	root := newRoot(new(app))
	// not an address of this machine
	root.SetArgs([]string{"--home", dir, "run", "--rpc-addr", "203.0.113.1:1", "--capture", path})
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	if err := root.ExecuteContext(t.Context()); err == nil {
		t.Fatal("it runs on an address that is not here")
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("a recording is left: %v", err)
	}
	if err := os.WriteFile(path, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "choose another name") {
		t.Errorf("an existing recording: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "kept" {
		t.Errorf("it is %q, %v", b, err)
	}
}

// TestFollowerWithoutHomeNeedsGenesis: the error for a node that is to follow a chain without a
// home folder says that it needs the chain's genesis.
func TestFollowerWithoutHomeNeedsGenesis(t *testing.T) {
	for _, args := range [][]string{{"--follow", "rpc:http://127.0.0.1:1"}, {"--replica", "nats://127.0.0.1:1"}} {
		root := newRoot(new(app))
		root.SetArgs(append([]string{"--home", t.TempDir() + "/none", "run"}, args...))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "init --genesis") {
			t.Errorf("%v: error %v", args, err)
		}
	}
}
