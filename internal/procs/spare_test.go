package procs

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSpare: there is one thread more while anybody needs it, and some seconds longer, and their number is changed once however many come and go.
func TestSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now, changes := 2, 0
		s := &Spare{after: time.AfterFunc, set: func(n int) int {
			was := now
			if n > 0 {
				now = n
				changes++
			}
			return was
		}}
		is := func(threads, changed int) {
			t.Helper()
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if now != threads || changes != changed {
				t.Fatalf("%d threads after %d changes, want %d after %d", now, changes, threads, changed)
			}
		}
		a, b := s.Need(), s.Need()
		is(3, 1)
		a()
		a() // says it once
		is(3, 1)
		b()
		time.Sleep(Linger / 2)
		for range 1000 {
			s.Need()()
		}
		is(3, 1)
		time.Sleep(Linger - time.Second)
		is(3, 1)
		c := s.Need()
		time.Sleep(3 * Linger)
		is(3, 1)
		c()
		time.Sleep(Linger + time.Second)
		is(2, 2)
		d := s.Need()
		is(3, 3)
		d()
		time.Sleep(Linger + time.Second)
		is(2, 4)
	})
}
