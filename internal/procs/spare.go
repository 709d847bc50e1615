// Package procs says on how many threads a process runs Go, and how late the kernel may wake them.
//
//	in      who begins and ends to be told of blocks
//	out     runtime.GOMAXPROCS, and the timer slack of Linux
package procs

import (
	"os"
	"runtime"
	"sync"
	"time"
)

// Linger is how long the spare thread stays when nobody needs it any more: to change their number stops the world, and clients come and go.
const Linger = 10 * time.Second

// Spare is a thread more than there are cores, as long as anybody has need of it. While each core's thread computes, a goroutine that is woken to tell
// somebody waits until one of them rests, 10 ms at the most by Go's scheduler; the kernel gives a thread that has just become ready a core before.
// Safe for use by many goroutines.
type Spare struct {
	mu    sync.Mutex
	users int
	had   int         // threads before; 0: there is no spare one
	last  *time.Timer // takes it away
	set   func(int) int
	after func(time.Duration, func()) *time.Timer
}

// process is the one that this process has.
var process = &Spare{set: runtime.GOMAXPROCS, after: time.AfterFunc}

// Need has the process have a spare thread until done is called, and a moment longer. Who has set GOMAXPROCS in the environment has said how many there are.
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
		s.had = s.set(0)
		s.set(s.had + 1)
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
	mine = s.after(Linger, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.last == mine {
			s.set(s.had)
			s.had, s.last = 0, nil
		}
	})
	s.last = mine
}
