package system

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestDispatcherBoundsConcurrency: all scheduled functions run, in order, at most most at a time,
// and then all goroutines end.
func TestDispatcherBoundsConcurrency(t *testing.T) {
	for _, most := range []int{1, 3} {
		for _, every := range []time.Duration{0, time.Millisecond} {
			t.Run(fmt.Sprint(most, " ", every), func(t *testing.T) { checkDispatcherBound(t, most, every) })
		}
	}
}

func checkDispatcherBound(t *testing.T, most int, every time.Duration) {
	const n = 1000
	d := NewBoundedDispatcher(most, every)
	var all sync.WaitGroup
	all.Add(n)
	var now, peak atomic.Int64
	var mu sync.Mutex
	var order []int
	hold := make(chan struct{})
	for i := range n {
		d.Schedule(func() {
			defer all.Done()
			if x := now.Add(1); x > peak.Load() {
				peak.Store(x)
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			<-hold
			now.Add(-1)
		})
	}
	close(hold)
	all.Wait()
	if p := peak.Load(); p > int64(most) {
		t.Errorf("%d at a time, want %d at most", p, most)
	}
	if most == 1 && !slices.IsSorted(order) { // with several goroutines, one may be preempted between taking a function and running it
		t.Error("they ran in another order than they were woken in")
	}
	slices.Sort(order)
	if len(slices.Compact(order)) != n {
		t.Errorf("%d of %d have run", len(order), n)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		running := d.running
		d.mu.Unlock()
		if running == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d goroutines still run", running)
		}
	}
}
