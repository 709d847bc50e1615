package jetstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// reconnectLoop runs sessions one after another. A session runs until it fails. The pause between
// two sessions doubles while sessions are short.
type reconnectLoop struct {
	said    func(err error) // reports an error, or nil; not called twice in a row with the same text
	cancel  context.CancelFunc
	done    chan struct{}
	failing atomic.Bool

	mu   sync.Mutex
	last string // last reported text
}

// begin starts the loop in a goroutine.
func (s *reconnectLoop) begin(said func(error), session func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	s.said, s.cancel, s.done = said, cancel, make(chan struct{})
	go s.run(ctx, session)
}

// Close ends the loop. Unpublished records are left to the next loop.
func (s *reconnectLoop) Close() {
	s.cancel()
	<-s.done
}

func (s *reconnectLoop) report(err error) {
	s.failing.Store(err != nil)
	text := ""
	if err != nil {
		text = err.Error()
	}
	s.mu.Lock()
	same := text == s.last
	s.last = text
	s.mu.Unlock()
	if !same && s.said != nil {
		s.said(err)
	}
}

func (s *reconnectLoop) run(ctx context.Context, session func(context.Context) error) {
	defer close(s.done)
	pause := firstPause
	for ctx.Err() == nil {
		begin := time.Now()
		err := session(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begin) > maxPause {
			pause = firstPause
		}
		s.report(err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}
