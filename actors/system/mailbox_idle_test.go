package system

import (
	"bytes"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleDispatcherGoroutineEnds: a dispatcher goroutine stays while there is occasional work. It
// ends one to two minutes after the last work.
func TestIdleDispatcherGoroutineEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		running := func() int { // count only dispatcher goroutines: the runtime starts its own at any time
			stacks := make([]byte, 1<<20)
			return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("system.(*Dispatcher).run("))
		}
		d, before := NewDispatcher(), running()
		count := func() int {
			synctest.Wait()
			return running() - before
		}
		hold := make(chan struct{})
		for range 3 {
			d.Schedule(func() { <-hold })
		}
		close(hold)
		if n := count(); n != 3 {
			t.Fatalf("%d goroutines, want 3", n)
		}
		last := time.Now()
		for range 20 {
			// This avoids the moment at which all goroutines check whether they had work; then one
			// more may start.
			time.Sleep(idle/3 + time.Millisecond)
			d.Schedule(func() { last = time.Now() })
			if n := count(); n < 1 || n > 3 {
				t.Fatalf("%d goroutines", n)
			}
		}
		for count() > 0 {
			time.Sleep(time.Second)
		}
		if took := time.Since(last); took < idle || took > 2*idle+time.Second {
			t.Errorf("the last one ended after %v", took)
		}
	})
}
