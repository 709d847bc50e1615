package localnet

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	maxLog    = 64 << 20 // maximum size of a log file in bytes; the previous file is kept too
	pipeLimit = 2 * time.Second
)

// signals maps the actions on a process to signals.
var signals = map[What]syscall.Signal{Stop: syscall.SIGTERM, Kill: syscall.SIGKILL, Pause: syscall.SIGSTOP, Continue: syscall.SIGCONT}

// process is a running process.
type process struct{ pid int }

// begin starts a command with its output in a log file. When the process ends, begin's goroutine
// calls ended with the reason.
func begin(command []string, logPath string, ended func(how string)) (*process, error) {
	log, err := openLog(logPath)
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	var p process
	go func() {
		// The kernel kills the process when the thread that started it ends (Pdeathsig). So this
		// goroutine keeps the thread until the process has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = log.Close() }()
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr, cmd.WaitDelay = log, log, attributes(), pipeLimit
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		p.pid = cmd.Process.Pid
		started <- nil
		if err := cmd.Wait(); err != nil {
			ended(err.Error())
			return
		}
		ended("exit status 0")
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return &p, nil
}

// send sends a signal. Stop goes only to the process, because a node ends its child processes
// itself; all other signals go to the process group. send does nothing if the process has ended.
func (p *process) send(w What) {
	to := -p.pid
	if w == Stop {
		to = p.pid
	}
	_ = syscall.Kill(to, signals[w])
}

// logFile is a log file. At maxLog bytes a new file is started, and the previous file is kept as
// path.1.
type logFile struct {
	path string
	mu   sync.Mutex
	file *os.File
	size int64
}

func openLog(path string) (*logFile, error) {
	l := &logFile{path: path}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		_ = f.Close()
		return err
	}
	l.file, l.size = f, size
	return nil
}

// Write appends p. Write reports no error, because an error on a full disk would end the node.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size+int64(len(p)) > maxLog {
		l.turn()
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	if err != nil {
		return len(p), nil
	}
	return n, nil
}

// turn starts a new file. If that fails, turn continues in the current file. If the old contents
// cannot be moved away, turn first truncates the current file.
func (l *logFile) turn() {
	if os.Rename(l.path, l.path+".1") != nil {
		if l.file.Truncate(0) == nil {
			l.size = 0
		}
		return
	}
	was := l.file
	if l.open() == nil {
		_ = was.Close()
	}
}

// Close closes the file.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}
