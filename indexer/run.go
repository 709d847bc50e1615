package indexer

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-chain/troupe/stream"
)

// Handler takes a message. An error ends Run, unless it is that of the message's JSON: then the
// message comes again, or what has come in its place. It is not called again before it has
// returned, and nothing is lost while it works.
type Handler func(context.Context, *Message) error

// Between two tries, the first and the longest pause.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Run hands messages to a handler until that fails, the context ends, or what comes next cannot be
// had any more. It tries for ever to reach its source.
func Run(ctx context.Context, c Config, handle Handler) error {
	r := runner{c: c, q: c.query(), handle: handle}
	for {
		err := r.once(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case r.failed, stream.Permanent(err) && !((r.began || r.q.After != nil) && errors.Is(err, ErrAhead)): // a node may be behind what it, or another, has told
			return err
		}
		if c.OnTrouble != nil {
			c.OnTrouble(err)
		}
		r.pause = min(max(2*r.pause, firstPause), lastPause)
		wait := time.NewTimer(r.pause)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
		}
	}
}

type runner struct {
	c      Config
	q      *stream.Query
	handle Handler
	pause  time.Duration
	began  bool // a feed has been open
	failed bool // the handler has
}

// once reads one feed to its end.
func (r *runner) once(ctx context.Context) error {
	feed, err := r.c.Source.Open(ctx, r.q)
	if err != nil {
		return err
	}
	defer feed.Close()
	if r.began = true; r.q.After == nil && r.q.From == nil { // the next feed begins where this one has
		at := feed.At().Height
		r.q.From = &at
	}
	for {
		if err := context.Cause(ctx); err != nil { // a feed gives what it has, whatever the context says
			return err
		}
		m, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		if err := r.handle(ctx, m); err != nil {
			lacks := m.Failed() // then the source has failed, and a new feed says what has become of the block
			r.failed = lacks == nil || !errors.Is(err, lacks)
			return err
		}
		at := m.Cursor
		r.q.After, r.q.From, r.pause = &at, nil, 0
	}
}
