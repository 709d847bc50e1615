package stream

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/troupe-chain/troupe/primitives/view"
)

// message is the message of a block with the bounds of its pieces. Messages of the same block with
// a subset of the shards share these pieces.
type message struct {
	notice *view.Notice
	block  [2]int   // start and end of the block's part in the message
	shards [][2]int // start and end of each shard's part, by shard index
	err    error
}

// Message returns the block's notice for a subscription to messages. All subscriptions to all
// shards share one notice.
func (d *Digest) Message(q *view.Subscription) (*view.Notice, error) {
	if q.Inside {
		of, texts := q.Of, q.Texts
		return &view.Notice{Cursor: d.whole(), Make: func() ([]byte, error) {
			if texts != nil {
				texts.Store(true)
			}
			return d.MessageJSON(of)
		}}, nil
	}
	m := d.message.get(d.makeMessage)
	if m.err != nil {
		return nil, m.err
	}
	if q.Of == nil {
		return m.notice, nil
	}
	n := d.notice(view.WholeBlock, "message")
	n.Body = d.appendPieces(n.Body, m, q.Of)
	return &n, nil
}

// MessageJSON returns nearcore's StreamerMessage of the block with the shards of a filter. The
// result is shared and must not be changed.
func (d *Digest) MessageJSON(of *view.ShardFilter) ([]byte, error) {
	m := d.message.get(d.makeMessage)
	switch {
	case m.err != nil:
		return nil, m.err
	case of != nil:
		return d.appendPieces(nil, m, of), nil
	}
	head := d.notice(view.WholeBlock, "message")
	return m.notice.Body[len(head.Body):], nil
}

func (d *Digest) whole() view.Cursor { return view.Cursor{At: d.At(), Index: view.WholeBlock} }

// encoders pools encoders, so that the pieces of a block reuse the memory of the previous block.
var encoders = sync.Pool{New: func() any { return newEncoder() }}

// keptEncoder is the maximum number of bytes that an encoder keeps between blocks.
const keptEncoder = 4 << 20

// back returns the encoder to the pool. The caller must no longer use the encoder's text.
func (e *encoder) back() {
	if cap(e.b)+e.Size() > keptEncoder {
		return
	}
	e.b = e.b[:0]
	encoders.Put(e)
}

// into appends the text that one writes to b, and then returns the encoder to the pool.
func (e *encoder) into(b []byte, one func()) []byte {
	own := e.b
	e.b = b
	one()
	e.b, b = own, e.b
	e.back()
	return b
}

// text is a message under construction. It consists of two halves for each shard. Goroutines take
// the halves one by one. So a caller that needs the message helps a goroutine that has already
// begun to encode the message. Even a block with work in one shard uses two cores.
type text struct {
	block   *Block
	details []Details
	plans   []lazy[*plan] // plans by shard index
	halves  []*encoder    // first the chunks' halves by shard, then those of the executed receipts
	errs    []error
	err     error        // error that concerns the whole message
	n       int          // number of halves
	next    atomic.Int64 // index of the first half that no goroutine has taken
	made    sync.WaitGroup
}

func (d *Digest) beginText() *text {
	t := &text{block: d.Block}
	if t.details, t.err = d.detailed(); t.err != nil {
		return t
	}
	t.n = 2 * len(d.Shards)
	t.plans, t.halves, t.errs = make([]lazy[*plan], len(d.Shards)), make([]*encoder, t.n), make([]error, t.n)
	for i := range t.halves {
		t.halves[i] = encoders.Get().(*encoder)
	}
	t.made.Add(t.n)
	return t
}

func (d *Digest) detailed() (details []Details, err error) {
	defer caught(&err)
	return d.details()
}

// work encodes halves until all are taken. If yields is set, work yields to other goroutines before
// each half.
func (t *text) work(yields bool) {
	for {
		if yields {
			runtime.Gosched()
		}
		i := int(t.next.Add(1)) - 1
		if i >= t.n {
			return
		}
		t.half(i)
	}
}

func (t *text) half(i int) {
	defer t.made.Done()
	defer caught(&t.errs[i])
	shards := len(t.plans)
	shard := i % shards
	p := t.plans[shard].get(func() *plan { return planOf(t.block, &t.block.Shards[shard], &t.details[shard]) })
	if i < shards {
		t.halves[i].chunk(p)
	} else {
		t.errs[i] = t.halves[i].executed(p)
	}
}

// caught turns a panic into an error. The process continues, and the caller that needs the text
// gets the error.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("stream: encode a block: %v\n%s", p, debug.Stack())
	}
}

// MakeAhead encodes the message of all shards before a caller needs it, on idle cores. A caller
// that needs the message before it is complete encodes a part of it.
func (d *Digest) MakeAhead() {
	t := d.text.get(d.beginText)
	for range min(t.n, runtime.GOMAXPROCS(0)) - 1 {
		go t.work(true)
	}
	t.work(true)
	d.message.get(d.makeMessage)
}

func (d *Digest) makeMessage() (m *message) {
	m = new(message)
	defer caught(&m.err)
	t := d.text.get(d.beginText)
	if m.err = t.err; m.err != nil {
		return m
	}
	for range min(t.n-int(t.next.Load()), runtime.GOMAXPROCS(0)) - 1 {
		go t.work(false)
	}
	t.work(false)
	t.made.Wait()
	halves := t.halves
	t.details, t.plans, t.halves = nil, nil, nil
	if m.err = errors.Join(t.errs...); m.err != nil {
		return m // after a panic, the encoder is not reused
	}
	// All pieces are slices of the text with all shards.
	n := d.notice(view.WholeBlock, "message")
	block := encoders.Get().(*encoder)
	block.block(d.Block)
	size := len(n.Body) + len(block.b) + len(`{"block":,"shards":[]}`)
	for _, h := range halves {
		size += len(h.b) + 1
	}
	b := append(append(make([]byte, 0, size), n.Body...), `{"block":`...)
	from := len(b)
	b = append(b, block.b...)
	m.block = [2]int{from, len(b)}
	b = append(b, `,"shards":[`...)
	for i := range d.Shards {
		b = append(b, comma(i)...)
		from := len(b)
		b = append(append(b, halves[i].b...), halves[len(d.Shards)+i].b...)
		m.shards = append(m.shards, [2]int{from, len(b)})
	}
	n.Body = slices.Clip(append(b, "]}"...)) // clipped, so that a later append copies the bytes
	m.notice = &n
	d.size.Add(int64(len(n.Body)))
	for _, h := range append(halves, block) {
		h.back()
	}
	return m
}

// appendPieces appends the message with the shards of a filter. Shards outside the filter appear as
// if the node did not track them.
func (d *Digest) appendPieces(b []byte, m *message, of *view.ShardFilter) []byte {
	whole := m.notice.Body
	b = append(append(append(b, `{"block":`...), whole[m.block[0]:m.block[1]]...), `,"shards":[`...)
	for i := range d.Shards {
		b = append(b, comma(i)...)
		if of.Has(d.Layout, d.Shards[i].ID) {
			b = append(b, whole[m.shards[i][0]:m.shards[i][1]]...)
			continue
		}
		b = strconv.AppendUint(append(b, `{"shard_id":`...), uint64(d.Shards[i].ID), 10)
		b = append(b, `,"chunk":null,"receipt_execution_outcomes":[],"state_changes":[]}`...)
	}
	return append(b, "]}"...)
}

// Size returns how many bytes of messages the Digest holds.
func (d *Digest) Size() int { return int(d.size.Load()) }
