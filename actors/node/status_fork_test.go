package node

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestWaitInTurnContinuesAfterFork: a wait has its answer, but before its turn to read the status,
// a branch without the transaction becomes canonical. The wait continues until that branch includes
// the transaction, and holds no turn meanwhile.
func TestWaitInTurnContinuesAfterFork(t *testing.T) {
	s := start(t, 1, func(o *Options) { o.Mode, o.Limits.Wait = production.Manual, time.Minute })
	tx := s.tx("near", transfer(1))
	var held, turns atomic.Int64
	var once sync.Once
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	ctx = messages.WithTurn(ctx, messages.Turn{Take: func() {
		held.Add(1)
		turns.Add(1)
		once.Do(func() {
			if _, err := s.Reorganise(t.Context(), 2); err != nil {
				t.Errorf("reorganisation: %v", err)
			}
		})
	}, Leave: func() { held.Store(0) }})
	type answer struct {
		out *view.FinalOutcome
		err error
	}
	done := make(chan answer, 1)
	go func() {
		out, err := s.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: view.LevelExecutedOptimistic})
		done <- answer{out, err}
	}()
	until(t, func() bool { return s.Stats().Pooled == 1 }) // it is back; only this test mines
	if _, _, err := s.Mine(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	until(t, func() bool {
		return turns.Load() == 1 && s.e.Head().Height() == 3 && (len(done) == 1 || s.Stats().Parked == 1 && held.Load() == 0)
	})
	if len(done) == 1 {
		a := <-done
		t.Fatalf("the wait ended with the replaced branch: %+v, %v", a.out, a.err)
	}
	until(t, func() bool { return s.Stats().Pooled == 1 }) // it is back; only this test mines
	if _, _, err := s.Mine(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	a := <-done
	if a.err != nil || a.out.Level != view.LevelExecutedOptimistic || len(a.out.Outcomes) != 1 || turns.Load() != 2 ||
		held.Load() != 1 {
		t.Errorf("%+v, %v, in turn %d times, %d held", a.out, a.err, turns.Load(), held.Load())
	}
}
