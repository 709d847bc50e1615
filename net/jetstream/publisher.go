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

// Source is the log to publish.
type Source interface {
	// Records calls f for the records from a position on, until f returns false or there are no
	// more records. Records returns the position from which to continue. It returns ErrSource if
	// the log does not have the position `from`, or no longer has that position.
	Records(from string, f func(Record) bool) (next string, err error)
	// Beginning returns the position at which an empty stream starts.
	Beginning() (string, error)
}

// ErrSource means that the log does not have a position, or no longer has that position.
var ErrSource = errors.New("jetstream: the block log does not have that position")

// PublisherOptions configures a Publisher.
type PublisherOptions struct {
	Link
	Names
	Source   Source
	MaxBytes int64         // maximum size of the stream in bytes
	MaxAge   time.Duration // maximum age of the stream's messages; 0: unlimited
	Replicas int           // number of replicas of the stream in a cluster of servers; 0: one
	Sign     func([]byte) primitives.Signature
	// Said is called when publishing fails, and with nil when publishing works again. Said is never
	// called twice in a row with the same text.
	Said func(err error)
	Now  func() time.Time
}

// Bounds of a Publisher.
const (
	MaxPending  = 64 // maximum number of messages that the server has not acknowledged yet
	poll        = 100 * time.Millisecond
	firstPause  = 100 * time.Millisecond
	maxPause    = 5 * time.Second
	duplicates  = 2 * time.Minute // period in which the server suppresses messages with duplicate ids
	metadataLog = "troupe-log"
)

// Published is the progress of a Publisher.
type Published struct {
	Records uint64 // number of published records since the start
	Bytes   uint64
	Height  primitives.Height // height of the last published record
	Begun   uint64            // number of times that the stream was deleted and begun anew
	Seq     uint64            // highest known sequence number in the stream
	Log     string            // name of the log that the stream contains; empty: not known yet
	Failing bool
}

// Publisher publishes a log to a stream.
type Publisher struct {
	reconnectLoop
	o                             PublisherOptions
	wake                          chan struct{}
	records, bytes, height, begun atomic.Uint64

	posMu sync.Mutex // guards log and seq
	log   string
	seq   uint64
}

// NewPublisher starts to publish in a goroutine. Close ends it.
func NewPublisher(o PublisherOptions) *Publisher {
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Publisher{o: o, wake: make(chan struct{}, 1)}
	p.begin(o.Said, p.session)
	return p
}

// Wake reports that the log has more records. Wake never blocks. Safe for concurrent use.
func (p *Publisher) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Published returns the progress. Safe for concurrent use.
func (p *Publisher) Published() Published {
	p.posMu.Lock()
	defer p.posMu.Unlock()
	return Published{Seq: p.seq, Log: p.log, Records: p.records.Load(), Bytes: p.bytes.Load(),
		Height: primitives.Height(p.height.Load()), Begun: p.begun.Load(), Failing: p.failing.Load()}
}

// session publishes until an error occurs.
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
	p.setPosition(at.log, at.seq)
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for {
		if err := p.publish(ctx, j, at); err != nil {
			return err
		}
		p.report(nil)
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

func (p *Publisher) setPosition(log string, seq uint64) {
	p.posMu.Lock()
	p.log, p.seq = log, seq
	p.posMu.Unlock()
}

// stream creates the stream, or updates the bounds of the existing stream.
func (p *Publisher) stream(ctx context.Context, j js.JetStream) (js.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c := js.StreamConfig{Name: p.o.Stream, Subjects: []string{p.o.Records}, Storage: js.FileStorage,
		Discard: js.DiscardOld, MaxBytes: p.o.MaxBytes, MaxAge: p.o.MaxAge,
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
			return nil, errors.New("the stream was not created by a Troupe node")
		}
	}
	return j.CreateOrUpdateStream(ctx, c)
}

// logName returns a random name for a log.
func logName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// position is the point in the log and in the stream at which publishing continues.
type position struct {
	log  string
	next string // log position of the next record
	from string // field From of the next record, if some of its parts are published
	part int    // number of published parts of the next record
	seq  uint64 // sequence number of the stream's last message
}

// end determines where the stream ends. If the log does not have that position, end resets the
// stream.
func (p *Publisher) end(ctx context.Context, j js.JetStream, s js.Stream) (*position, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := s.Info(ctx)
	if err != nil {
		return nil, err
	}
	at := &position{log: info.Config.Metadata[metadataLog], seq: info.State.LastSeq}
	if info.State.Msgs == 0 {
		if info.State.LastSeq > 0 { // all messages have expired, so the stream's position in the log is unknown
			return p.reset(ctx, j, s)
		}
		at.next, err = p.o.Source.Beginning()
		return at, err
	}
	m, err := s.GetMsg(ctx, info.State.LastSeq)
	if errors.Is(err, js.ErrMsgNotFound) { // the last message was deleted
		return p.reset(ctx, j, s)
	}
	if err != nil {
		return nil, err
	}
	last, err := parsePart(m.Header, m.Data)
	if err != nil { // the last message does not have the form of a record
		return p.reset(ctx, j, s)
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
		return p.reset(ctx, j, s)
	}
	at.next = last.Next
	if last.n < last.of {
		at.next, at.part = last.At, last.n
		at.from = last.From
	}
	return at, nil
}

// reset empties the stream and renames its log. reset changes the name first. So after a crash
// before the stream is emptied, the stream's last message does not match the stream's log.
func (p *Publisher) reset(ctx context.Context, j js.JetStream, s js.Stream) (*position, error) {
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
	at := &position{log: c.Metadata[metadataLog], seq: info.State.LastSeq}
	at.next, err = p.o.Source.Beginning()
	return at, err
}

// publish publishes the records from a position on.
func (p *Publisher) publish(ctx context.Context, j js.JetStream, at *position) error {
	type sent struct {
		ack  js.PubAckFuture
		r    *Record
		last bool // true: the message has the last part of the record
		seq  uint64
	}
	var list []sent
	var failed error
	// settle waits until at most `most` messages are unacknowledged.
	settle := func(most int) bool {
		for failed == nil && len(list) > most {
			x := list[0]
			select {
			case ack := <-x.ack.Ok():
				if ack.Sequence != x.seq {
					failed = fmt.Errorf("jetstream: block %d was stored as message %d, expected %d", x.r.Height, ack.Sequence, x.seq)
				}
			case failed = <-x.ack.Err():
			case <-ctx.Done():
				failed = ctx.Err()
			}
			if list = list[1:]; failed == nil && x.last {
				p.setPosition(at.log, x.seq)
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
		return fmt.Errorf("publish a record: %w", failed)
	case errors.Is(err, ErrSource): // garbage collection has removed the next records from the log
		return err
	case err != nil:
		return err
	}
	at.next = next
	return nil
}
