package backend

import (
	"testing"
	"time"
)

// TestPast: a place among those who read the past is given on at once, but where a crowd waits; and once that has gone, at once again.
func TestPast(t *testing.T) {
	now := time.Unix(1000, 0)
	var rests []time.Duration
	var ends []func()
	p := newPast(1)
	p.now = func() time.Time { return now }
	p.rest = func(d time.Duration, f func()) { rests, ends = append(rests, d), append(ends, f) }
	reads := func() func() {
		t.Helper()
		done, ok := p.take()
		if !ok {
			t.Fatal("there is no place")
		}
		now = now.Add(3 * time.Millisecond)
		return done
	}
	turned := func(n int) {
		t.Helper()
		for range n {
			if _, ok := p.take(); ok {
				t.Fatal("a place was given twice")
			}
		}
	}
	done := reads()
	turned(crowd)
	done()
	if done = reads(); len(rests) != 0 {
		t.Errorf("a place rests %v where few wait", rests)
	}
	turned(1)
	done()
	if len(rests) != 1 || rests[0] != 3*time.Millisecond {
		t.Fatalf("a place rests %v where a crowd waits, want 3ms", rests)
	}
	turned(1)
	ends[0]()
	now = now.Add(1100 * time.Millisecond) // the second before still counts
	reads()()
	if len(rests) != 2 {
		t.Errorf("%d rests, want 2", len(rests))
	}
	ends[1]()
	now = now.Add(3 * time.Second)
	reads()()
	reads()()
	if len(rests) != 2 {
		t.Errorf("%d rests after the crowd has gone, want 2", len(rests))
	}
}
