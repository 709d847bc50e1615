package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	js "github.com/nats-io/nats.go/jetstream"

	"github.com/troupe-chain/troupe/primitives"
)

// BlockPlace is a block's position in the chain. The zero value precedes the first block of a
// stream.
type BlockPlace struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// String returns HEIGHT:HASH, the cursor of indexers.
func (p BlockPlace) String() string {
	return strconv.FormatUint(uint64(p.Height), 10) + ":" + p.Hash.String()
}

func parseBlockPlace(text string) (p BlockPlace, err error) {
	height, hash, _ := strings.Cut(text, ":")
	n, err := strconv.ParseUint(height, 10, 64)
	if err != nil {
		return p, err
	}
	p.Height = primitives.Height(n)
	p.Hash, err = primitives.ParseHash(hash)
	return p, err
}

// BlockMessage is a message for indexers: a final block, or a rollback.
type BlockMessage struct {
	BlockPlace
	// Back means that the message is a rollback: Text lists the removed blocks, and the BlockPlace
	// is the block from which the chain continues.
	Back bool
	Text []byte // JSON of the block or of the list of removed blocks
	Seq  uint64 // sequence number in the stream of a received message's last part
}

// BlockSource provides blocks.
type BlockSource interface {
	// Blocks calls f for each final block after a place, as the blocks become final, until f fails
	// or ctx ends. If after is nil, Blocks begins where an empty stream starts. Blocks returns
	// ErrSource if the chain does not have that place, or no longer stores the blocks after it.
	Blocks(ctx context.Context, after *BlockPlace, f func(BlockMessage) error) error
}

// headAfter names the block that precedes the message's block in the stream.
const headAfter = "Troupe-After"

// BlocksOptions configures a BlockPublisher.
type BlocksOptions struct {
	Link
	Names
	Source   BlockSource
	MaxBytes int64
	MaxAge   time.Duration
	Replicas int
	Said     func(err error) // called when publishing fails, and with nil when publishing works again
	Now      func() time.Time
}

// BlockPublisher publishes messages for indexers to a stream: each final block once, in chain
// order, and rollbacks.
type BlockPublisher struct {
	reconnectLoop
	o                     BlocksOptions
	blocks, height, begun atomic.Uint64
}

// NewBlockPublisher starts to publish in a goroutine. Close ends it.
func NewBlockPublisher(o BlocksOptions) *BlockPublisher {
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &BlockPublisher{o: o}
	p.begin(o.Said, p.session)
	return p
}

// Published returns the progress. Published.Records counts blocks.
func (p *BlockPublisher) Published() Published {
	return Published{Records: p.blocks.Load(), Height: primitives.Height(p.height.Load()), Begun: p.begun.Load(), Failing: p.failing.Load()}
}

