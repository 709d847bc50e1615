package jetstream

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-chain/troupe/primitives"
)

// Source is the log that is published.
type Source interface {
	// Records calls f for what is there from a place on, until f returns false or there is no more,
	// and says where to go on. ErrSource: there is no such place in the log, or not any more.
	Records(from string, f func(Record) bool) (next string, err error)
	// Beginning is where a stream begins that has nothing.
	Beginning() (string, error)
}

// ErrSource says that the log has no such place, or not any more.
var ErrSource = errors.New("jetstream: the log has no such place")

// PublisherOptions are what a Publisher works with.
type PublisherOptions struct {
	Link
	Names
	Source   Source
	MaxBytes int64         // of the stream
	MaxAge   time.Duration // of its messages; 0: any
	Replicas int           // of the stream, on a cluster of servers; 0: one
	Sign     func([]byte) primitives.Signature
	Said     func(err error) // when it can't publish, and with nil when it can again; never twice the same
	Now      func() time.Time
}

// Bounds of a Publisher.
const (
	MaxPending  = 64 // messages on their way to the server
	poll        = 100 * time.Millisecond
	firstPause  = 100 * time.Millisecond
	longest     = 5 * time.Second
	duplicates  = 2 * time.Minute // in which the server itself knows an id again
	metadataLog = "troupe-log"
)

// Published is how far a Publisher is.
type Published struct {
	Records uint64 // since it began
	Bytes   uint64
	Height  primitives.Height // of the last one
	Begun   uint64            // how often the stream was begun anew
	Seq     uint64            // the stream's last message that is known
	Log     string            // of which the stream is; empty: it is not known yet
	Failing bool
}

// Publisher brings a log into a stream.
type Publisher struct {
	sessions
	o                             PublisherOptions
	wake                          chan struct{}
	records, bytes, height, begun atomic.Uint64

	noted sync.Mutex // guards what follows
	log   string
	seq   uint64
}

// NewPublisher begins to publish, on a goroutine of its own.
func NewPublisher(o PublisherOptions) *Publisher {
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Publisher{o: o, wake: make(chan struct{}, 1)}
	p.begin(o.Said, p.session)
	return p
}

// Wake says that the log has more. It never waits.
func (p *Publisher) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Published says how far it is.
func (p *Publisher) Published() Published {
	p.noted.Lock()
	defer p.noted.Unlock()
	return Published{Seq: p.seq, Log: p.log, Records: p.records.Load(), Bytes: p.bytes.Load(), Height: primitives.Height(p.height.Load()), Begun: p.begun.Load(), Failing: p.failing.Load()}
}

// session publishes until something fails.
func (p *Publisher) session(ctx context.Context) error {
	gone := make(chan struct{})
	var once sync.Once
	conn, err := p.o.connect(nats.MaxReconnects(0), nats.ClosedHandler(func(*nats.Conn) { once.Do(func() { close(gone) }) }))
	if err != nil {
		return err
	}
	defer conn.Close()
	j, err := js.New(conn, js.WithPublishAsyncMaxPending(2*MaxPending), js.WithPublishAsyncTimeout(askTimeout))
	if err != nil {
		return err
	}
	s, err := p.stream(ctx, j)
	if err != nil {
		return fmt.Errorf("stream %s: %w", p.o.Stream, err)
	}
	at, err := p.end(ctx, j, s)
	if err != nil {
		return fmt.Errorf("stream %s: %w", p.o.Stream, err)
	}
	p.note(at.log, at.seq)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		if err := p.publish(ctx, j, at); err != nil {
			return err
		}
		p.say(nil)
		select {
		case <-ctx.Done():
			return nil
		case <-gone:
			return errors.New("jetstream: the connection has ended")
		case <-p.wake:
		case <-ticker.C:
		}
	}
}

func (p *Publisher) note(log string, seq uint64) {
	p.noted.Lock()
	p.log, p.seq = log, seq
	p.noted.Unlock()
}

// stream makes the stream, or sets its bounds.
func (p *Publisher) stream(ctx context.Context, j js.JetStream) (js.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c := js.StreamConfig{Name: p.o.Stream, Subjects: []string{p.o.Records}, Storage: js.FileStorage, Discard: js.DiscardOld, MaxBytes: p.o.MaxBytes, MaxAge: p.o.MaxAge,
		MaxMsgs: -1, Duplicates: duplicates, Replicas: max(1, p.o.Replicas), Description: "records of a Troupe node, for its replicas"}
	if p.o.MaxAge > 0 {
		c.Duplicates = min(c.Duplicates, p.o.MaxAge)
	}
	s, err := j.Stream(ctx, p.o.Stream)
	switch {
	case errors.Is(err, js.ErrStreamNotFound):
		c.Metadata = map[string]string{metadataLog: logName()}
	case err != nil:
		return nil, err
	default:
		c.Metadata = map[string]string{metadataLog: s.CachedInfo().Config.Metadata[metadataLog]}
		if c.Metadata[metadataLog] == "" {
			return nil, errors.New("it is not of a Troupe node")
		}
	}
	return j.CreateOrUpdateStream(ctx, c)
}

