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

// Exit codes of a child. A child that crashes or is killed has other codes.
const (
	exitOK    = 0
	exitFrame = 70 // the parent sent an invalid frame, or the reply could not be written
	exitCPU   = 71 // the child reached its limit of processor time
)

// beat is the interval at which a compiling child sends Alive and checks its processor time.
const beat = 500 * time.Millisecond

// grown is the growth of memory since the start, in bytes, from which a child sets Reply.Retire
// after a compilation. The parent then ends the child, so that the system gets the memory back.
const grown = 32 << 20

// Main is the main function of a child. Main compiles until the parent closes the pipe or dies.
// version identifies everything that an artifact depends on besides the module. Main returns the
// process's exit code.
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
	signal.Notify(over, syscall.SIGXCPU) // otherwise Go ignores the signal
	go func() {
		<-over
		os.Exit(exitCPU)
	}()
	requests := make(chan *Request)
	go func() {
		for {
			r, err := ReadRequest(in)
			if errors.Is(err, io.EOF) {
				os.Exit(exitOK) // even during a compilation, because the parent that waited for the result has ended
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
	base    int64 // bytes of writable memory when the process started; 0: unknown
	low     bool  // the process has a low priority, which the process cannot raise again

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

// backgroundNice is the nice value of background children: the lowest priority. While other
// processes want the core, such a child gets about a hundredth of the core.
const backgroundNice = 19

// answer compiles on a new thread, which ends afterwards. The end of the thread frees the library's
// per-thread memory.
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
			// If the artifact exceeds the limit, the parent reports the error.
			if got.err == nil && r.File != "" && int64(len(got.code)) <= r.Limits.Output {
				// If writing the file fails, the artifact is sent through the pipe.
				if w, err := writeFile(r.File, got.code); err == nil {
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

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// limitFiles limits the size of files that this process writes, in bytes.
func limitFiles(most int64) {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l) == nil {
		l.Cur = min(uint64(most), l.Max)
		_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l)
	}
}

// limitProcessor sets the system's limit of processor time, in whole seconds. The system's limit
// takes effect if the check in answer does not.
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
