package jetstream

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"
)

// ReadBlocks calls f for each whole block of the stream for indexers whose last message stands behind a number, in their order and as they come, until f
// fails or the context ends. Who stores Seq beside what he makes of a block goes on with it. ErrGap: what comes next is not in the stream any more.
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
	for {
		m, err := list.Next()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		h := m.Headers()
		var e blockEnd
		if err := e.read(h); err != nil {
			return fmt.Errorf("%w: %w", ErrChanged, err)
		}
		var n, of int
		_, _ = fmt.Sscanf(h.Get(headPart), "%d/%d", &n, &of) // read has looked at it
		if n != parts+1 {
			if text, parts = nil, 0; n > 1 { // the first parts are gone, by age or size
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
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		if err := f(BlockMessage{BlockPlace: *e.after, Back: h.Get(headKind) == kindBack, Text: text, Seq: meta.Sequence.Stream}); err != nil {
			return err
		}
		after, text, parts = e.after.String(), nil, 0
	}
}