// session publishes until an error occurs.
func (p *BlockPublisher) session(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	conn, err := p.o.connect(
		nats.MaxReconnects(0),
		nats.ClosedHandler(func(*nats.Conn) { cancel(errors.New("jetstream: the connection has ended")) }),
	)
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
		return fmt.Errorf("stream %s: %w", p.o.Indexer, err)
	}
	at, err := p.end(ctx, s)
	if err != nil {
		return fmt.Errorf("stream %s: %w", p.o.Indexer, err)
	}
	if at.after != nil {
		p.height.Store(uint64(at.after.Height))
	}
	p.report(nil)
	err = p.o.Source.Blocks(ctx, at.after, func(m BlockMessage) error { return p.publish(ctx, j, at, &m) })
	// The block of the stream's last message is not on the chain, or too old.
	if errors.Is(err, ErrSource) && at.seq > 0 {
		if e := s.Purge(ctx); e != nil {
			return e
		}
		p.begun.Add(1)
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (p *BlockPublisher) stream(ctx context.Context, j js.JetStream) (js.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c := js.StreamConfig{Name: p.o.Indexer, Subjects: []string{p.o.Blocks}, Storage: js.FileStorage,
		Discard: js.DiscardOld, MaxBytes: p.o.MaxBytes, MaxAge: p.o.MaxAge,
		MaxMsgs: -1, Duplicates: duplicates, Replicas: max(1, p.o.Replicas), Description: "final blocks of a Troupe node, for indexers"}
	if p.o.MaxAge > 0 {
		c.Duplicates = min(c.Duplicates, p.o.MaxAge)
	}
	return j.CreateOrUpdateStream(ctx, c)
}

// blockEnd is the position in the chain at which publishing continues.
type blockEnd struct {
	after *BlockPlace // last block that is completely in the stream; nil: none
	part  int         // number of published parts of the next block
	of    int         // total number of parts of the next block
	hash  primitives.Hash
	seq   uint64 // sequence number of the stream's last message
}

// end determines from the stream's last message where publishing continues. If there is no last
// message, or it is no block message, end empties the stream.
func (p *BlockPublisher) end(ctx context.Context, s js.Stream) (*blockEnd, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := s.Info(ctx)
	if err != nil {
		return nil, err
	}
	at := &blockEnd{seq: info.State.LastSeq}
	if info.State.Msgs == 0 {
		return at, nil
	}
	m, err := s.GetMsg(ctx, info.State.LastSeq)
	if err == nil && at.read(m.Header) == nil {
		return at, nil
	}
	if err != nil && !errors.Is(err, js.ErrMsgNotFound) {
		return nil, err
	}
	p.begun.Add(1)
	return &blockEnd{seq: info.State.LastSeq}, s.Purge(ctx)
}

func (e *blockEnd) read(h nats.Header) error {
	var at BlockPlace
	height, err := strconv.ParseUint(h.Get(headHeight), 10, 64)
	if err != nil {
		return err
	}
	at.Height = primitives.Height(height)
	if at.Hash, err = primitives.ParseHash(h.Get(headHash)); err != nil {
		return err
	}
	var part, of int
	if _, err := fmt.Sscanf(h.Get(headPart), "%d/%d", &part, &of); err != nil || part < 1 || of < part {
		return fmt.Errorf("malformed header Troupe-Part %q", h.Get(headPart))
	}
	if part == of {
		e.after = &at
		return nil
	}
	e.part, e.of, e.hash = part, of, at.Hash
	if before := h.Get(headAfter); before != "" {
		after, err := parseBlockPlace(before)
		if err != nil {
			return err
		}
		e.after = &after
	}
	return nil
}

// errParts means that the first parts of a block are in the stream, but the source no longer has
// the block.
var errParts = fmt.Errorf("%w: the block whose first parts are in the stream is not available any more", ErrSource)

// publish publishes the remaining parts of a block, and waits until the stream has stored these
// parts.
func (p *BlockPublisher) publish(ctx context.Context, j js.JetStream, at *blockEnd, m *BlockMessage) error {
	n := max(1, (len(m.Text)+PartSize-1)/PartSize)
	if at.part > 0 && (at.hash != m.Hash || at.of != n) {
		return errParts
	}
	kind := kindBlock
	if m.Back {
		kind = kindBack
	}
	after := ""
	if at.after != nil {
		after = at.after.String()
	}
	var acks []js.PubAckFuture
	for i := at.part; i < n; i++ {
		out := nats.NewMsg(p.o.Blocks)
		out.Data = m.Text[min(i*PartSize, len(m.Text)):min((i+1)*PartSize, len(m.Text))]
		for name, value := range map[string]string{nats.MsgIdHdr: fmt.Sprintf("%d.%v.%d", m.Height, m.Hash, at.seq+1),
			headHeight: strconv.FormatUint(uint64(m.Height), 10),
			headHash:   m.Hash.String(), headAfter: after, headKind: kind, headPart: fmt.Sprintf("%d/%d", i+1, n),
			headTime: strconv.FormatInt(p.o.Now().UnixNano(), 10)} {
			out.Header[name] = []string{value}
		}
		ack, err := j.PublishMsgAsync(out, js.WithExpectLastSequence(at.seq))
		if err != nil {
			return err
		}
		at.seq++
		acks = append(acks, ack)
	}
	first := at.seq - uint64(len(acks))
	for i, ack := range acks {
		select {
		case got := <-ack.Ok():
			if want := first + uint64(i) + 1; got.Sequence != want {
				return fmt.Errorf("jetstream: block %d was stored as message %d, expected %d", m.Height, got.Sequence, want)
			}
		case err := <-ack.Err():
			return fmt.Errorf("publish a block: %w", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	place := m.BlockPlace
	at.after, at.part, at.of = &place, 0, 0
	p.blocks.Add(1)
	p.height.Store(uint64(m.Height))
	return nil
}
