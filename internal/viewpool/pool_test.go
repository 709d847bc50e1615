package viewpool

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
	"github.com/troupe-chain/troupe/primitives/view"
)

// hold occupies n workers until release is called.
func hold(p *Pool, n int) (release func()) {
	var ended sync.WaitGroup
	let := make(chan struct{})
	for range n {
		busy := make(chan struct{})
		ended.Go(func() {
			_ = p.Run(fair.Client{}, func(bool, func() error) error {
				close(busy)
				<-let
				return nil
			}, nil)
		})
		<-busy
	}
	return func() {
		close(let)
		ended.Wait()
	}
}

func TestCallsBeyondQueueAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Short: 2, Queue: 1, Timeout: time.Second})
		release := hold(p, 2)
		var late error
		var one sync.WaitGroup
		one.Go(func() {
			late = p.Run(fair.Client{}, func(bool, func() error) error { t.Error("run after its time"); return nil }, nil)
		})
		synctest.Wait() // it waits
		if err := p.Run(fair.Client{}, func(bool, func() error) error { return nil }, nil); !errors.Is(err, view.ErrTooManyRequests) {
			t.Errorf("Run with a full queue: %v, want %v", err, view.ErrTooManyRequests)
		}
		if s := p.Stats(); s.Running != 2 || s.Waiting != 1 || s.Refused != 1 {
			t.Errorf("Stats = %+v", s)
		}
		time.Sleep(2 * time.Second) // of the bubble's clock
		release()
		one.Wait()
		if !errors.Is(late, view.ErrTimeout) {
			t.Errorf("Run that waited too long: %v, want %v", late, view.ErrTimeout)
		}
		if s := p.Stats(); s.Running != 0 || s.Waiting != 0 || s.Done != 2 || s.TimedOut != 1 || s.Busy < 4*time.Second {
			t.Errorf("Stats = %+v", s)
		}
		p.Close()
	})
}

// forever is a call that only ends when it is told to.
func forever(_ bool, interrupt func() error) error {
	for {
		if err := interrupt(); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func TestCallIsInterruptedAtTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Short: 1, Timeout: time.Second})
		start := time.Now()
		if err := p.Run(fair.Client{}, forever, nil); !errors.Is(err, view.ErrTimeout) {
			t.Errorf("Run = %v, want %v", err, view.ErrTimeout)
		}
		if took := time.Since(start); took > 1100*time.Millisecond {
			t.Errorf("elapsed time %v is out of bounds", took)
		}
		p.Close()
	})
}

// TestLongCallDelaysNoShortCall: a long call starts again in the long lane, and does not delay
// short calls.
func TestLongCallDelaysNoShortCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Short: 1, Long: 1, Queue: 1})
		var lanes []bool
		var long sync.WaitGroup
		let := make(chan struct{})
		long.Go(func() {
			err := p.Run(fair.Client{}, func(short bool, _ func() error) error {
				lanes = append(lanes, short)
				if short {
					return ErrLong
				}
				<-let
				return nil
			}, nil)
			if err != nil {
				t.Errorf("Run = %v", err)
			}
		})
		synctest.Wait()
		if err := p.Run(fair.Client{}, func(bool, func() error) error { return nil }, nil); err != nil {
			t.Errorf("a short call beside a long one: %v", err)
		}
		first := func(bool, func() error) error { return ErrLong }
		long.Go(func() { _ = p.Run(fair.Client{}, first, nil) })
		synctest.Wait() // it waits in the long lane, which is full then
		if err := p.Run(fair.Client{}, first, nil); !errors.Is(err, view.ErrTooManyRequests) {
			t.Errorf("Run with a full queue of long calls: %v, want %v", err, view.ErrTooManyRequests)
		}
		close(let)
		long.Wait()
		if want := []bool{true, false}; !slices.Equal(lanes, want) {
			t.Errorf("lanes = %v, want %v", lanes, want)
		}
		if s := p.Stats(); s.Long != 3 || s.Refused != 1 || s.Done != 6 {
			t.Errorf("Stats = %+v", s)
		}
		p.Close()
	})
}

func TestLongCallOfGoneClientIsNotRun(t *testing.T) {
	p := New(Options{Short: 1, Long: 1})
	defer p.Close()
	for _, gone := range []bool{false, true} {
		ran := false
		err := p.Run(fair.Client{}, func(short bool, _ func() error) error {
			if short {
				return ErrLong
			}
			ran = true
			return nil
		}, func() bool { return gone })
		if ran == gone || (err == ErrGone) != gone {
			t.Errorf("client gone %v: Run = %v, ran %v", gone, err, ran)
		}
	}
	if s := p.Stats(); s.Gone != 1 || s.Done != 3 {
		t.Errorf("Stats = %+v", s)
	}
}

