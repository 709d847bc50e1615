package backend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/stream"
)

var _ stream.Source = (*Backend)(nil)

// Open begins a feed of the messages of this chain, in this process: a subscription whose subscriber is never too slow. Where it begins at a
// height above the chain's, it is waited for while the node catches up with others.
func (b *Backend) Open(ctx context.Context, q *stream.Query) (stream.Feed, error) {
	if err := b.awaitStart(ctx, q); err != nil {
		return nil, err
	}
	s := &view.Subscription{Topic: view.TopicMessages, Finality: q.Finality, Of: q.Shards, From: q.From, Lag: math.MaxInt64, Inside: true, Texts: new(atomic.Bool)}
	switch {
	case q.After != nil:
		s.After = &view.Cursor{At: view.At(*q.After), Index: view.WholeBlock}
	case q.From == nil:
		tip, err := follower{b: b}.Tip(q.Finality)
		if err != nil {
			return nil, err
		}
		s.After = &view.Cursor{At: tip, Index: view.NothingYet}
	}
	f := &feed{woken: make(chan struct{}, 1)}
	sub, err := b.Subscribe(s, f)
	var lost *view.CursorError
	switch {
	case errors.As(err, &lost):
		return nil, fmt.Errorf("%w: %w", stream.ErrGone, err)
	case isLookup(err):
		return nil, fmt.Errorf("%w: %w", stream.ErrAhead, err)
	case err != nil:
		return nil, err
	}
	f.sub = sub
	sub.Start()
	return f, nil
}

// syncLook is how often it is looked whether a node has caught up, which nobody says.
const syncLook = 50 * time.Millisecond

// awaitStart waits until a feed may begin.
func (b *Backend) awaitStart(ctx context.Context, q *stream.Query) error {
	for {
		moved := b.Submit.Moves()
		syncing := b.syncing()
		tip, err := follower{b: b}.Tip(q.Finality)
		if err != nil && !isLookup(err) {
			return err
		}
		there := err == nil && (q.From == nil || *q.From <= tip.Height)
		switch {
		case !syncing && !there && q.From != nil:
			return fmt.Errorf("%w: %d; it is at %d", stream.ErrAhead, *q.From, tip.Height)
		case there && !(q.Synced && syncing):
			return nil
		}
		look := time.NewTimer(syncLook)
		select {
		case <-moved:
		case <-look.C:
		case <-ctx.Done():
			look.Stop()
			return context.Cause(ctx)
		}
		look.Stop()
	}
}

// feedRoom is how many messages wait for a reader of this process: each of them is a block that is in memory, and its text is not made
// before he wants it.
const feedRoom = 16

// feed is the sink of a subscription in this process, and its reader's side.
type feed struct {
	sub   view.Subscriber
	woken chan struct{} // holds one: there is something to take

	mu    sync.Mutex
	queue []*view.Notice
	room  func()
	ended error
}

func (f *feed) wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}

// Offer is part of view.Sink.
func (f *feed) Offer(n *view.Notice) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) >= feedRoom {
		return false
	}
	f.queue = append(f.queue, n)
	f.wake()
	return true
}

// WhenRoom is part of view.Sink.
func (f *feed) WhenRoom(do func()) {
	f.mu.Lock()
	if len(f.queue) > feedRoom/2 {
		f.room = do
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	do()
}

// End is part of view.Sink.
func (f *feed) End(why view.EndReason, at *view.Cursor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = EndError(why, at.At)
	f.wake()
}

// EndError is what a feed ends with.
func EndError(why view.EndReason, at view.At) error {
	err := fmt.Errorf("the feed has ended: %s at block %d, %v", why, at.Height, at.Hash)
	if why == view.EndGone {
		err = fmt.Errorf("%w: %w", stream.ErrGone, err)
	}
	return err
}

// Next is part of stream.Feed.
func (f *feed) Next(ctx context.Context) (*stream.Message, error) {
	for {
		n, room, ended := f.take()
		if room != nil {
			room()
		}
		switch {
		case n != nil:
			return stream.FromNotice(n)
		case ended != nil:
			return nil, ended
		}
		select {
		case <-f.woken:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// take gives the next notice, and whom to tell of the room.
func (f *feed) take() (n *view.Notice, room func(), ended error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.queue) > 0 {
		n = f.queue[0]
		f.queue[0] = nil
		f.queue = f.queue[1:]
	}
	if len(f.queue) <= feedRoom/2 {
		room, f.room = f.room, nil
	}
	return n, room, f.ended
}

// At is part of stream.Feed.
func (f *feed) At() stream.Cursor { return stream.Cursor(f.sub.At().At) }

// Close is part of stream.Feed.
func (f *feed) Close() { f.sub.Cancel() }
