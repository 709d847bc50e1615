package backend

import (
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
)

// past limits the number of subscribers that concurrently read far behind the head, to half of the
// cores.
//
// Old blocks are cheap to request and expensive to send. Without a limit, historical readers would
// take the cores from the subscribers at the head.
//
// A reader that finds no free place waits. The next place goes to the address that has used the
// least time (package fair). So a reader that never stops lets all waiting readers read after each
// of its blocks. While more than crowd readers wait, one more rule applies: when a reader returns a
// place and further readers of the same address wait, the place stays empty for as long as that
// reader used it. So many connections of one address use at most half of the places' time.
//
// Safe for concurrent use.
type past struct {
	now   func() time.Time
	after func(time.Duration, func()) (stop func() bool) // time.AfterFunc, replaced in tests

	mu    sync.Mutex
	free  int // number of readers that may start now; 0 while a reader waits
	queue fair.Queue[*turn]
	waits map[[16]byte]int // number of waiting readers by client address
	all   int              // number of waiting readers
	conns uint64           // number of readers that were created so far; the source of their ids
}

const (
	crowd     = 32      // number of waiting readers from which the load counts as hostile
	maxTurns  = 1 << 16 // maximum number of queued entries
	lookAgain = time.Second
	// patience is the time for which a place is reserved for the reader that was woken to take it.
	// The reader may never come: its chain instance may be closed while another instance shares the
	// places.
	patience = 10 * time.Second
)

// turn is the entry of a subscriber in the queue of those that wait to read historical blocks.
type turn struct {
	of     *pastReader
	wake   func()
	called func() bool // stops the timer after which an unused place is withdrawn; nil: no place offered
	left   bool
}

// pastReader is a subscriber that reads historical blocks. Only one goroutine at a time may call
// take. Any goroutine may call leave.
type pastReader struct {
	p      *past
	client fair.Client
	turn   *turn // queue entry of the reader; nil: the reader does not wait; guarded by p.mu
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

// take takes a place. If ok is true, back returns the place. If no place is free, ok is false. In
// that case wake is called once, on any goroutine, when the reader should call take again; back
// gives up the reader's turn.
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

// leave gives up the reader's turn. If the reader was offered a place and has not taken it, leave
// gives up the place too.
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

// late passes a place to the next reader if the woken reader has not taken that place within
// patience.
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

// done returns a place and charges the client c for the time took.
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

// pass offers a place to the next waiting reader. If none waits, the place becomes free.
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
