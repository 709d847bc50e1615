package jetstream

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
)

// ReadBlocks calls f for each complete block of the indexers' stream, in order and as the blocks
// arrive, until f fails or ctx ends. ReadBlocks begins with the message that follows the sequence
// number `behind`. To continue after a restart, a caller stores Seq with its results. ErrGap: the
// next messages were dropped from the stream, or the stream was reset. ErrChanged: a message
// differs from what was published.
func ReadBlocks(ctx context.Context, l Link, n Names, behind uint64, f func(BlockMessage) error) error {
	conn, err := l.connect(nats.RetryOnFailedConnect(true))
	if err != nil {
		return err
	}
	defer conn.Close()
	j, err := js.New(conn)
	if err != nil {
		return err
	}
	o := js.OrderedConsumerConfig{DeliverPolicy: js.DeliverAllPolicy}
	if behind > 0 {
		if err := hasUpTo(ctx, j, n.Indexer, behind); err != nil {
			return err
		}
		o.DeliverPolicy, o.OptStartSeq = js.DeliverByStartSequencePolicy, behind+1
	}
	c, err := j.OrderedConsumer(ctx, n.Indexer, o)
	if err != nil {
		return fmt.Errorf("stream %s: %w", n.Indexer, err)
	}
	list, err := c.Messages()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, list.Stop)()
	defer list.Stop()
	var text []byte
	parts, after := 0, ""
	for seq := behind; ; {
		m, err := list.Next()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		h := m.Headers()
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if seq > 0 && after == "" && meta.Sequence.Stream != seq+1 {
			return fmt.Errorf("%w: message %d came after message %d, expected the next number", ErrGap, meta.Sequence.Stream, seq)
		}
		var e blockEnd
		if err := e.read(h); err != nil {
			return fmt.Errorf("%w: %w", ErrChanged, err)
		}
		var n, of int
		_, _ = fmt.Sscanf(h.Get(headPart), "%d/%d", &n, &of) // cannot fail: read has validated the header
		if of > maxParts || len(m.Data()) > PartSize {
			return fmt.Errorf("%w: message %d has %d bytes, which do not fit a block of %d parts", ErrChanged,
				meta.Sequence.Stream, len(m.Data()), of)
		}
		if seq > 0 && after == "" && n == 1 && h.Get(headAfter) == "" {
			return fmt.Errorf("%w: the stream starts again with message %d", ErrGap, meta.Sequence.Stream)
		}
		if seq > 0 && after == "" {
			seq = meta.Sequence.Stream
		}
		if n != parts+1 {
			if text, parts = nil, 0; n > 1 { // the stream's limits have removed the first parts
				continue
			}
		}
		if after != "" && n == 1 && h.Get(headAfter) != after {
			return ErrGap
		}
		text = append(text, m.Data()...)
		if parts = n; n < of {
			continue
		}
		if err := f(BlockMessage{BlockPlace: *e.after, Back: h.Get(headKind) == kindBack, Text: text, Seq: meta.Sequence.Stream}); err != nil {
			return err
		}
		after, text, parts = e.after.String(), nil, 0
	}
}

// hasUpTo returns ErrGap if the stream does not have message seq yet. In that case seq belongs to
// another stream.
func hasUpTo(ctx context.Context, j js.JetStream, name string, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	s, err := j.Stream(ctx, name)
	if err != nil {
		return fmt.Errorf("stream %s: %w", name, err)
	}
	if last := s.CachedInfo().State.LastSeq; last < seq {
		return fmt.Errorf("%w: the stream ends with message %d, but message %d was received", ErrGap, last, seq)
	}
	return nil
}
