package jetstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-chain/troupe/primitives"
)

// FollowerOptions configures a Follower.
type FollowerOptions struct {
	Link
	Names
	Log string // name of the log whose records the Follower accepts; empty: any log
	// After is the sequence number of the last message that the caller has; 0: none. If the next
	// message was dropped from the stream, the Follower begins with the first available message.
	// Record.From shows whether that record continues the caller's data.
	After uint64
	By    *primitives.PublicKey
	// Said is called when the connection is lost, and with nil when the connection is restored.
	// Said is never called twice in a row with the same text.
	Said func(err error)
}

// Bounds of a Follower.
const (
	MaxAhead      = 64       // maximum number of received records that Next has not returned yet
	maxAheadBytes = 16 << 20 // maximum number of bytes per request to the server
	maxParts      = 2048     // maximum number of parts of a record, enough for the longest record of a log
)

// Follower receives the records of a stream, each once and in order.
type Follower struct {
	o    FollowerOptions
	conn *nats.Conn

	list   chan Record
	err    error // error that ended the Follower; set before list is closed
	cancel context.CancelFunc
	done   chan struct{}
	cut    atomic.Bool
	last   atomic.Uint64 // highest known sequence number in the stream
	taken  atomic.Uint64

	mu    sync.Mutex
	heard bool // a loss or restoration of the connection was reported to Said, or Said is nil
	said  string
}

// Follow starts to follow a stream in a goroutine. Close ends it.
func Follow(o FollowerOptions) (*Follower, error) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &Follower{o: o, list: make(chan Record, MaxAhead), cancel: cancel, done: make(chan struct{})}
	var err error
	f.conn, err = o.connect(nats.RetryOnFailedConnect(true))
	if err != nil {
		cancel()
		return nil, err
	}
	go f.run(ctx)
	return f, nil
}

// Next returns the next record. After ErrGap, ErrLog or ErrChanged no more records follow, and the
// caller needs another Follower. Record.From of the first record shows whether the record continues
// After, which it need not. Next must not be called concurrently.
func (f *Follower) Next(ctx context.Context) (Record, error) {
	select {
	case r, ok := <-f.list:
		if !ok {
			return Record{}, f.err
		}
		f.taken.Store(r.Seq)
		return r, nil
	case <-ctx.Done():
		return Record{}, ctx.Err()
	}
}

// Cut returns whether the server can't be reached.
func (f *Follower) Cut() bool { return f.cut.Load() }

// Behind returns how many messages of the stream wait for Next, as far as the Follower knows.
func (f *Follower) Behind() uint64 {
	last, taken := f.last.Load(), max(f.taken.Load(), f.o.After)
	return last - min(last, taken)
}

// Close ends the Follower.
func (f *Follower) Close() {
	f.cancel()
	<-f.done
	f.conn.Close()
}

func (f *Follower) report(err error) {
	f.cut.Store(err != nil)
	text := ""
	if err != nil {
		text = err.Error()
	}
	f.mu.Lock()
	same := f.heard && text == f.said
	f.heard, f.said = true, text
	f.mu.Unlock()
	if !same && f.o.Said != nil {
		f.o.Said(err)
	}
}