// logName draws a name for a log.
func logName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// place is where publishing goes on.
type place struct {
	log  string
	next string // in the log
	from string // of the record there whose first parts are published
	part int    // of the record there that are published already
	seq  uint64 // of the stream's last message
}

// end finds where the stream ends. Where that is no place of the log, the stream begins anew.
func (p *Publisher) end(ctx context.Context, j js.JetStream, s js.Stream) (*place, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := s.Info(ctx)
	if err != nil {
		return nil, err
	}
	at := &place{log: info.Config.Metadata[metadataLog], seq: info.State.LastSeq}
	if info.State.Msgs == 0 {
		if info.State.LastSeq > 0 { // they were too old: nobody knows where it ended
			return p.anew(ctx, j, s)
		}
		at.next, err = p.o.Source.Beginning()
		return at, err
	}
	m, err := s.GetMsg(ctx, info.State.LastSeq)
	if errors.Is(err, js.ErrMsgNotFound) { // somebody has removed it
		return p.anew(ctx, j, s)
	}
	if err != nil {
		return nil, err
	}
	last, err := parsePart(m.Header, m.Data)
	if err != nil { // it is another's
		return p.anew(ctx, j, s)
	}
	fits := false
	_, err = p.o.Source.Records(last.At, func(r Record) bool {
		fits = r.At == last.At && r.Next == last.Next && r.Hash == last.Hash && r.Back == last.Back && r.Height == last.Height
		return false
	})
	if err != nil && !errors.Is(err, ErrSource) {
		return nil, err
	}
	if !fits || last.Log != at.log {
		return p.anew(ctx, j, s)
	}
	at.next = last.Next
	if last.n < last.of {
		at.next, at.part = last.At, last.n
		at.from = last.From
	}
	return at, nil
}

// anew empties the stream and names another log. The name comes first, so that a crash between
// leaves a stream whose last message does not fit.
func (p *Publisher) anew(ctx context.Context, j js.JetStream, s js.Stream) (*place, error) {
	info, err := s.Info(ctx)
	if err != nil {
		return nil, err
	}
	c := info.Config
	c.Metadata = map[string]string{metadataLog: logName()}
	if s, err = j.UpdateStream(ctx, c); err != nil {
		return nil, err
	}
	if err := s.Purge(ctx); err != nil {
		return nil, err
	}
	p.begun.Add(1)
	at := &place{log: c.Metadata[metadataLog], seq: info.State.LastSeq}
	at.next, err = p.o.Source.Beginning()
	return at, err
}

// publish publishes what there is from a place on.
func (p *Publisher) publish(ctx context.Context, j js.JetStream, at *place) error {
	type sent struct {
		ack  js.PubAckFuture
		r    *Record
		last bool // of its record
		seq  uint64
	}
	var list []sent
	var failed error
	settle := func(most int) bool { // waits until no more than so many are on their way
		for failed == nil && len(list) > most {
			x := list[0]
			select {
			case ack := <-x.ack.Ok():
				if ack.Sequence != x.seq {
					failed = fmt.Errorf("jetstream: block %d came to be message %d, not %d", x.r.Height, ack.Sequence, x.seq)
				}
			case failed = <-x.ack.Err():
			case <-ctx.Done():
				failed = ctx.Err()
			}
			if list = list[1:]; failed == nil && x.last {
				p.note(at.log, x.seq)
				p.records.Add(1)
				p.bytes.Add(uint64(len(x.r.Payload)))
				p.height.Store(uint64(x.r.Height))
			}
		}
		return failed == nil
	}
	next, err := p.o.Source.Records(at.next, func(r Record) bool {
		if r.Log, r.From = at.log, at.next; at.part > 0 {
			r.From = at.from
		}
		parts := r.parts(p.o.Records, p.o.Now().UnixNano(), p.o.Sign)
		for i := min(at.part, len(parts)); i < len(parts); i++ {
			ack, err := j.PublishMsgAsync(parts[i], js.WithExpectLastSequence(at.seq))
			if err != nil {
				failed = err
				return false
			}
			at.seq++
			list = append(list, sent{ack, &r, i == len(parts)-1, at.seq})
		}
		at.next, at.part = r.Next, 0
		return settle(MaxPending)
	})
	settle(0)
	switch {
	case failed != nil:
		return fmt.Errorf("publish: %w", failed)
	case errors.Is(err, ErrSource): // garbage collection has gone by
		return err
	case err != nil:
		return err
	}
	at.next = next
	return nil
}
