package compiler

import (
	"testing"
	"testing/synctest"
)

// TestGate: at most so many at once, one place is kept for blocks, which go first.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{total: 3, later: 2}
		in := make(chan bool, 100) // whether in the background
		enter := func(background bool) {
			go func() {
				if g.enter(background, nil) {
					in <- background
				}
			}()
			synctest.Wait()
		}
		for range 3 {
			enter(true)
		}
		if len(in) != 2 {
			t.Fatalf("%d in the background, want 2", len(in))
		}
		for range 3 {
			enter(false)
		}
		if len(in) != 3 {
			t.Fatalf("%d run, want 3", len(in))
		}
		for len(in) > 0 {
			<-in
		}
		g.leave(true)
		synctest.Wait()
		if len(in) != 1 || <-in {
			t.Error("a block does not go first")
		}
		cancel := make(chan struct{})
		left := make(chan bool, 1)
		go func() { left <- g.enter(false, cancel) }()
		synctest.Wait()
		close(cancel)
		if <-left {
			t.Error("went in though cancelled")
		}
		g.leave(false)
		synctest.Wait()
		if len(in) != 1 || <-in {
			t.Error("the second block does not follow")
		}
		g.leave(false)
		synctest.Wait()
		if len(in) != 1 || !<-in {
			t.Error("the background does not follow")
		}
		waits := make(chan bool, 1)
		go func() { waits <- g.enter(true, nil) }()
		synctest.Wait()
		g.close()
		if <-waits || g.enter(false, nil) {
			t.Error("went in though closed")
		}
	})
}
