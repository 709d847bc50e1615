package stream

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"unsafe"

	"github.com/troupe-chain/troupe/primitives/view"
)

// message is that of a block in pieces, so that all who want other shards share them.
type message struct {
	notice *view.Notice
	block  [2]int   // where in it lies what it says of the block itself,
	shards [][2]int // and of each shard, by index in the layout
	err    error
}

// Message is what a subscription to messages is told of the block. That of all shards is one for all who ask.
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

// MessageJSON is nearcore's StreamerMessage of the block, of the shards of a filter. It is shared, and only read.
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

// encoders are those that work on no shard: the memory of one block's pieces is that of the next one's.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// keptEncoder is how many bytes an encoder keeps between blocks.
const keptEncoder = 4 << 20

// back is called when nobody reads the encoder's text any more.
func (e *encoder) back() {
	if cap(e.b)+cap(e.scratch)+cap(e.order.nodes)*int(unsafe.Sizeof(node{})) > keptEncoder {
		return
	}
	e.b = e.b[:0]
	encoders.Put(e)
}

func (d *Digest) makeMessage() *message {
	m := new(message)
	details, err := d.details()
	if err != nil {
		m.err = err
		return m
	}
	// Each half of each shard by itself: where a block's work is one shard's, that is two cores' too.
	halves, errs := make([]*encoder, 2*len(d.Shards)), make([]error, len(d.Shards))
	for i := range halves {
		halves[i] = encoders.Get().(*encoder)
		defer halves[i].back()
	}
	var all sync.WaitGroup
	for i := range d.Shards {
		all.Go(func() {
			p := planOf(d.Block, &d.Shards[i], &details[i])
			all.Go(func() { errs[i] = halves[2*i+1].executed(p) })
			halves[2*i].chunk(p)
		})
	}
	all.Wait()
	if m.err = errors.Join(errs...); m.err != nil {
		return m
	}
	// All pieces lie in the one text that shows all shards.
	n := d.notice(view.WholeBlock, "message")
	size := len(n.Body) + 8<<10
	for _, h := range halves {
		size += len(h.b) + 1
	}
	b := append(append(make([]byte, 0, size), n.Body...), `{"block":`...)
	from := len(b)
	b = AppendBlock(b, d.Block)
	m.block = [2]int{from, len(b)}
	b = append(b, `,"shards":[`...)
	for i := range d.Shards {
		b = append(b, comma(i)...)
		from := len(b)
		b = append(append(b, halves[2*i].b...), halves[2*i+1].b...)
		m.shards = append(m.shards, [2]int{from, len(b)})
	}
	n.Body = slices.Clip(append(b, "]}"...)) // who appends to it has a copy
	m.notice = &n
	d.size.Add(int64(len(n.Body)))
	return m
}

// appendPieces appends the message with the shards of a filter; the others are as those that a node does not track.
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

// Size is how many bytes of messages it holds.
func (d *Digest) Size() int { return int(d.size.Load()) }
