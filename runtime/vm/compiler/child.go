package compiler

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// How a child ends that is not killed and does not crash.
const (
	exitOK    = 0
	exitFrame = 70 // its parent said something it does not understand, or can't be written to
	exitCPU   = 71 // it came to the limit of processor time
)

// beat is how often a child that compiles says so, and looks at the processor time it has used.
const beat = 500 * time.Millisecond

// grown is how much memory more than at the start makes a child end after a compilation, so that
// the system has it back.
const grown = 32 << 20

// Main is what a child process does until its parent closes the pipe or dies: it compiles. version
// names all that an artifact depends on besides the module. The result is the process's exit code.
func Main(version string, compile func(*Request) ([]byte, error)) int {
	in, out := os.NewFile(3, "requests"), os.NewFile(4, "replies")
	if in == nil || out == nil {
		return exitFrame
	}
	prepareChild()
	c := &childMain{out: out, compile: compile, base: dataSize()}
	if c.write(&Reply{Kind: Hello, Body: []byte(version)}) != nil {
		return exitFrame
	}
	over := make(chan os.Signal, 1)
	signal.Notify(over, syscall.SIGXCPU) // which Go ignores otherwise
	go func() {
		<-over
		os.Exit(exitCPU)
	}()
	requests := make(chan *Request)
	go func() {
		for {
			r, err := ReadRequest(in)
			if errors.Is(err, io.EOF) {
				os.Exit(exitOK) // also from the middle of a compilation: nobody waits for it
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(exitFrame)
			}
			requests <- r
		}
	}()
	for r := range requests {
		if err := c.answer(r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return exitFrame
		}
	}
	return exitOK
}

type childMain struct {
	compile func(*Request) ([]byte, error)
	base    int64 // bytes of writable memory at the start; 0: the system does not say
	low     bool  // it has a low priority, which can't be taken back

	mu  sync.Mutex
	out io.Writer
}

func (c *childMain) write(r *Reply) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.out.Write(appendReplyHead(nil, r)); err != nil {
		return err
	}
	_, err := c.out.Write(r.Body)
	return err
}

// backgroundNice is the priority of the background, the lowest: a hundredth of what others get
// which want the same core.
const backgroundNice = 19

// answer compiles on a thread of its own, which ends with it, and gives back what the library keeps
// for a thread.
func (c *childMain) answer(r *Request) error {
	if r.Background && !c.low {
		c.low = true
		lower()
	}
	start := processorTime()
	limitMemory(c.base, r.Limits.Memory)
	limitProcessor(r.Limits.CPU)
	limitFiles(r.Limits.Output)
	type result struct {
		code []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		code, err := c.compile(r)
		done <- result{code, err}
	}()
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			used := processorTime() - start
			if used > r.Limits.CPU {
				fmt.Fprintf(os.Stderr, "%v of processor time\n", used)
				os.Exit(exitCPU)
			}
			if err := c.write(&Reply{Kind: Alive, CPU: used}); err != nil {
				return err
			}
		case got := <-done:
			reply := &Reply{Kind: Done, CPU: processorTime() - start, Body: got.code}
			// else the parent says what is wrong
			if got.err == nil && r.File != "" && int64(len(got.code)) <= r.Limits.Output {
				if w, err := writeFile(r.File, got.code); err == nil { // else it goes through the pipe
					reply.InFile, reply.Body = true, w.append(nil)
				}
			}
			if got.err != nil {
				reply.Kind, reply.Body = Refused, []byte(got.err.Error())
			}
			reply.Retire = c.base > 0 && dataSize()-c.base > grown
			return c.write(reply)
		}
	}
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// limitFiles limits what a file may have that this process writes.
func limitFiles(most int64) {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l) == nil {
		l.Cur = min(uint64(most), l.Max)
		_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
	}
}

// limitProcessor is the second line behind answer's own look at the clock: the system's limit, in
// whole seconds.
func limitProcessor(more time.Duration) {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_CPU, &l) != nil {
		return
	}
	if at := uint64((processorTime()+more+more/4)/time.Second) + 2; at < l.Max {
		l.Cur = at
		_ = syscall.Setrlimit(syscall.RLIMIT_CPU, &l)
	}
}
