package external

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Errors of this package, for errors.Is.
var (
	// ErrNoProgram means that the program troupe is found neither by TROUPE_BIN nor in PATH.
	ErrNoProgram = errors.New(
		"the program troupe was not found: build or install it, and add its folder to PATH or set TROUPE_BIN to its path",
	)
	// ErrEnded means that the process or the world has ended, or that the process does not answer
	// at its address.
	ErrEnded = errors.New("the chain has ended")
	// ErrNoKey means that the signing account does not exist or does not have the key.
	ErrNoKey = errors.New("the account does not have the key")
)

// Options configure a sandbox. The zero value suits most tests.
type Options struct {
	Program string    // path of troupe. Empty: $TROUPE_BIN, else troupe in PATH
	Shards  int       // number of shards; 0: one
	Fork    string    // chain to continue: URL[@HEIGHT|@HASH|@tx:HASH] of a node's JSON-RPC
	Log     io.Writer // receives the output of the process, with a line for each transaction; nil: discarded
}

// startLimit is the time limit for the start in New. stopLimit is the time that the process has to
// end before Close kills it. drainLimit is the time limit for output that arrives after the process
// has ended.
const (
	startLimit = time.Minute
	stopLimit  = 10 * time.Second
	drainLimit = 10 * time.Second
)

// Hooks let tests change the limits of a process. The zero value does nothing.
type Hooks struct {
	stopLimit time.Duration // replaces stopLimit; 0: not replaced
}

// hooks are set by tests of this package, which do not run in parallel.
var hooks Hooks

// maxLines is the maximum number of the process's output lines that are kept.
const maxLines = 50

// Sandbox is a process with a chain and the worlds that continue from that chain. The chain itself
// is a World too.
type Sandbox struct {
	*World
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{} // closed when the process has ended
	once  sync.Once
	err   error // result of Close

	mu    sync.Mutex
	lines []string
}

// TB is the part of testing.TB that New and ForTest use.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// New starts a sandbox for a test, or ends the test. The sandbox is closed after the test and all
// its subtests. At most one Options is allowed.
func New(t TB, options ...Options) *Sandbox {
	t.Helper()
	var o Options
	switch len(options) {
	case 0:
	case 1:
		o = options[0]
	default:
		t.Fatalf("external.New: %d Options, at most one is allowed", len(options))
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	s, err := Start(ctx, o)
	if err != nil {
		t.Fatalf("start a sandbox: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the sandbox: %v", err)
		}
	})
	return s
}

// program returns the path of troupe.
func program(o *Options) (string, error) {
	for _, path := range []string{o.Program, os.Getenv("TROUPE_BIN")} {
		if path == "" {
			continue
		}
		if path, err := exec.LookPath(path); err == nil {
			return path, nil
		}
		return "", fmt.Errorf("sandbox: %s is not an executable file: %w", path, ErrNoProgram)
	}
	path, err := exec.LookPath("troupe")
	if err != nil {
		return "", fmt.Errorf("sandbox: %w", ErrNoProgram)
	}
	return path, nil
}

// Start starts the process with a new chain on a free port of 127.0.0.1. ctx limits the start, not
// the sandbox. The process ends when Close is called. The started process also ends when the
// calling process ends, even by a crash or SIGKILL.
func Start(ctx context.Context, o Options) (*Sandbox, error) {
	path, err := program(&o)
	if err != nil {
		return nil, err
	}
	args := []string{"dev", "--exit-with-stdin", "--rpc-addr", "127.0.0.1:0", "--accounts", "0"}
	if o.Shards != 0 {
		args = append(args, "--shards", strconv.Itoa(o.Shards))
	}
	if o.Fork != "" {
		args = append(args, "--fork", o.Fork)
	}
	if o.Log == nil {
		args = append(args, "--log-transactions=failed")
		o.Log = io.Discard
	}
	s := &Sandbox{cmd: exec.Command(path, args...), ended: make(chan struct{})}
	s.cmd.SysProcAttr = ownGroup() // so that Ctrl-C lets the tests finish first
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	s.stdin = stdin
	out, in := io.Pipe()
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.WaitDelay = in, in, drainLimit
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("sandbox: start %s: %w", path, err)
	}
	url := make(chan string, 1)
	drained := make(chan struct{})
	go func() {
		s.read(out, o.Log, url)
		close(drained)
	}()
	go func() {
		_ = s.cmd.Wait() // the result of Wait is in ProcessState
		_ = in.Close()
		<-drained
		close(s.ended)
	}()
	select {
	case at := <-url:
		s.World = newWorld(at, s)
	case <-s.ended:
		return nil, fmt.Errorf("sandbox: %s has not started: %w", path, s.end())
	case <-ctx.Done():
		_ = s.Close() // the reported reason is ctx
		return nil, fmt.Errorf("sandbox: %s has not started in time: %w%s", path, context.Cause(ctx), s.text())
	}
	if err := s.RPC(ctx, "sandbox_set_production", map[string]any{"quiet": true}, nil); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// maxLine is the maximum length in bytes of a line that is kept.
const maxLine = 1 << 16

// read reads the output of the process, and reports the URL of its JSON-RPC.
func (s *Sandbox) read(out io.Reader, log io.Writer, url chan<- string) {
	r := bufio.NewReaderSize(out, maxLine)
	for {
		line, err := r.ReadSlice('\n') // a longer line comes in pieces
		_, _ = log.Write(line)         // errors of the caller's log are ignored
		text := strings.TrimRight(string(line), "\n")
		if at, ok := strings.CutPrefix(text, "JSON-RPC  "); ok {
			select {
			case url <- at:
			default:
			}
		}
		if text != "" {
			s.mu.Lock()
			s.lines = append(s.lines, text)
			if len(s.lines) > maxLines {
				s.lines = slices.Delete(s.lines, 0, 1)
			}
			s.mu.Unlock()
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// text returns the last output lines of the process, for errors.
func (s *Sandbox) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lines) == 0 {
		return ""
	}
	text := "; it has printed:"
	for _, line := range s.lines {
		text += "\n  " + printable(line, maxText)
	}
	return text
}

// end returns how the process has ended, with the last lines that the process has printed.
func (s *Sandbox) end() error { return fmt.Errorf("%w: %v%s", ErrEnded, s.cmd.ProcessState, s.text()) }

// Close ends the process, which removes its chain. Further calls return the same result.
func (s *Sandbox) Close() error {
	s.once.Do(func() {
		limit := cmp.Or(hooks.stopLimit, stopLimit)
		_ = s.stdin.Close() // fails if the process has ended already
		select {
		case <-s.ended:
		case <-time.After(limit):
			killGroup(s.cmd.Process)
			<-s.ended
			s.err = fmt.Errorf("sandbox: the process did not end within %v and was killed%s", limit, s.text())
			return
		}
		if !s.cmd.ProcessState.Success() {
			s.err = fmt.Errorf("sandbox: %w", s.end())
		}
	})
	return s.err
}
