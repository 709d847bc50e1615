package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/session"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// inline is a dispatcher that runs actors on the sender's goroutine while on is set.
type inline struct{ on atomic.Bool }

func (d *inline) Schedule(fn func()) {
	if d.on.Load() {
		fn()
		return
	}
	go fn()
}

func (d *inline) Throughput() int { return 300 }

// TestRequestIsAnsweredIfSessionFailsTwice: a session fails while a request is on its way to it.
// The next session takes the request and fails too. The client is answered at once, even if both
// fail before it notices the first failure.
func TestRequestIsAnsweredIfSessionFailsTwice(t *testing.T) {
	var at messages.SessionID
	var s *sandbox
	var d inline
	s = start(t, 1, func(o *Options) {
		o.Mode, o.Limits.Wait, o.hooks.dispatcher = production.Manual, time.Minute, &d
		o.hooks.trip = func(kind string, m any, after bool) {
			switch r := m.(type) {
			case session.Request:
				if r.Waiter.Session == at && kind == "rpc" && !after {
					s.sessionHandles.of(at).fail()
				}
				if r.Waiter.Session == at && kind == "session" && after {
					s.tell(s.rpc, messages.ForgetTransaction{Waiter: r.Waiter})
				}
			case *actor.Terminated: // its waiter has ended
				if kind == "session" && !after {
					panic("the next one fails, too")
				}
			}
		}
	})
	ctx, done, err := s.OpenSession(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	at = messages.SessionOf(ctx)
	s.waitIdle(t)
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	d.on.Store(true)
	_, err = s.Tx(ctx, &view.GetTx{Hash: primitives.Hash{1}, WaitUntil: view.LevelFinal})
	d.on.Store(false)
	if !errors.Is(err, session.ErrFailed) {
		t.Errorf("%v, want %v", err, session.ErrFailed)
	}
}

// TestDisconnectedClientIsNoFailure: if a client disconnects at any point of its wait, that is not
// treated as a failure and nothing is logged.
func TestDisconnectedClientIsNoFailure(t *testing.T) {
	var leave func()
	var s *sandbox
	var d inline
	s = start(t, 1, func(o *Options) {
		o.Mode, o.Limits.Wait, o.hooks.dispatcher = production.Manual, time.Minute, &d
		o.hooks.trip = func(kind string, m any, after bool) {
			if _, ok := m.(session.Request); ok && kind == "rpc" && !after && leave != nil {
				leave()
			}
		}
	})
	for i := range 40 {
		ctx, done, err := s.OpenSession(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.waitIdle(t)
		if leave = done; i%2 == 0 { // leave before the request is sent, or while it is on its way
			done()
			leave = nil
		}
		d.on.Store(true)
		_, err = s.Tx(ctx, &view.GetTx{Hash: primitives.Hash{1}, WaitUntil: view.LevelFinal})
		d.on.Store(false)
		leave = nil
		var e *view.LookupError
		if !errors.As(err, &e) || e.Kind != view.ErrTimeout {
			t.Fatalf("round %d: %v", i, err)
		}
	}
}
