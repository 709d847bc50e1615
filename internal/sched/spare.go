// Package sched sets how many threads a process runs Go code on, and how late the kernel may wake
// them.
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

// Linger is how long the spare thread stays after the last user is gone. Every change of the
// number of threads stops the world, and without Linger each client that comes or goes could cause
// one.
const Linger = 10 * time.Second

// renewal is how often the number of cores is read while there is a spare thread. The Go runtime
// updates GOMAXPROCS by itself, but no longer after a program has set it.
const renewal = time.Minute

// Spare runs Go on one more thread than there are cores while it has users. Without it, if the
// threads of all cores compute, a goroutine that is woken to notify a subscriber waits up to 10 ms
// in Go's scheduler. With a spare thread the kernel chooses instead, and it soon runs a thread
// that has just become ready. Safe for concurrent use.
type Spare struct {
	mu    sync.Mutex
	users int
	had   int         // threads before; 0: there is no spare one
	fixed bool        // GOMAXPROCS was set in code, and does not follow the cores
	last  *time.Timer // takes it away
	again *time.Timer // looks at the cores

	linger, renewal time.Duration
	set             func(int) int // runtime.GOMAXPROCS
	free            func()        // runtime.SetDefaultGOMAXPROCS: the number goes by the cores, and with them
}

// process is the spare thread of this process.
var process = newSpare()

func newSpare() *Spare {
	return &Spare{linger: Linger, renewal: renewal, set: runtime.GOMAXPROCS, free: runtime.SetDefaultGOMAXPROCS}
}

// Need keeps a spare thread until done is called, and for Linger after that. It does nothing if the
// environment sets GOMAXPROCS. done may be called more than once.
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

// renew removes the spare thread and adds it again every s.renewal, so that Go reads the number of
// cores.
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

// give adds the thread.
func (s *Spare) give() {
	s.had = s.set(0)
	s.free() // does nothing where the number is the cores'
	s.fixed = s.set(0) != s.had
	s.set(s.had + 1)
}

// take removes the thread, unless another number was set in the meantime.
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
