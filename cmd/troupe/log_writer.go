package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Bounds of the queue and of the wait at the end.
const (
	maxLogQueue = 1 << 20     // maximum number of queued bytes
	logFlush    = time.Second // maximum time for which close waits for the output
)

// logWriter writes the log to a file from a goroutine. So a stopped terminal (Ctrl-S) or a full
// pipe does not block the node. Lines that exceed maxLogQueue are dropped and counted. Safe for
// concurrent use.
type logWriter struct {
	to   io.Writer
	done chan struct{} // closed when the writing goroutine has ended

	mu      sync.Mutex
	changed sync.Cond
	queue   []byte
	dropped int // number of lines dropped since the last report
	closed  bool
}

func newLogWriter(to io.Writer) *logWriter {
	l := &logWriter{to: to, done: make(chan struct{})}
	l.changed.L = &l.mu
	go l.run()
	return l
}

// Write queues a line. Write never waits for the file and never fails.
func (l *logWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case len(line) == 0 || l.closed:
	case l.dropped > 0 || len(l.queue)+len(line) > maxLogQueue: // queue no line before the dropped lines are reported
		l.dropped++
	default:
		l.queue = append(l.queue, line...)
		l.changed.Signal()
	}
	return len(line), nil
}

// close writes the queued lines, for at most logFlush. Lines that are queued after that are lost.
func (l *logWriter) close() {
	l.mu.Lock()
	l.closed = true
	l.changed.Signal()
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(logFlush):
	}
}

func (l *logWriter) run() {
	defer close(l.done)
	var out []byte
	for {
		l.mu.Lock()
		for len(l.queue) == 0 && l.dropped == 0 && !l.closed {
			l.changed.Wait()
		}
		out, l.queue = l.queue, out[:0]
		if len(out) == 0 && l.dropped > 0 { // all lines before the dropped lines are written
			out = fmt.Appendf(out, "%d lines of the log are lost: stderr took nothing\n", l.dropped)
			l.dropped = 0
		}
		ended := l.closed && len(out) == 0
		l.mu.Unlock()
		if ended {
			return
		}
		_, _ = l.to.Write(out) // ignored: a closed stderr must not end the process
	}
}

// survivePipes makes writes to a closed stdout or stderr return an error. By default the Go
// runtime ends a process on such a write, so a node would not stop cleanly.
func survivePipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }
