package sched

import (
	"testing"
	"testing/synctest"
	"time"
)

// threads simulates the thread count of Go's runtime, and counts how often the world was stopped
// to change it.
type threads struct {
	now, cores, changes int
	fixed               bool
}

func (p *threads) set(n int) int {
	was := p.now
	if n > 0 {
		p.fixed = true
		p.to(n)
	}
	return was
}

func (p *threads) free() {
	p.fixed = false
	p.to(p.cores)
}

func (p *threads) to(n int) {
	if n != p.now {
		p.now = n
		p.changes++
	}
}

func (p *threads) spare() *Spare {
	return &Spare{set: p.set, free: p.free, linger: Linger, renewal: renewal}
}

// is looks at their number, once nothing happens any more.
func (p *threads) is(t *testing.T, s *Spare, now, changes int, fixed bool) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.now != now || p.changes != changes || p.fixed != fixed {
		t.Fatalf("%d threads after %d changes, fixed: %v, want %d after %d, %v", p.now, p.changes, p.fixed, now, changes, fixed)
	}
}

// TestSpareThreadEndsSecondsLater: there is one more thread while Spare has users, and for some
// seconds after that. However many users come and go, the number is changed once.
func TestSpareThreadEndsSecondsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &threads{now: 2, cores: 2}
		s := p.spare()
		a, b := s.Need(), s.Need()
		p.is(t, s, 3, 1, true)
		a()
		a() // says it once
		p.is(t, s, 3, 1, true)
		b()
		time.Sleep(Linger / 2)
		for range 1000 {
			s.Need()()
		}
		p.is(t, s, 3, 1, true)
		time.Sleep(Linger - time.Second)
		p.is(t, s, 3, 1, true)
		c := s.Need()
		time.Sleep(3 * Linger)
		p.is(t, s, 3, 1, true)
		c()
		time.Sleep(Linger + time.Second)
		p.is(t, s, 2, 2, false)
		d := s.Need()
		p.is(t, s, 3, 3, true)
		d()
		time.Sleep(Linger + time.Second)
		p.is(t, s, 2, 4, false)
	})
}

// TestSpareRestoresTheProgramsNumber: a number that the program had set is restored, and one that
// it sets meanwhile is kept.
func TestSpareRestoresTheProgramsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &threads{now: 2, cores: 2}
		s := p.spare()
		p.set(5)
		done := s.Need()
		p.is(t, s, 6, 3, true) // by the cores 2, back and one more
		time.Sleep(2*renewal + time.Second)
		p.is(t, s, 6, 3, true)
		done()
		time.Sleep(Linger + time.Second)
		p.is(t, s, 5, 4, true)

		s.mu.Lock()
		p.free()
		s.mu.Unlock()
		done = s.Need()
		s.mu.Lock()
		p.set(7)
		s.mu.Unlock()
		time.Sleep(2*renewal + time.Second)
		p.is(t, s, 7, 7, true)
		done()
		time.Sleep(Linger + time.Second)
		p.is(t, s, 7, 7, true)
	})
}

// TestSpareFollowsChangingCores: the number of cores falls and rises while there is a spare thread.
func TestSpareFollowsChangingCores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &threads{now: 8, cores: 8}
		s := p.spare()
		done := s.Need()
		p.is(t, s, 9, 1, true)
		for i, cores := range []int{2, 4} {
			s.mu.Lock()
			p.cores = cores
			s.mu.Unlock()
			time.Sleep(renewal + time.Second)
			p.is(t, s, cores+1, 1+2*(i+1), true)
		}
		done()
		time.Sleep(2 * renewal)
		p.is(t, s, 4, 6, false)
	})
}
