package indexer

import (
	"context"
	"errors"
	"time"

	"github.com/troupe-chain/troupe/stream"
)

// Handler handles one message. The error of a Handler ends Run, unless that error comes from the
// message's JSON method. In that case the message, or the message that has replaced it, is
// delivered again. There are no concurrent calls, and no messages are lost during a call.
type Handler func(context.Context, *Message) error

// The first and the longest pause between two attempts to open a feed.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Run calls handle with the messages of a stream until handle fails, the context ends, or the next
// block is no longer available. Run retries indefinitely if the source cannot be reached.
func Run(ctx context.Context, c Config, handle Handler) error {
	r := runner{c: c, q: c.query(), handle: handle}
	for {
		err := r.once(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		// Once the stream has begun, ErrAhead means only that this node lags behind the one used before.
		case r.failed, stream.Permanent(err) && !((r.began || r.q.After != nil) && errors.Is(err, ErrAhead)):
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
	began  bool // a feed was opened since Run began
	failed bool // the handler returned an error that ends Run
}

// once opens one feed and reads the feed to its end.
func (r *runner) once(ctx context.Context) error {
	feed, err := r.c.Source.Open(ctx, r.q)
	if err != nil {
		return err
	}
	defer feed.Close()
	if r.began = true; r.q.After == nil && r.q.From == nil { // the next feed starts at the same block as this one
		at := feed.At().Height
		r.q.From = &at
	}
	for {
		if err := context.Cause(ctx); err != nil { // a feed may return buffered messages although the context has ended
			return err
		}
		m, err := feed.Next(ctx)
		if err != nil {
			return err
		}
		if err := r.handle(ctx, m); err != nil {
			lacks := m.Failed() // the source failed to make the JSON; a new feed shows whether the block still exists
			r.failed = lacks == nil || !errors.Is(err, lacks)
			return err
		}
		at := m.Cursor
		r.q.After, r.q.From, r.pause = &at, nil, 0
	}
}
