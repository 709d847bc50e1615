package jetstream

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// sessions are one after the other, each until something fails, with a pause in between that
// doubles while they are short.
type sessions struct {
	said    func(err error) // never twice the same
	cancel  context.CancelFunc
	done    chan struct{}
	failing atomic.Bool

	mu   sync.Mutex
	last string // what was said
}

// begin has them go on a goroutine of their own.
func (s *sessions) begin(said func(error), session func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	s.said, s.cancel, s.done = said, cancel, make(chan struct{})
	go s.run(ctx, session)
}

// Close ends it; what is not published is when the next one begins.
func (s *sessions) Close() {
	s.cancel()
	<-s.done
}

func (s *sessions) say(err error) {
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

func (s *sessions) run(ctx context.Context, session func(context.Context) error) {
	defer close(s.done)
	pause := firstPause
	for ctx.Err() == nil {
		begin := time.Now()
		err := session(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begin) > longest {
			pause = firstPause
		}
		s.say(err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longest)
	}
}
