// Package parallel runs independent calls on several goroutines.
//
//	in      the number of calls, the function to call
//	out     none; the function stores its results itself
//	state   none
//	units   none
//	bound   at most GOMAXPROCS goroutines, or the number that the caller gives
//	errors  a panic of a call is raised again on the caller's goroutine, as a *Panic
//	source  our own
package parallel

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Panic is a recovered panic with the stack of the goroutine that panicked first.
type Panic struct {
	Reason any
	Stack  []byte
}

// Error returns the reason without the stack.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Reason) }

// Recovered returns the panic whose value is r, or nil if r is nil. A panic that was raised again
// after it had been recovered keeps its first stack. Only the deferred function that recovers the
// panic may call Recovered, because the stack is that of the caller.
func Recovered(r any) *Panic {
	switch r := r.(type) {
	case nil:
		return nil
	case *Panic:
		return r
	}
	return &Panic{r, debug.Stack()}
}

// Do calls do(0) ... do(n-1) in any order on at most GOMAXPROCS goroutines, of which the caller's is
// one, and returns when all calls have returned. Do is an apply.Par. If a call panics, no further
// call starts, and Do panics with the *Panic of the first panic once all goroutines have ended.
func Do(n int, do func(i int)) {
	Until(n, runtime.GOMAXPROCS(0), func(i int) bool {
		do(i)
		return true
	})
}

// Until is Do on at most limit goroutines, and starts no further call after a call of do has
// returned false. A limit below 1 counts as 1.
func Until(n, limit int, do func(i int) bool) {
	var next atomic.Int64
	var stop atomic.Bool
	var failed atomic.Pointer[Panic]
	run := func() {
		defer func() {
			if p := Recovered(recover()); p != nil {
				stop.Store(true)
				failed.CompareAndSwap(nil, p)
			}
		}()
		for i := next.Add(1) - 1; i < int64(n) && !stop.Load(); i = next.Add(1) - 1 {
			if !do(int(i)) {
				stop.Store(true)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(n, limit) - 1 {
		wg.Go(run)
	}
	run()
	wg.Wait()
	if p := failed.Load(); p != nil {
		panic(p)
	}
}
