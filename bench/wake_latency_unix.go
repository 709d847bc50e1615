//go:build unix

package bench

import (
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// wake measures the time from sending a byte until a waiting thread has received it, as half of a
// round trip. The results are the median on an idle machine, and the 99th percentile while another
// thread computes. Nodes on one machine wait in this way for each message.
func wake() (median, late float64, err error) {
	// Use enough threads that a woken thread does not wait for the Go scheduler.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0))))
	pair, err := sockets()
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = unix.Close(pair[0]) }()
	var others sync.WaitGroup
	defer others.Wait()
	defer func() { _ = unix.Shutdown(pair[0], unix.SHUT_RDWR) }()
	others.Go(func() {
		runtime.LockOSThread()
		defer func() { _ = unix.Close(pair[1]) }()
		for b := make([]byte, 1); ; {
			if n, err := unix.Read(pair[1], b); n != 1 && err != unix.EINTR {
				return
			} else if n == 1 {
				if _, err := unix.Write(pair[1], b); err != nil {
					return
				}
			}
		}
	})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	quiet, err := roundTrips(pair[0])
	if err != nil {
		return 0, 0, err
	}
	var stop atomic.Bool
	defer stop.Store(true)
	others.Go(func() {
		runtime.LockOSThread()
		for !stop.Load() {
		}
	})
	busy, err := roundTrips(pair[0])
	if err != nil {
		return 0, 0, err
	}
	return quiet[len(quiet)/2].Seconds() / 2, busy[len(busy)*99/100].Seconds() / 2, nil
}

// sockets returns two connected sockets that child processes do not inherit.
func sockets() (pair [2]int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if pair, err = unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
		unix.CloseOnExec(pair[0])
		unix.CloseOnExec(pair[1])
	}
	return pair, err
}

// roundTrips returns the durations of round trips, ascending.
func roundTrips(fd int) ([]time.Duration, error) {
	var took []time.Duration
	b := make([]byte, 1)
	for start := time.Now(); len(took) < 100 || time.Since(start) < each; {
		at := time.Now()
		if _, err := unix.Write(fd, b); err != nil {
			return nil, err
		}
		for {
			n, err := unix.Read(fd, b)
			if n == 1 {
				break
			}
			if err == nil { // the child process has ended, so the read did not end a round trip
				return nil, io.ErrUnexpectedEOF
			}
			if err != unix.EINTR {
				return nil, err
			}
		}
		took = append(took, time.Since(at))
	}
	slices.Sort(took)
	return took, nil
}
