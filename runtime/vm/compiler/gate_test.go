package compiler

import (
	"testing"
	"testing/synctest"
)

// TestOneSlotIsReservedForBlocks checks the limit of running compilations, that one is reserved for
// blocks, and that compilations for blocks go first.
func TestOneSlotIsReservedForBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{total: 3, maxBackground: 2}
		in := make(chan bool, 100) // whether in the background
		enter := func(background bool) {
			go func() {
				if g.enter(background, 1, nil) {
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
		g.leave(true, 1)
		synctest.Wait()
		if len(in) != 1 || <-in {
			t.Error("a block does not go first")
		}
		cancel := make(chan struct{})
		left := make(chan bool, 1)
		go func() { left <- g.enter(false, 1, cancel) }()
		synctest.Wait()
		close(cancel)
		if <-left {
			t.Error("went in though cancelled")
		}
		g.leave(false, 1)
		synctest.Wait()
		if len(in) != 1 || <-in {
			t.Error("the second block does not follow")
		}
		g.leave(false, 1)
		synctest.Wait()
		if len(in) != 1 || !<-in {
			t.Error("the background does not follow")
		}
		waits := make(chan bool, 1)
		go func() { waits <- g.enter(true, 1, nil) }()
		synctest.Wait()
		g.close()
		if <-waits || g.enter(false, 1, nil) {
			t.Error("went in though closed")
		}
	})
}

// TestBackgroundMemoryIsLimited checks that background compilations that together exceed the memory
// limit run one after another, and that a compilation for a block does not wait.
func TestBackgroundMemoryIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{total: 8, maxBackground: 7, memory: 100}
		in := make(chan int64, 100)
		enter := func(background bool, weight int64) {
			go func() {
				if g.enter(background, weight, nil) {
					in <- weight
				}
			}()
			synctest.Wait()
		}
		for _, weight := range []int64{300, 60, 61, 20} {
			enter(true, weight)
		}
		if len(in) != 1 || <-in != 300 {
			t.Fatal("not just the first, which is alone, runs")
		}
		enter(false, 500)
		if len(in) != 1 || <-in != 500 {
			t.Fatal("a block waits for memory")
		}
		g.leave(false, 500)
		g.leave(true, 300)
		synctest.Wait()
		if len(in) != 1 || <-in != 60 {
			t.Fatal("not just one of two that do not fit runs")
		}
		g.leave(true, 60)
		synctest.Wait()
		if len(in) != 2 || g.taken != 81 {
			t.Errorf("%d run with %d, want the two that fit", len(in), g.taken)
		}
	})
}

// TestPrecompilesPrecedeBackground checks that precompiles go after compilations for blocks and
// before the background, that they do not run together if they need too much memory, and that a
// compilation for a block may begin even while precompiles occupy all slots.
func TestPrecompilesPrecedeBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{total: 2, maxBackground: 1, memory: 100}
		in := make(chan string, 100)
		enter := func(what string, weight int64) {
			go func() {
				if ok := false; what == "ahead" {
					ok = g.enterAhead(weight)
					if ok {
						in <- what
					}
				} else if g.enter(what == "later", weight, nil) {
					in <- what
				}
			}()
			synctest.Wait()
		}
		wants := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for _, w := range want {
				if len(in) == 0 {
					t.Fatalf("nothing begins, want %s", w)
				}
				if got := <-in; got != w {
					t.Fatalf("%s begins, want %s", got, w)
				}
			}
			if len(in) > 0 {
				t.Fatalf("%s begins too", <-in)
			}
		}
		enter("ahead", 300)
		enter("ahead", 101) // too much beside the first
		wants("ahead")
		enter("ahead", 10)
		wants() // in turn
		g.leaveAhead(300)
		wants("ahead", "ahead")
		enter("later", 1)
		enter("call", 500)
		wants("call")
		enter("call", 500)
		enter("ahead", 1)
		wants()
		g.leaveAhead(101)
		wants() // the call runs in its place
		g.leave(false, 500)
		wants("call")
		g.leaveAhead(10)
		wants("ahead")
		g.leave(false, 500)
		wants("later")
		g.leaveAhead(1)
		g.leave(true, 1)
		if g.running != 0 || g.ahead != 0 || g.runningBackground != 0 || g.taken != 0 {
			t.Errorf("%+v are still running", g)
		}
		enter("call", 1)
		enter("call", 1)
		enter("ahead", 1)
		wants("call", "call")
		g.close()
		synctest.Wait()
		if len(in) != 0 || g.enterAhead(1) {
			t.Error("went in though closed")
		}
	})
}
