package link

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestFew: so many run at a time as there may be, in the order in which they came, all of them, and then nobody does.
func TestFew(t *testing.T) {
	const most, n = 3, 1000
	d := NewFew(most)
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
	if p := peak.Load(); p > most {
		t.Errorf("%d at a time, want %d at most", p, most)
	}
	for i, x := range order {
		if x < i-most || x > i+most {
			t.Fatalf("number %d ran as number %d", x, i)
		}
	}
	slices.Sort(order)
	if len(slices.Compact(order)) != n {
		t.Errorf("%d of %d have run", len(order), n)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		running := d.running
		d.mu.Unlock()
		if running == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d goroutines are left", running)
		}
	}
}
