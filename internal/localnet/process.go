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
	maxLog    = 64 << 20 // bytes, twice
	pipeLimit = 2 * time.Second
)

// signals are the signals of the actions on a process.
var signals = map[What]syscall.Signal{Stop: syscall.SIGTERM, Kill: syscall.SIGKILL, Pause: syscall.SIGSTOP, Continue: syscall.SIGCONT}

// process is a running process.
type process struct{ pid int }

// begin starts a command with its output in a log file. ended is called with the reason when the
// process ends.
func begin(command []string, logPath string, ended func(how string)) (*process, error) {
	log, err := openLog(logPath)
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	var p process
	go func() {
		// The kernel ends the process with the thread that started it (Pdeathsig): this goroutine
		// keeps the thread until the process has ended.
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

// send sends a signal to the process, not to its children: a node ends its children itself. It does
// nothing if the process has ended.
func (p *process) send(w What) {
	to := -p.pid
	if w == Stop {
		to = p.pid
	}
	_ = syscall.Kill(to, signals[w])
}

// logFile is a log that starts over at maxLog bytes. The previous file is kept beside it.
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

// Write appends p. It reports no error, so that a full disk does not end the node.
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

// turn starts a new file. If that fails it continues in the current one, from its start if the old
// content cannot be moved away.
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
