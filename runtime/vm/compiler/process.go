package compiler

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Command starts a child.
type Command struct {
	Path string   // file name of the binary; empty: no children
	Args []string // arguments, without the program's name
	Env  []string // environment variables in addition to those of this process
}

// process is the parent's side of a child. Not safe for concurrent use.
type process struct {
	cmd      *exec.Cmd
	requests *os.File
	replies  *os.File
	in       *bufio.Reader
	said     head
	dead     chan struct{} // closed when the child has ended
	used     bool          // the child has replied to a request
	low      bool          // a background child: its priority is low, and the child cannot raise it again
	idle     *time.Timer   // ends the child when it fires; nil: the child is compiling

	mu  sync.Mutex
	why error // argument of the first call of kill; nil: kill was not called
}

// helloWait bounds the time that a child may take to start.
const helloWait = 30 * time.Second

// GiveBack is an environment setting for the child. GiveBack makes the C library return large
// blocks to the system at once instead of caching these blocks. GiveBack saves a quarter of the
// memory for a module that is hard to compile.
const GiveBack = "MALLOC_MMAP_THRESHOLD_=131072"

// start starts a child. The caller must call start on a thread that outlives the child.
func start(c Command) (*process, error) {
	requestsEnd, requests, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = requestsEnd.Close() }()
	replies, repliesEnd, err := os.Pipe()
	if err != nil {
		_ = requests.Close()
		return nil, err
	}
	defer func() { _ = repliesEnd.Close() }()
	p := &process{
		cmd: exec.Command(
			c.Path,
			c.Args...), requests: requests, replies: replies, in: bufio.NewReaderSize(replies, 64<<10), dead: make(chan struct{}),
	}
	p.cmd.Env = append(append(os.Environ(), "GOTRACEBACK=none", GiveBack), c.Env...)
	p.cmd.ExtraFiles = []*os.File{requestsEnd, repliesEnd}
	p.cmd.Stderr = &p.said
	p.cmd.SysProcAttr = attributes()
	if err := p.cmd.Start(); err != nil {
		_ = requests.Close()
		_ = replies.Close()
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.dead)
	}()
	return p, nil
}

// greet waits for the child's first reply.
func (p *process) greet(version string) error {
	_ = p.replies.SetReadDeadline(time.Now().Add(helloWait))
	r, err := ReadReply(p.in, 4096)
	if err != nil {
		return p.failed(err)
	}
	if r.Kind != Hello || string(r.Body) != version {
		return fmt.Errorf("the compiler process makes artifacts of version %q, want %q", r.Body, version)
	}
	return nil
}

func (p *process) alive() bool {
	select {
	case <-p.dead:
		return false
	default:
		return true
	}
}

// kill ends the child immediately. The child's current request fails with the given error.
func (p *process) kill(why error) {
	p.mu.Lock()
	if p.why == nil {
		p.why = why
	}
	p.mu.Unlock()
	_ = p.cmd.Process.Kill()
}

// killed returns whether this process has ended the child.
func (p *process) killed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why != nil
}

// end kills the child and waits until the child has ended. The caller must call end once.
func (p *process) end() {
	p.kill(ErrClosed)
	<-p.dead
	_ = p.requests.Close()
	_ = p.replies.Close()
}

// failure is the reason why a child did not return an artifact.
type failure struct {
	kind   failureKind
	reason string
}

type failureKind uint8

const (
	crashed       failureKind = iota
	limited                   // the child reached its limits
	refused                   // the code generator returned an error
	killedByOther             // another process killed the child
	starved                   // the system or a limit of the system refused memory or threads to the child
	badFile                   // the artifact's file is not what the child reported
	kinds
)

func (f *failure) Error() string { return f.reason }

// progress is the least processor time between two replies that counts as progress. Sending Alive
// takes processor time too.
const progress = 100 * time.Millisecond

// stallLimit returns how long a child may make no progress in processor time while it sends Alive.
// A background child has a longer limit, because a background child may get no processor for long,
// and no block waits for it.
func stallLimit(r *Request, hang time.Duration) time.Duration {
	if r.Background {
		return 10 * hang
	}
	return hang
}