func TestPanicFailsOnlyItsCall(t *testing.T) {
	var told *PanicError
	p := New(Options{Short: 1, Alarm: func(e *PanicError) { told = e }})
	defer p.Close()
	var why *PanicError
	if err := p.Run(fair.Client{}, func(bool, func() error) error { panic("oh") }, nil); !errors.As(err, &why) || why.Reason != "oh" {
		t.Errorf("Run = %v, want the panic", err)
	}
	if err := p.Run(fair.Client{}, func(bool, func() error) error { return nil }, nil); err != nil {
		t.Errorf("Run after a panic: %v", err)
	}
	if told != why || len(told.Stack) == 0 {
		t.Errorf("the alarm got %v, want %v with its stack", told, why)
	}
	if s := p.Stats(); s.Panicked != 1 || s.Done != 2 {
		t.Errorf("Stats = %+v", s)
	}
}

// TestOtherAddressWaitsForOneLongCall: if sixteen connections of one address make only long calls,
// a client of another address waits for about one of these calls.
func TestOtherAddressWaitsForOneLongCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Short: 1, Long: 1, Timeout: time.Hour})
		const length = 100 * time.Millisecond
		call := func(short bool, _ func() error) error {
			if time.Sleep(length / 20); short {
				return ErrLong
			}
			time.Sleep(length)
			return nil
		}
		who := func(address byte, conn uint64) fair.Client {
			return fair.Client{Address: [16]byte{address}, Conn: conn}
		}
		var all sync.WaitGroup
		var end atomic.Bool
		for i := range uint64(16) {
			all.Go(func() {
				for !end.Load() {
					if err := p.Run(who(1, i), call, nil); err != nil {
						t.Errorf("Run = %v", err)
					}
				}
			})
		}
		time.Sleep(3 * time.Second)
		// Another address; another connection of the same.
		for honest, most := range map[fair.Client]time.Duration{who(2, 0): 3 * length, who(1, 99): 6 * length} {
			for range 5 {
				start := time.Now()
				if err := p.Run(honest, call, nil); err != nil {
					t.Errorf("Run = %v", err)
				}
				// its own, and one that runs in each lane; of the same address one or two have a
				// turn in between
				if took := time.Since(start); took > most {
					t.Errorf("%v: a call of %v took %v", honest, length, took)
				}
				time.Sleep(20 * length) // it asks for no more than its share
			}
		}
		end.Store(true)
		all.Wait()
		p.Close()
	})
}

func TestSimulationsHaveTheirOwnLane(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Short: 1, Long: 1})
		let := make(chan struct{})
		var all sync.WaitGroup
		ran := 0
		for range 3 {
			all.Go(func() {
				if err := p.RunAside(fair.Client{}, func(short bool, _ func() error) error {
					ran++
					<-let
					if short {
						t.Error("the simulation ran as a short call")
					}
					return nil
				}, nil); err != nil {
					t.Errorf("RunAside = %v", err)
				}
			})
		}
		synctest.Wait()
		if ran != 1 {
			t.Errorf("%d at a time", ran)
		}
		long := func(short bool, _ func() error) error {
			if short {
				return ErrLong
			}
			return nil
		}
		if err := p.Run(fair.Client{}, long, nil); err != nil {
			t.Errorf("a long call beside simulations: %v", err)
		}
		close(let)
		all.Wait()
		p.Close()
	})
}

// TestCloseEndsEveryWait: no caller waits for ever, whether it comes before or after Close.
func TestCloseEndsEveryWait(t *testing.T) {
	for range 50 {
		p := New(Options{Short: 2, Queue: 8})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				err := p.Run(fair.Client{}, forever, nil)
				if !errors.Is(err, ErrClosed) && !errors.Is(err, view.ErrTooManyRequests) {
					t.Errorf("Run = %v", err)
				}
			})
		}
		p.Close()
		all.Wait()
		if err := p.Run(fair.Client{}, forever, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Run after Close: %v", err)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	p := New(Options{})
	defer p.Close()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_ = p.Run(fair.Client{}, func(bool, func() error) error { return nil }, nil)
		}
	})
}

// TestWaitingCallEndsAtItsTimeout: a call that waits for a worker returns when its time is over,
// also while another one has the worker; the call after it then has the worker at once.
func TestWaitingCallEndsAtItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Short: 1, Long: 1, Timeout: time.Second})
		let := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { // one that does not ask
			if err := p.RunAside(fair.Client{}, func(bool, func() error) error { <-let; return nil }, nil); err != nil {
				t.Errorf("RunAside = %v", err)
			}
		})
		synctest.Wait()
		begun := time.Now()
		ran := false
		err := p.RunAside(fair.Client{}, func(bool, func() error) error { ran = true; return nil }, nil)
		if took := time.Since(begun); !errors.Is(err, view.ErrTimeout) || took != time.Second || ran {
			t.Errorf("a call that waits: %v after %v, ran %v", err, took, ran)
		}
		close(let)
		all.Wait()
		begun = time.Now()
		if err := p.RunAside(fair.Client{}, func(bool, func() error) error { return nil }, nil); err != nil || time.Since(begun) != 0 || ran {
			t.Errorf("the next one: %v after %v, the one before ran %v", err, time.Since(begun), ran)
		}
		if s := p.Stats(); s.TimedOut != 1 {
			t.Errorf("%d timed out", s.TimedOut)
		}
		p.Close()
	})
}
