package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/actors/session"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// gate stops an actor before it handles the next messages that stops returns true for.
type gate struct {
	stops func(kind string, m any) bool

	mu     sync.Mutex
	closed chan struct{}
}

func (g *gate) trip(kind string, m any, after bool) {
	if after || !g.stops(kind, m) {
		return
	}
	g.mu.Lock()
	c := g.closed
	g.mu.Unlock()
	if c != nil {
		<-c
	}
}

// hold closes the gate and returns what opens it.
func (g *gate) hold() (release func()) {
	c := make(chan struct{})
	g.mu.Lock()
	g.closed = c
	g.mu.Unlock()
	return sync.OnceFunc(func() {
		g.mu.Lock()
		g.closed = nil
		g.mu.Unlock()
		close(c)
	})
}

// TestWaitIsNotBehindReads: at each block until a transfer is final, while readers see the block
// and txtracker does not, a second submission gets no lower level than a read before it, whether
// the wait ends at once or times out.
func TestWaitIsNotBehindReads(t *testing.T) {
	for _, shards := range []int{1, 4} {
		t.Run(fmt.Sprintf("shards=%d", shards), func(t *testing.T) {
			// the chain's actor reports a block to txtracker after the engine shows it to readers
			g := &gate{stops: func(kind string, m any) bool { return kind == "chain" && fmt.Sprintf("%T", m) == "chain.stored" }}
			s := start(t, shards, func(o *Options) { o.Mode, o.hooks.trip = production.Manual, g.trip })
			tx := s.tx("near", transfer(1))
			if _, err := s.Submit(tx); err != nil {
				t.Fatal(err)
			}
			read := func() view.ExecutionLevel {
				out, err := s.Tx(t.Context(), &view.GetTx{Hash: tx.Hash(), WaitUntil: view.LevelNone})
				if errors.Is(err, view.ErrUnknownTx) {
					return view.LevelNone
				}
				if err != nil {
					t.Fatal(err)
				}
				return out.Level
			}
			// level returns what an answer or a timeout says of the transaction.
			level := func(out *view.FinalOutcome, err error) view.ExecutionLevel {
				var late *view.LookupError
				switch {
				case errors.As(err, &late) && late.Kind == view.ErrTimeout:
					if late.Level != view.LevelNone && (late.Status == nil || late.Status.Level != late.Level) {
						t.Errorf("a timeout at %v has the status %+v", late.Level, late.Status)
					}
					return late.Level
				case err != nil:
					t.Errorf("sent again: %v", err)
					return view.LevelNone
				}
				if alone := out.Level == view.LevelIncluded; alone != (out.Transaction == nil) {
					t.Errorf("an answer with %v has the transaction %v", out.Level, out.Transaction)
				}
				return out.Level
			}
			var checked int
			for tracked := view.LevelNone; tracked < view.LevelFinal; {
				before := s.e.Head().Height()
				release := g.hold()
				t.Cleanup(release)
				mined := make(chan error, 1)
				go func() {
					_, _, err := s.Mine(t.Context(), 1)
					mined <- err
				}()
				until(t, func() bool { return s.e.Head().Height() > before })
				seen := read()
				if tracked != view.LevelNone {
					checked++
					out, err := s.SendTx(t.Context(), &view.SendTx{Tx: tx, WaitUntil: tracked})
					if got := level(out, err); got < seen {
						t.Errorf("sent again with %v: %v after a read of %v", tracked, got, seen)
					}
				}
				if seen != view.LevelNone {
					ctx, stop := context.WithTimeout(t.Context(), 200*time.Millisecond)
					out, err := s.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: view.LevelFinal})
					if got := level(out, err); got < seen {
						t.Errorf("sent again with FINAL, timed out: %v after a read of %v", got, seen)
					}
					if seen < view.LevelFinal {
						out, err = s.Tx(ctx, &view.GetTx{Hash: tx.Hash(), WaitUntil: view.LevelFinal})
						if got := level(out, err); got < seen {
							t.Errorf("a wait for FINAL timed out with %v after a read of %v", got, seen)
						}
					}
					stop()
				}
				release()
				if err := <-mined; err != nil {
					t.Fatal(err)
				}
				tracked = seen
			}
			if checked < 2 {
				t.Errorf("%d blocks between inclusion and finality were checked, want at least 2", checked)
			}
		})
	}
}

// TestWaitIsNotAheadAfterRollback: a request that arrived before a rollback is answered as of the
// new chain, although readers had seen more of the old one.
func TestWaitIsNotAheadAfterRollback(t *testing.T) {
	g := &gate{stops: func(kind string, m any) bool { _, is := m.(session.Request); return kind == "session" && is }}
	s := start(t, 1, func(o *Options) { o.Mode, o.hooks.trip = production.Manual, g.trip })
	mine := func(n uint64) {
		t.Helper()
		if _, _, err := s.Mine(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	mine(3)
	snapshot, err := s.TakeSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx := s.tx("near", transfer(1))
	mine(10)
	ctx, done, err := s.OpenSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	release := g.hold()
	defer release()
	type answer struct {
		out *view.FinalOutcome
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		out, err := s.SendTx(ctx, &view.SendTx{Tx: tx, WaitUntil: view.LevelExecutedOptimistic})
		answered <- answer{out, err}
	}()
	until(t, func() bool { return s.admission.pending.Load() == 1 })
	if err := s.Rollback(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	release()
	until(t, func() bool { return s.Waiting() == 1 })
	for {
		mine(1)
		select {
		case a := <-answered:
			if a.err != nil || a.out.Level != view.LevelExecutedOptimistic {
				t.Errorf("%+v, %v, want EXECUTED_OPTIMISTIC", a.out, a.err)
			}
			return
		case <-time.After(100 * time.Millisecond):
		}
		if s.e.Head().Height() > primitives.Height(snapshot.Height)+5 {
			t.Fatal("it is not answered")
		}
	}
}
