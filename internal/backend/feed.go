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

// Open opens an in-process feed of this chain's messages. The feed is a subscription that is never
// dropped for being slow. If the start is above the chain's height while the node is syncing, Open
// waits. Open returns stream.ErrAhead for a start above the chain of a synced node, and
// stream.ErrGone for a start at a collected block.
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

// syncLook is the interval at which awaitStart polls whether the node has caught up. There is no
// notification of that.
const syncLook = 50 * time.Millisecond

// awaitStart waits until a feed can start.
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
			return fmt.Errorf("%w: %d requested, the chain is at %d", stream.ErrAhead, *q.From, tip.Height)
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

// feedRoom is the number of messages that a feed buffers for its reader. Each message keeps a block
// in memory. The message's JSON is encoded when the reader reads the message.
const feedRoom = 16

// feed is an in-process subscription. A feed is the sink into which the subscriptions actor writes
// (view.Sink), and the feed from which the reader reads (stream.Feed).
type feed struct {
	sub   view.Subscriber
	woken chan struct{} // signals that queue has a message or the feed has ended; capacity 1

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

// Offer implements view.Sink.
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

// WhenRoom implements view.Sink.
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

// End implements view.Sink.
func (f *feed) End(why view.EndReason, at *view.Cursor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = EndError(why, at.At)
	f.wake()
}

// EndError returns the error with which a feed ends. The error wraps stream.ErrGone if the next
// block is collected.
func EndError(why view.EndReason, at view.At) error {
	err := fmt.Errorf("the stream of blocks ended after block %d (%v): %s", at.Height, at.Hash, why)
	if why == view.EndGone {
		err = fmt.Errorf("%w: %w", stream.ErrGone, err)
	}
	return err
}

// Next implements stream.Feed.
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

// take returns the next notice, or nil if there is none. room is the callback to run because the
// buffer now has space, or nil. ended is set once the feed has ended.
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

// At implements stream.Feed.
func (f *feed) At() stream.Cursor { return stream.Cursor(f.sub.At().At) }

// Close implements stream.Feed.
func (f *feed) Close() { f.sub.Cancel() }
