// Package sched sets the number of threads on which a process runs Go code, and by how much the
// kernel may delay their wake-up.
//
//	in      subscribers to blocks that come and go
//	out     runtime.GOMAXPROCS, and the timer slack of Linux
package sched

import (
	"os"
	"runtime"
	"sync"
	"time"
)

// Linger is the time for which the spare thread is kept after the last user has left. Every change
// of the number of threads stops the world. Without Linger, each client that connects or
// disconnects could cause a change.
const Linger = 10 * time.Second

// renewal is the interval at which the number of cores is read while Spare keeps a spare thread.
// The Go runtime updates GOMAXPROCS by itself only until a program sets it.
const renewal = time.Minute

// Spare keeps one more thread for Go code than there are cores while it has users. Without the
// spare thread, if the threads of all cores compute, a goroutine that is woken to notify a
// subscriber waits up to 10 ms in Go's scheduler. With the spare thread, the kernel chooses the
// thread to run, and soon runs one that has just become ready. Safe for concurrent use.
type Spare struct {
	mu    sync.Mutex
	users int
	had   int         // number of threads before the spare one was added; 0: there is no spare one
	fixed bool        // GOMAXPROCS was set in code and does not follow the number of cores
	last  *time.Timer // timer that removes the spare thread
	again *time.Timer // timer that reads the number of cores

	linger, renewal time.Duration
	set             func(int) int // runtime.GOMAXPROCS
	free            func()        // runtime.SetDefaultGOMAXPROCS: from then on GOMAXPROCS follows the number of cores
}

// process is the spare thread of this process.
var process = newSpare()

func newSpare() *Spare {
	return &Spare{linger: Linger, renewal: renewal, set: runtime.GOMAXPROCS, free: runtime.SetDefaultGOMAXPROCS}
}

// Need keeps a spare thread until done is called, and for Linger after that. If the environment
// sets GOMAXPROCS, Need does nothing. The caller may call done more than once.
func Need() (done func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	return process.Need()
}

// Need keeps this spare thread until done is called, and for s.linger after that.
func (s *Spare) Need() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users++; s.last != nil {
		s.last.Stop()
		s.last = nil
	}
	if s.had == 0 {
		s.give()
		s.renew()
	}
	return sync.OnceFunc(s.leave)
}

func (s *Spare) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users > 0 {
		return
	}
	var mine *time.Timer
	mine = time.AfterFunc(s.linger, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.last == mine {
			s.again.Stop()
			s.take()
			s.last = nil
		}
	})
	s.last = mine
}

// renew removes the spare thread and adds it again, once in s.renewal. While the spare thread is
// removed, Go reads the number of cores.
func (s *Spare) renew() {
	var mine *time.Timer
	mine = time.AfterFunc(s.renewal, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.had == 0 || s.again != mine {
			return
		}
		if !s.fixed && s.set(0) == s.had+1 {
			s.take()
			s.give()
		}
		s.renew()
	})
	s.again = mine
}

// give raises GOMAXPROCS by one, for the spare thread.
func (s *Spare) give() {
	s.had = s.set(0)
	s.free() // no effect if GOMAXPROCS already follows the number of cores
	s.fixed = s.set(0) != s.had
	s.set(s.had + 1)
}

// take removes the spare thread, unless GOMAXPROCS no longer has the value that Spare set.
func (s *Spare) take() {
	if s.set(0) == s.had+1 {
		if s.fixed {
			s.set(s.had)
		} else {
			s.free()
		}
	}
	s.had = 0
}
