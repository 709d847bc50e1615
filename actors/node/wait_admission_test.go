package node

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/session"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives/view"
)

// stuck starts a node whose transaction tracker can be stopped by hold. waiters returns the number
// of waiters.
func stuck(t *testing.T, limits Limits) (s *sandbox, hold func() (release func()), waiters func() int64) {
	var mu sync.Mutex
	var gate chan struct{}
	s = start(t, 1, func(o *Options) {
		o.Limits, o.Mode = limits, production.Instant
		o.hooks.trip = func(kind string, m any, after bool) {
			if _, ok := m.(messages.Watch); kind != "txtracker" || !ok || after {
				return
			}
			mu.Lock()
			g := gate
			mu.Unlock()
			if g != nil {
				<-g
			}
		}
	})
	hold = func() func() {
		g := make(chan struct{})
		mu.Lock()
		gate = g
		mu.Unlock()
		return sync.OnceFunc(func() {
			mu.Lock()
			gate = nil
			mu.Unlock()
			close(g)
		})
	}
	return s, hold, func() (n int64) {
		for _, x := range s.Meter() {
			if x.Name == "waiter" {
				n += x.Alive
			}
		}
		return n
	}
}

// TestNewWaitsAreRefusedUnderOverload: while waits take longer than allowed to begin, further waits
// are refused at once; other requests work. Once the earlier waits have begun, new ones are
// admitted again.
func TestNewWaitsAreRefusedUnderOverload(t *testing.T) {
	s, hold, _ := stuck(t, Limits{BeginWait: 100 * time.Millisecond, Wait: time.Minute})
	send := func() error {
		_, err := s.SendTx(t.Context(), &view.SendTx{Tx: s.tx("near", transfer(1)), WaitUntil: view.LevelExecutedOptimistic})
		return err
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	release := hold()
	defer release()
	var all sync.WaitGroup
	var failed []error
	var mu sync.Mutex
	for i := range minPending {
		tx := s.tx("near", transfer(uint64(i+2)))
		all.Go(func() {
			if _, err := s.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: view.LevelExecutedOptimistic}); err != nil {
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
			}
		})
		if i == minPending-2 { // one less than minPending
			time.Sleep(200 * time.Millisecond)
		}
	}
	until(t, func() bool {
		return s.admission.pending.Load() == minPending && s.admission.delay() > 100*time.Millisecond
	})
	var e *view.LookupError
	if err := send(); !errors.As(err, &e) || e.Kind != view.ErrBehind { // a wait would end with ErrTimeout
		t.Errorf("while waits do not begin: got %v, want %v at once", err, view.ErrBehind)
	}
	if err := s.SendTxAsync(t.Context(), s.tx("near", transfer(1))); err != nil {
		t.Errorf("a submission without a wait: %v", err)
	}
	text := string(s.Metrics(nil))
	for _, want := range []string{fmt.Sprintf("\ntroupe_waits_beginning %d\n", minPending),
		"\ntroupe_waits_refused_late_total 1\n", "\ntroupe_waits_begin_seconds "} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
	if strings.Contains(text, "\ntroupe_waits_begin_seconds 0\n") {
		t.Error("/metrics has no time that waits take to begin")
	}
	release()
	all.Wait()
	if len(failed) > 0 {
		t.Errorf("%d of those that were taken failed: %v", len(failed), failed[0])
	}
	if err := send(); err != nil {
		t.Errorf("a wait after the others began: %v", err)
	}
	if n := s.admission.pending.Load(); n != 0 {
		t.Errorf("%d are beginning for ever", n)
	}
}

// TestTimedOutWaitSubmitsNothing: if a wait times out before its session handles it, its
// transaction is not submitted and no waiter starts.
func TestTimedOutWaitSubmitsNothing(t *testing.T) {
	var mu sync.Mutex
	gate := make(chan struct{})
	held, waits := 0, 0
	s := start(t, 1, func(o *Options) {
		o.Limits, o.Mode = Limits{Wait: 200 * time.Millisecond}, production.Manual
		o.hooks.trip = func(kind string, m any, after bool) {
			if after {
				return
			}
			_, request := m.(session.Request)
			mu.Lock()
			first := false
			switch {
			case kind == "rpc" && request:
				first = held == 0
				held++
			case kind == "waiter":
				waits++
			}
			mu.Unlock()
			if first {
				<-gate
			}
		}
	})
	before := s.Stats().Submitted
	var all sync.WaitGroup
	for i := range 20 {
		tx := s.tx("near", transfer(uint64(i+1)))
		all.Go(func() {
			var e *view.LookupError
			ctx := t.Context()
			if _, err := s.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: view.LevelFinal}); !errors.As(err, &e) ||
				e.Kind != view.ErrTimeout {
				t.Errorf("%v, want %v", err, view.ErrTimeout)
			}
		})
	}
	until(t, func() bool { // all have been sent
		for _, x := range s.Meter() {
			if x.Name == "rpc" && x.Mailbox >= 19 {
				return true
			}
		}
		return false
	})
	time.Sleep(300 * time.Millisecond) // all time out before the first is handled, and are answered before lostAfter
	close(gate)
	all.Wait()
	s.waitIdle(t)
	mu.Lock()
	defer mu.Unlock()
	if held < 20 || waits != 0 || s.Stats().Submitted != before {
		t.Errorf("%d requests reached rpc, %d waiters, %d transactions the pools; want no waiter and no transaction", held,
			waits, s.Stats().Submitted-before)
	}
}
