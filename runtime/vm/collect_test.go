package vm

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/runtime/action"
)

// TestCollectionsTakeBoundedTime checks that collections take at most a twentieth of the time, and
// that no caller waits for the collection of another.
func TestCollectionsTakeBoundedTime(t *testing.T) {
	for _, took := range []time.Duration{10 * time.Millisecond, 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			runs := 0
			c := &collector{free: func() { runs++; time.Sleep(took) }}
			begun := time.Now()
			for time.Since(begun) < 100*collectRest*took {
				go c.run()
				c.run()
				time.Sleep(took / 10)
			}
			synctest.Wait()
			if runs < 90 || runs > 101 {
				t.Errorf("%d collections of %v in %v", runs, took, time.Since(begun))
			}
		})
	}
}

// TestCollectorRunsOnceMoreWhenIdle checks that the collector runs once more when nothing large has
// arrived for collectLast, not earlier, and not after the VM is closed.
func TestCollectorRunsOnceMoreWhenIdle(t *testing.T) {
	for _, took := range []time.Duration{10 * time.Millisecond, 4 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex // a timer's collection is another goroutine's
			var ends []time.Time
			c := &collector{free: func() {
				time.Sleep(took)
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, time.Now())
			}}
			runs := func() []time.Time {
				mu.Lock()
				defer mu.Unlock()
				return ends
			}
			for range 3 {
				c.run()
				time.Sleep(collectLast / 2)
			}
			at, before := time.Now().Add(-collectLast/2), len(runs())
			time.Sleep(10 * collectLast)
			if got := len(runs()) - before; got != 1 {
				t.Fatalf("%v: %d collections after the last large module, want 1", took, got)
			}
			if after := runs()[before].Sub(at); after < collectLast || after > collectLast+(collectRest+1)*took {
				t.Errorf("%v: the last one was after %v", took, after)
			}
			c.run()
			before = len(runs())
			c.close()
			c.run()
			before = max(before, len(runs()))
			time.Sleep(10 * collectLast)
			if len(runs()) != before {
				t.Errorf("%v: %d collections once it is closed", took, len(runs())-before)
			}
		})
	}
}

// TestPrepareDoesNotWaitForCollection checks that a large module reaches the compiler while a
// collection runs, however large the heap is, and that the next modules do not cause another
// collection.
func TestPrepareDoesNotWaitForCollection(t *testing.T) {
	if testing.Short() || testutil.Racing {
		t.Skip("compiles large contracts")
	}
	v := openVM(t, Options{Compiler: children(t, "", nil), Builders: 2})
	begun, end := make(chan struct{}, 10), make(chan struct{})
	v.collector.free = func() {
		begun <- struct{}{}
		<-end
	}
	large := contracts.Large(2<<20, 1)
	rules := &call(nil, "", 0).Block.Config.Wasm
	for i := range 3 {
		v.Precompile(action.CodeFrom{}, append(large[:len(large):len(large)], 0, 2, 1, byte(i)), rules)
	}
	close(end)
	select {
	case <-begun:
	case <-time.After(time.Minute):
		t.Fatal("nothing is collected")
	}
	if len(begun) > 0 {
		t.Errorf("%d collections more", len(begun))
	}
}
