package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestTimeoutErrorHasKnownStatus: a wait times out by its own timer or by its client's deadline.
// The error says whether a block includes the transaction, and has its status in that case. Nothing
// is read for a client that has disconnected.
func TestTimeoutErrorHasKnownStatus(t *testing.T) {
	const wait = 400 * time.Millisecond
	for _, by := range []string{"timer", "deadline"} {
		t.Run(by, func(t *testing.T) {
			s := start(t, 1, func(o *Options) {
				o.Mode, o.Limits.Wait = production.Manual, wait
				if by == "deadline" {
					o.Limits.Wait = time.Minute
				}
			})
			limited := func() context.Context {
				if by == "timer" {
					return t.Context()
				}
				ctx, stop := context.WithTimeout(t.Context(), wait)
				t.Cleanup(stop)
				return ctx
			}
			timedOut := func(what string, out *view.FinalOutcome, err error) *view.LookupError {
				t.Helper()
				var e *view.LookupError
				if !errors.As(err, &e) || e.Kind != view.ErrTimeout {
					t.Fatalf("%s: %+v, %v, want a timeout", what, out, err)
				}
				return e
			}

			out, err := s.Tx(limited(), &view.GetTx{Hash: primitives.Hash{1}, WaitUntil: view.LevelFinal})
			if e := timedOut("unknown", out, err); e.Level != view.LevelNone || e.Cause != view.TimeoutNotObserved || e.Status != nil {
				t.Errorf("unknown: %+v", e)
			}
			tx := s.tx("near", transfer(1))
			out, err = s.SendTx(limited(), &view.SendTx{Tx: tx, WaitUntil: view.LevelFinal})
			if e := timedOut("pooled", out, err); e.Level != view.LevelNone || e.Cause != view.TimeoutNotObserved || e.Status != nil {
				t.Errorf("pooled: %+v", e)
			}
			if _, _, err := s.Mine(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			out, err = s.Tx(limited(), &view.GetTx{Hash: tx.Hash(), WaitUntil: view.LevelFinal, Receipts: true})
			e := timedOut("executed", out, err)
			if e.Level < view.LevelExecutedOptimistic || e.Level >= view.LevelFinal || e.Status == nil || e.Status.Level != e.Level ||
				e.Status.Transaction == nil || len(e.Status.Outcomes) == 0 || len(e.Status.Receipts) == 0 {
				t.Errorf("executed: %+v, status %+v", e, e.Status)
			}
			if by == "timer" {
				return
			}
			reads := func() uint64 { _, n, _ := s.statusGroup.stats(); return n }
			before := reads()
			ctx, hangUp := context.WithCancel(t.Context())
			time.AfterFunc(wait, hangUp)
			out, err = s.Tx(ctx, &view.GetTx{Hash: tx.Hash(), WaitUntil: view.LevelFinal})
			if e := timedOut("gone", out, err); e.Status != nil || reads() != before+1 {
				t.Errorf("disconnected: %+v, %d reads, want only the one before the wait", e, reads()-before)
			}
		})
	}
}