// run follows the stream until an error that a retry cannot fix.
func (f *Follower) run(ctx context.Context) {
	defer close(f.done)
	defer close(f.list)
	pause, after := firstPause, f.o.After
	for {
		begin := time.Now()
		err := f.session(ctx, &after)
		if ctx.Err() != nil {
			f.err = ctx.Err()
			return
		}
		if errors.Is(err, ErrGap) || errors.Is(err, ErrLog) || errors.Is(err, ErrChanged) {
			f.err = err
			return
		}
		f.report(err)
		if time.Since(begin) > maxPause {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// session follows the stream after a message until the connection is lost.
func (f *Follower) session(ctx context.Context, after *uint64) error {
	if !f.conn.IsConnected() {
		return errors.New("jetstream: no NATS server is reachable")
	}
	j, err := js.New(f.conn)
	if err != nil {
		return err
	}
	ask, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := j.Stream(ask, f.o.Stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", f.o.Stream, err)
	}
	info := s.CachedInfo()
	log := info.Config.Metadata[metadataLog]
	switch {
	case f.o.Log != "" && log != f.o.Log:
		return fmt.Errorf("%w: the stream is of log %q, expected log %q", ErrLog, log, f.o.Log)
	case *after > info.State.LastSeq:
		return fmt.Errorf("%w: the stream ends with message %d, but message %d was received before", ErrLog, info.State.LastSeq, *after)
	case *after > 0 && info.State.FirstSeq > *after+1:
		*after = 0
	}
	f.last.Store(info.State.LastSeq)
	c := js.ConsumerConfig{AckPolicy: js.AckNonePolicy, DeliverPolicy: js.DeliverAllPolicy, MemoryStorage: true,
		Replicas: 1, InactiveThreshold: time.Minute}
	if *after > 0 {
		c.DeliverPolicy, c.OptStartSeq = js.DeliverByStartSequencePolicy, *after+1
	}
	consumer, err := s.CreateConsumer(ask, c)
	if err != nil {
		return fmt.Errorf("stream %s: %w", f.o.Stream, err)
	}
	defer func() {
		ask, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		// An error is ignored, because the server deletes unused consumers anyway.
		_ = s.DeleteConsumer(ask, consumer.CachedInfo().Name)
	}()
	m, err := consumer.Messages(js.PullMaxBytes(maxAheadBytes), js.PullHeartbeat(2*time.Second),
		js.PullExpiry(10*time.Second), js.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return err
	}
	stopped := make(chan struct{})
	defer close(stopped)
	go func() {
		select {
		case <-ctx.Done():
		case <-stopped:
		}
		m.Stop()
	}()
	f.report(nil)
	return f.take(ctx, m, log, after)
}

// take joins parts to records.
func (f *Follower) take(ctx context.Context, m js.MessagesContext, log string, after *uint64) error {
	var parts []part
	size, seq := 0, *after
	for first := true; ; first = false {
		msg, err := m.Next()
		if err != nil {
			return err
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		// the messages in between were dropped after the consumer was created
		if first && meta.Sequence.Stream > seq+1 {
			seq, *after = 0, 0
		}
		if seq > 0 && meta.Sequence.Stream != seq+1 {
			return fmt.Errorf("%w: message %d came after message %d, expected the next number", ErrGap, meta.Sequence.Stream, seq)
		}
		seq = meta.Sequence.Stream
		f.last.Store(max(f.last.Load(), seq+meta.NumPending))
		p, err := parsePart(msg.Headers(), msg.Data())
		if err != nil {
			return fmt.Errorf("message %d: %w", seq, err)
		}
		if p.of > maxParts || len(p.Payload) > PartSize {
			return fmt.Errorf("%w: message %d has %d bytes, which do not fit a record of %d parts", ErrChanged, seq, len(p.Payload), p.of)
		}
		if p.Log != log {
			return fmt.Errorf("%w: message %d is of log %q, expected log %q", ErrLog, seq, p.Log, log)
		}
		switch {
		case p.n == 1:
			parts, size = parts[:0], 0
		case len(parts) == 0 && *after == 0: // the stream has lost the first parts of its first record
			continue
		case len(parts) != p.n-1 || parts[0].At != p.At || parts[0].of != p.of:
			return fmt.Errorf("%w: message %d is part %d of the record at %s, which is not the next part", ErrChanged, seq, p.n, p.At)
		}
		if parts, size = append(parts, p), size+len(p.Payload); p.n < p.of {
			continue
		}
		whole := p
		if len(parts) > 1 {
			whole.Payload = make([]byte, 0, size)
			for i := range parts {
				whole.Payload = append(whole.Payload, parts[i].Payload...)
			}
		}
		parts = nil
		if err := whole.check(f.o.By); err != nil {
			return fmt.Errorf("message %d: %w", seq, err)
		}
		whole.Seq, whole.Pending = seq, meta.NumPending
		select {
		case f.list <- whole.Record:
			*after, f.o.Log = seq, log // from now on, records of another log are an error
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
