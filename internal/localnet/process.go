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

// signals of what is done to a process.
var signals = map[What]syscall.Signal{Stop: syscall.SIGTERM, Kill: syscall.SIGKILL, Pause: syscall.SIGSTOP, Continue: syscall.SIGCONT}

// process is one that runs.
type process struct{ pid int }

// begin starts a command, whose output goes to the log; ended is told how it ended.
func begin(command []string, logPath string, ended func(how string)) (*process, error) {
	log, err := openLog(logPath)
	if err != nil {
		return nil, err
	}
	started := make(chan error, 1)
	var p process
	go func() {
		// The system ends the process with the thread that began it: that is this one, which waits
		// for it.
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

// send sends a signal to the process and what it has begun; whom it has begun it ends itself in
// order. One that is gone hears nothing.
func (p *process) send(w What) {
	to := -p.pid
	if w == Stop {
		to = p.pid
	}
	_ = syscall.Kill(to, signals[w])
}

// logFile is a file that begins anew at maxLog bytes, beside the one before.
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

// Write appends p. A log that can't be written is no reason for a node to end.
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

// turn begins anew. Where that can't be it goes on in the file that it has: from its start, if what
// was before has no other place.
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
