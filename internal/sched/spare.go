// Package sched says on how many threads a process runs Go, and how late the kernel may wake them.
//
//	in      who begins and ends to be told of blocks
//	out     runtime.GOMAXPROCS, and the timer slack of Linux
package sched

import (
	"os"
	"runtime"
	"sync"
	"time"
)

// Linger is how long the spare thread stays when nobody needs it any more: to change their number
// stops the world, and clients come and go.
const Linger = 10 * time.Second

// renewal is how often the number of cores is looked at while there is a spare thread: Go does so
// itself until it is told a number.
const renewal = time.Minute

// Spare is a thread more than there are cores, as long as anybody has need of it. While each core's
// thread computes, a goroutine that is woken to tell somebody waits until one of them rests, 10 ms
// at the most by Go's scheduler; the kernel gives a thread that has just become ready a core
// before. Safe for use by many goroutines.
type Spare struct {
	mu    sync.Mutex
	users int
	had   int         // threads before; 0: there is no spare one
	fixed bool        // somebody has set that number, which is not by the cores
	last  *time.Timer // takes it away
	again *time.Timer // looks at the cores

	linger, renewal time.Duration
	set             func(int) int // runtime.GOMAXPROCS
	free            func()        // runtime.SetDefaultGOMAXPROCS: the number goes by the cores, and with them
}

// process is the one that this process has.
var process = newSpare()

func newSpare() *Spare {
	return &Spare{linger: Linger, renewal: renewal, set: runtime.GOMAXPROCS, free: runtime.SetDefaultGOMAXPROCS}
}

// Need has the process have a spare thread until done is called, and a moment longer. Who has set
// GOMAXPROCS in the environment has said how many there are.
func Need() (done func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	return process.Need()
}

// Need is Need of this one.
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

// renew takes the spare thread and gives it anew from time to time.
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

// take removes it, unless somebody has set another number since.
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
