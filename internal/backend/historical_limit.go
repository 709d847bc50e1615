package backend

import (
	"sync"
	"time"

	"github.com/troupe-chain/troupe/primitives/fair"
)

// past are the places of who reads far behind the head: half of the cores. Who finds none waits for his turn, which is that of the address that has had
// least: who reads on and on gives way to all others each time. While more wait than any honest use has, a place rests for as long as it was taken, if others of
// the same address wait: a crowd that reads the past, which is cheap to ask for and dear to tell, leaves half of that half to everybody else.
type past struct {
	now   func() time.Time
	after func(time.Duration, func()) (stop func() bool) // time.AfterFunc

	mu    sync.Mutex
	free  int // places; none while anybody waits
	queue fair.Queue[*turn]
	waits map[[16]byte]int // by address, those in queue that have not left
	all   int              // of them
	conns uint64           // readers there were
}

const (
	crowd     = 32      // wait at a time: more than a few who read the past at once
	maxTurns  = 1 << 16 // in the queue
	lookAgain = time.Second
	// patience is how long a place waits for who was called to it: a node that is ended in the middle may share places with others, as a world does.
	patience = 10 * time.Second
)

// turn is one who waits for a place.
type turn struct {
	of     *pastReader
	wake   func()
	called func() bool // stops the clock until which a place is his; nil: he waits
	left   bool
}

// pastReader is somebody who may read the past. He is one goroutine at a time, but may leave by any.
type pastReader struct {
	p      *past
	client fair.Client
	turn   *turn // nil: he does not wait; under the places' lock
}

func newPast(places int) *past {
	return &past{free: places, queue: fair.Queue[*turn]{Limit: maxTurns}, waits: map[[16]byte]int{}, now: time.Now,
		after: func(d time.Duration, f func()) (stop func() bool) { return time.AfterFunc(d, f).Stop }}
}

// reader returns another reader of an address.
func (p *past) reader(address [16]byte) *pastReader {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns++
	return &pastReader{p: p, client: fair.Client{Address: address, Conn: p.conns}}
}

// take gives a place until back is called. false: there is none; wake is called once when it is his turn, by any goroutine, and back gives the turn up.
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

// leave gives up the turn, or the place that was not taken yet.
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

// late passes a place on that was not taken.
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

// done takes a place back.
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

// pass gives a place to whose turn it is.
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

// forget counts one less of those who wait; the lock is held.
func (p *past) forget(c fair.Client) {
	p.all--
	if p.waits[c.Address]--; p.waits[c.Address] == 0 {
		delete(p.waits, c.Address)
	}
}
