package backend

import (
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
)

// past limits how many subscribers read far behind the head at a time, to half of the cores.
//
// Old blocks are cheap to ask for and expensive to send. Without a limit the readers of the past
// would take the cores from the subscribers that follow the head.
//
// A reader that finds no free place waits. The next place goes to the address that has used the
// least time (package fair), so a reader that never stops gives way to all others after each
// block. While more than crowd readers wait, a place that an address leaves stays empty for as
// long as it was used, if other readers of that address wait. Many connections of one address thus
// get at most half of the places' time, and the rest is left to others.
//
// Safe for concurrent use.
type past struct {
	now   func() time.Time
	after func(time.Duration, func()) (stop func() bool) // time.AfterFunc

	mu    sync.Mutex
	free  int // free places; 0 while a reader waits
	queue fair.Queue[*turn]
	waits map[[16]byte]int // by address, readers in queue that have not left
	all   int              // the sum of waits
	conns uint64           // readers so far; numbers the next one
}

const (
	crowd     = 32      // waiting readers: more than honest use has
	maxTurns  = 1 << 16 // in the queue
	lookAgain = time.Second
	// patience is how long a place waits for the reader that was called to take it. The reader may
	// never come: its chain instance may be closed while another one shares the places.
	patience = 10 * time.Second
)

// turn is a place in the queue.
type turn struct {
	of     *pastReader
	wake   func()
	called func() bool // stops the patience timer of the place that was offered; nil: still waiting
	left   bool
}

// pastReader is a subscriber that may read the past. Only one goroutine at a time may call take;
// leave may be called by any.
type pastReader struct {
	p      *past
	client fair.Client
	turn   *turn // nil: not waiting; guarded by p.mu
}

func newPast(places int) *past {
	return &past{free: places, queue: fair.Queue[*turn]{Limit: maxTurns}, waits: map[[16]byte]int{}, now: time.Now,
		after: func(d time.Duration, f func()) (stop func() bool) { return time.AfterFunc(d, f).Stop }}
}

// reader returns a new reader of a client address.
func (p *past) reader(address [16]byte) *pastReader {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns++
	return &pastReader{p: p, client: fair.Client{Address: address, Conn: p.conns}}
}

// take takes a place; back returns it. If no place is free, ok is false. Then any goroutine calls
// wake, once, when the reader should call take again, and back gives up the reader's turn.
func (r *pastReader) take(wake func()) (back func(), ok bool) {
	p := r.p
	p.mu.Lock()
	defer p.mu.Unlock()
	switch t := r.turn; {
	case t != nil && t.called != nil:
		t.called()
		r.turn = nil
	case t != nil:
		return r.leave, false
	case p.free > 0:
		p.free--
	default:
		t := &turn{of: r, wake: wake}
		if !p.queue.Push(r.client, t) {
			p.after(lookAgain, wake)
			return r.leave, false
		}
		r.turn = t
		p.waits[r.client.Address]++
		p.all++
		return r.leave, false
	}
	begun := p.now()
	return func() { p.done(r.client, p.now().Sub(begun)) }, true
}

// leave gives up the reader's turn, or the place that it was offered and has not taken.
func (r *pastReader) leave() {
	p := r.p
	p.mu.Lock()
	t := r.turn
	r.turn = nil
	switch {
	case t == nil:
	case t.called == nil:
		t.left = true
		p.forget(r.client)
	default:
		t.called()
		defer p.pass()
	}
	p.mu.Unlock()
}

// late passes on a place that was not taken within patience.
func (t *turn) late() {
	r := t.of
	r.p.mu.Lock()
	late := r.turn == t
	if late {
		r.turn = nil
	}
	r.p.mu.Unlock()
	if late {
		r.p.pass()
	}
}

// done returns a place and charges its client for the time it took.
func (p *past) done(c fair.Client, took time.Duration) {
	p.mu.Lock()
	p.queue.Charge(c, int64(took))
	rests := took > 0 && p.all > crowd && p.waits[c.Address] > 0
	p.mu.Unlock()
	if rests {
		p.after(took, p.pass)
		return
	}
	p.pass()
}

// pass offers a place to the next waiting reader, or frees it.
func (p *past) pass() {
	if wake := p.next(); wake != nil {
		wake()
	}
}

func (p *past) next() (wake func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		t, c, ok := p.queue.Pop()
		switch {
		case !ok:
			p.free++
			return nil
		case t.left:
			continue
		}
		t.called = p.after(patience, t.late)
		p.forget(c)
		return t.wake
	}
}

// forget decrements the counts of waiting readers. p.mu is held.
func (p *past) forget(c fair.Client) {
	p.all--
	if p.waits[c.Address]--; p.waits[c.Address] == 0 {
		delete(p.waits, c.Address)
	}
}
