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

// FollowerOptions are what a Follower works with.
type FollowerOptions struct {
	Link
	Names
	Log string // of which the follower has records; empty: any
	// After is the stream's message behind which it goes on; 0: the first that there is. If the
	// next one is not in the stream any more it goes on with the first that is: whether that
	// follows on what its user has, Record.From says.
	After uint64
	By    *primitives.PublicKey
	Said  func(err error) // when it is cut off, and with nil when it is not any more; never twice the same
}

// Bounds of a Follower.
const (
	MaxAhead      = 64       // records that nobody has taken
	maxAheadBytes = 16 << 20 // asked for at once
	maxParts      = 2048     // of a record, which is as long as one of the store's log may be
)

// Follower gets the records of a stream, each once and in their order.
type Follower struct {
	o    FollowerOptions
	conn *nats.Conn

	list   chan Record
	err    error // why no more come; behind the end of list
	cancel context.CancelFunc
	done   chan struct{}
	cut    atomic.Bool
	last   atomic.Uint64 // of the stream's messages, as far as it is known
	taken  atomic.Uint64

	mu    sync.Mutex
	heard bool // anything was said
	said  string
}

// Follow begins.
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

// Next returns the next record. ErrGap, ErrLog, ErrChanged: none follows, and another Follower is
// needed. The first one may follow on another record than the one that was asked for (After):
// Record.From says.
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

// Cut tells whether the server can't be reached, and Behind how many messages there are that nobody
// has taken, as far as is known.
func (f *Follower) Cut() bool { return f.cut.Load() }

// Behind is how many messages of the stream nobody has taken.
func (f *Follower) Behind() uint64 {
	last, taken := f.last.Load(), max(f.taken.Load(), f.o.After)
	return last - min(last, taken)
}

// Close ends it.
func (f *Follower) Close() {
	f.cancel()
	<-f.done
	f.conn.Close()
}

func (f *Follower) say(err error) {
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

// run follows until something is wrong that another try does not mend.
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
		f.say(err)
		if time.Since(begin) > longest {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longest)
	}
}

// session follows behind a message until the server is gone.
func (f *Follower) session(ctx context.Context, after *uint64) error {
	if !f.conn.IsConnected() {
		return errors.New("jetstream: no server")
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
		return fmt.Errorf("%w: %q, not %q", ErrLog, log, f.o.Log)
	case *after > info.State.LastSeq:
		return fmt.Errorf("%w: it ends with message %d, and %d came of it", ErrLog, info.State.LastSeq, *after)
	case *after > 0 && info.State.FirstSeq > *after+1:
		*after = 0
	}
	f.last.Store(info.State.LastSeq)
	c := js.ConsumerConfig{AckPolicy: js.AckNonePolicy, DeliverPolicy: js.DeliverAllPolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute}
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
		_ = s.DeleteConsumer(ask, consumer.CachedInfo().Name) // else it goes by itself
	}()
	m, err := consumer.Messages(js.PullMaxBytes(maxAheadBytes), js.PullHeartbeat(2*time.Second), js.PullExpiry(10*time.Second), js.WithMessagesErrOnMissingHeartbeat(true))
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
	f.say(nil)
	return f.take(ctx, m, log, after)
}

// take puts the parts of records together.
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
		if first && meta.Sequence.Stream > seq+1 { // those between went meanwhile
			seq, *after = 0, 0
		}
		if seq > 0 && meta.Sequence.Stream != seq+1 {
			return fmt.Errorf("%w: message %d behind %d", ErrGap, meta.Sequence.Stream, seq)
		}
		seq = meta.Sequence.Stream
		f.last.Store(max(f.last.Load(), seq+meta.NumPending))
		p, err := parsePart(msg.Headers(), msg.Data())
		if err != nil {
			return fmt.Errorf("message %d: %w", seq, err)
		}
		if p.of > maxParts || len(p.Payload) > PartSize {
			return fmt.Errorf("%w: message %d has %d bytes, and is of a record of %d parts", ErrChanged, seq, len(p.Payload), p.of)
		}
		if p.Log != log {
			return fmt.Errorf("%w: message %d is of %q, not of %q", ErrLog, seq, p.Log, log)
		}
		switch {
		case p.n == 1:
			parts, size = parts[:0], 0
		case len(parts) == 0 && *after == 0: // the stream begins in the middle of a record
			continue
		case len(parts) != p.n-1 || parts[0].At != p.At || parts[0].of != p.of:
			return fmt.Errorf("%w: message %d is part %d of %s", ErrChanged, seq, p.n, p.At)
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
			*after, f.o.Log = seq, log // behind it no other log goes on
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