// do makes the child compile a module. After an error, p must not be used again. An error that is
// not a *failure does not count against the code.
func (p *process) do(r *Request, cancel <-chan struct{}, hang time.Duration) (*Reply, error) {
	ended, watched := make(chan struct{}), make(chan struct{})
	defer func() { close(ended); <-watched }() // a cancel after this point must not kill the next request
	go func() {
		defer close(watched)
		select {
		case <-cancel:
			p.kill(ErrCancelled)
		case <-ended:
		}
	}()
	_ = p.requests.SetWriteDeadline(time.Now().Add(hang))
	for _, part := range [][]byte{appendRequestHead(nil, r), r.Wasm} {
		if _, err := p.requests.Write(part); err != nil {
			return nil, p.failed(err)
		}
	}
	// last is the child's processor time when it last changed. moved is the time of that change.
	last, moved := time.Duration(0), time.Now()
	for {
		_ = p.replies.SetReadDeadline(time.Now().Add(hang))
		reply, err := ReadReply(p.in, r.Limits.Output)
		var long *tooLongError
		switch {
		case errors.As(err, &long):
			p.kill(&failure{limited, fmt.Sprintf("an artifact of %d bytes, at most %d are possible", long.n, long.most)})
			return nil, p.failed(err)
		case err != nil:
			return nil, p.failed(err)
		}
		switch reply.Kind {
		case Done:
			if reply.InFile {
				if err := p.accept(r, reply.written()); err != nil {
					return nil, err
				}
			}
			p.used = true
			return reply, nil
		case Refused:
			kind := refused
			if isShortage(string(reply.Body)) {
				kind = starved
			}
			return nil, &failure{kind, string(reply.Body)}
		case Alive:
			if reply.CPU >= last+progress {
				last, moved = reply.CPU, time.Now()
			}
			if reply.CPU > r.Limits.CPU+r.Limits.CPU/4+time.Second {
				p.kill(&failure{limited, fmt.Sprintf("%v of processor time", reply.CPU)})
			} else if time.Since(moved) > stallLimit(r, hang) {
				p.kill(&failure{crashed, "it stood still"})
			}
		default:
			p.kill(&failure{crashed, "an answer that was not asked for"})
		}
	}
}

// accept checks an artifact that is in a file.
func (p *process) accept(r *Request, w Written) error {
	if w.Size > r.Limits.Output {
		return &failure{limited, (&tooLongError{w.Size, r.Limits.Output}).Error()}
	}
	if r.File == "" {
		return &failure{crashed, "an artifact in a file that was not asked for"}
	}
	if err := checkFile(r.File, w); err != nil {
		return &failure{badFile, err.Error()}
	}
	return nil
}

// failed returns the reason why the child sends no reply. err is the error of reading or writing.
func (p *process) failed(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		p.kill(&failure{crashed, "it stood still"})
	} else if errors.Is(err, ErrFrame) && p.alive() {
		// The read usually fails because the process has ended. Otherwise the child is not a
		// compiler.
		select {
		case <-p.dead:
		case <-time.After(time.Second):
			p.kill(&failure{crashed, err.Error()})
		}
	} else if p.alive() {
		select {
		case <-p.dead:
		case <-time.After(time.Second):
			p.kill(&failure{crashed, "it does not listen"})
		}
	}
	<-p.dead
	p.mu.Lock()
	why := p.why
	p.mu.Unlock()
	if why != nil {
		return why
	}
	state := p.cmd.ProcessState
	f := &failure{crashed, state.String()}
	if said := p.said.String(); said != "" {
		f.reason += ": " + said
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	switch {
	case status.Exited() && status.ExitStatus() == exitCPU:
		f.kind = limited
	case isShortage(f.reason):
		f.kind = starved
	case status.Signaled():
		switch status.Signal() {
		case syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT:
			f.kind = killedByOther
		}
	}
	return f
}

// isShortage returns whether s is an error text about a lack of memory, threads or files, from the
// library, Go or the system.
func isShortage(s string) bool {
	s = strings.ToLower(s)
	for _, sign := range []string{"memory allocation of", "out of memory", "cannot allocate memory", "failed to allocate",
		"cannot map", "os error 12",
		"failed to create new os thread", "resource temporarily unavailable", "too many open files"} {
		if strings.Contains(s, sign) {
			return true
		}
	}
	return false
}

// head keeps the first bytes that are written to it. head discards the remaining bytes, which are
// stack traces.
type head struct {
	mu sync.Mutex
	b  []byte
}

const headMost = 512

func (h *head) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.b = append(h.b, b[:min(len(b), headMost-len(h.b))]...)
	return len(b), nil
}

// String returns the text before stacks and registers, in one line.
func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var said []string
	for line := range strings.Lines(string(h.b)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "PC=") || strings.HasPrefix(line, "goroutine ") ||
			strings.HasPrefix(line, "runtime stack:") {
			break
		} else if line != "" {
			said = append(said, line)
		}
	}
	return strings.Join(said, "; ")
}
