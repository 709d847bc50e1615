package parallel

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// TestDoCallsEachIndexOnce: whatever the number of calls, Do makes each call once.
func TestDoCallsEachIndexOnce(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 100, 1000} {
		calls := make([]atomic.Int32, n)
		Do(n, func(i int) { calls[i].Add(1) })
		for i := range calls {
			if c := calls[i].Load(); c != 1 {
				t.Errorf("of %d calls, call %d was made %d times", n, i, c)
			}
		}
	}
}

// TestUntilStaysWithinLimit: the limit bounds the calls that run at a time, and two calls do run at
// a time if the limit allows it. A limit of 0 means the caller's goroutine alone.
func TestUntilStaysWithinLimit(t *testing.T) {
	for _, limit := range []int{0, 1, 2, 5} {
		var now, most atomic.Int32
		var meet sync.WaitGroup // two calls wait for each other, so they run at the same time
		if limit > 1 {
			meet.Add(2)
		}
		Until(20, limit, func(i int) bool {
			k := now.Add(1)
			defer now.Add(-1)
			for old := most.Load(); k > old && !most.CompareAndSwap(old, k); old = most.Load() {
			}
			if i < 2 && limit > 1 {
				meet.Done()
				meet.Wait()
			}
			return true
		})
		if m := int(most.Load()); m > max(limit, 1) || limit > 1 && m < 2 {
			t.Errorf("limit %d: %d calls ran at a time", limit, m)
		}
	}
}

// TestUntilStopsAfterFalse: no call starts after a call has returned false.
func TestUntilStopsAfterFalse(t *testing.T) {
	var made []int
	Until(100, 1, func(i int) bool { made = append(made, i); return i < 3 })
	if !slices.Equal(made, []int{0, 1, 2, 3}) {
		t.Errorf("calls %v, want 0 to 3", made)
	}
}

// failSeventh is the function that the stack of TestDoRaisesPanic names.
func failSeventh(i int) {
	if i == 7 {
		panic("seven")
	}
}

// TestDoRaisesPanic: a panic reaches the caller with its value and stack, after all running calls
// have ended, and ends the calls. A panic that passes through two calls of Do keeps its stack.
func TestDoRaisesPanic(t *testing.T) {
	var running atomic.Int32
	var made atomic.Int32
	p := func() (p any) {
		defer func() { p = recover() }()
		Until(1_000_000, 4, func(i int) bool {
			running.Add(1)
			defer running.Add(-1)
			made.Add(1)
			Do(1, func(int) { failSeventh(i) })
			return true
		})
		return nil
	}()
	first, ok := p.(*Panic)
	if !ok || first.Reason != "seven" || !bytes.Contains(first.Stack, []byte("failSeventh")) {
		t.Errorf("raised %v, with the stack of the panic: %v", p, ok && bytes.Contains(first.Stack, []byte("failSeventh")))
	}
	if running.Load() != 0 || made.Load() == 1_000_000 {
		t.Errorf("%d calls are running, %d calls were made", running.Load(), made.Load())
	}
}
