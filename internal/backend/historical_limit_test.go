package backend

import (
	"testing"
	"time"
)

// queue is a set of readers at one place, with a fake clock. Each read takes 3 ms.
type queue struct {
	t     *testing.T
	p     *past
	now   time.Time
	rests []time.Duration
	ends  []func()
	woken []int
	late  []*clock // patience timers of the readers that were called
}

// clock fires when a reader's patience is over, unless it was stopped.
type clock struct {
	fire    func()
	stopped bool
}

func (c *clock) stop() bool {
	was := c.stopped
	c.stopped = true
	return !was
}

func newQueue(t *testing.T) *queue {
	q := &queue{t: t, p: newPast(1), now: time.Unix(1000, 0)}
	q.p.now = func() time.Time { return q.now }
	q.p.after = func(d time.Duration, f func()) (stop func() bool) {
		if d == patience {
			c := &clock{fire: f}
			q.late = append(q.late, c)
			return c.stop
		}
		q.rests, q.ends = append(q.rests, d), append(q.ends, f)
		return nil
	}
	return q
}

// reads lets a reader take the place that it was offered.
func (q *queue) reads(r *pastReader) (back func()) {
	q.t.Helper()
	back, ok := r.take(nil)
	if !ok {
		q.t.Fatal("there is no place")
	}
	q.now = q.now.Add(3 * time.Millisecond)
	return back
}

// waits lets a reader find no place. When it is called it records its number.
func (q *queue) waits(r *pastReader, number int) (leave func()) {
	q.t.Helper()
	leave, ok := r.take(func() { q.woken = append(q.woken, number) })
	if ok {
		q.t.Fatalf("%d: a place was assigned twice", number)
	}
	return leave
}

// TestHistoricalReadersAreServedFairly: a reader that never stops gives way to waiting ones. An
// address with many readers gets no more than one with a single reader. A reader that leaves,
// waiting or called, blocks no other.
func TestHistoricalReadersAreServedFairly(t *testing.T) {
	q := newQueue(t)
	many, one := [16]byte{1}, [16]byte{2}
	greedy := make([]*pastReader, 8)
	for i := range greedy {
		greedy[i] = q.p.reader(many)
	}
	honest := q.p.reader(one)
	back := q.reads(greedy[0])
	for i := 1; i < len(greedy); i++ {
		q.waits(greedy[i], i)
	}
	q.waits(honest, 100)
	q.waits(honest, 100) // a second take does not queue it twice
	had := map[int]int{}
	last := 0
	for range 60 {
		n := len(q.woken)
		if back(); len(q.woken) != n+1 {
			t.Fatalf("%d were called, want one more than %d", len(q.woken), n)
		}
		if last == 100 {
			q.waits(honest, last)
		} else {
			q.waits(greedy[last], last)
		}
		if last = q.woken[n]; last == 100 {
			back = q.reads(honest)
		} else {
			back = q.reads(greedy[last])
		}
		had[last]++
	}
	if had[100] < 28 || had[100] > 32 {
		t.Errorf("the one had %d of 60 turns: %v", had[100], had)
	}
	for i := range greedy {
		if had[i] < 2 {
			t.Errorf("%d had %d turns: %v", i, had[i], had)
		}
	}
	if len(q.rests) > 0 {
		t.Errorf("a place rests %v where few wait", q.rests)
	}

	q = newQueue(t)
	a, b, c := q.p.reader(many), q.p.reader(one), q.p.reader(one)
	back = q.reads(a)
	leaveB := q.waits(b, 2)
	q.waits(c, 3)
	leaveB()
	back()
	if len(q.woken) != 1 || q.woken[0] != 3 {
		t.Fatalf("called %v, want the one that still waits", q.woken)
	}
	q.waits(a, 1)
	c.leave() // called, and gone
	if len(q.woken) != 2 || q.woken[1] != 1 {
		t.Fatalf("called %v, want the reader after the one that has left", q.woken)
	}
	back = q.reads(a)
	q.waits(b, 2)
	q.waits(c, 3)
	back()
	lost := q.late[len(q.late)-1]
	lost.fire() // b was called, and is not seen again
	if len(q.woken) != 4 || q.woken[3] != 3 {
		t.Fatalf("called %v, want the reader after the one that does not come", q.woken)
	}
	q.waits(b, 2) // after all
	q.reads(c)()
	q.reads(b)()
	c.leave()
	q.reads(b)()
	for i, c := range q.late {
		if c.stopped != (c != lost) {
			t.Errorf("clock %d of %d: stopped: %v", i, len(q.late), c.stopped)
		}
		c.fire() // too late to do anything
	}
	if q.p.free != 1 || q.p.all != 0 || len(q.p.waits) != 0 || q.p.queue.Len() != 0 {
		t.Errorf("%d free places, %d waiting (%v), %d in the queue", q.p.free, q.p.all, q.p.waits, q.p.queue.Len())
	}
}

// TestPlaceRestsWhileManyReadersWait: a place is passed on at once, unless a crowd waits and others
// of the same address are in it. When the crowd is gone it is passed on at once again.
func TestPlaceRestsWhileManyReadersWait(t *testing.T) {
	q := newQueue(t)
	many, one := [16]byte{1}, [16]byte{2}
	readers := make([]*pastReader, crowd+1)
	first, honest := q.p.reader(many), q.p.reader(one)
	back := q.reads(first)
	for i := range readers {
		readers[i] = q.p.reader(many)
		q.waits(readers[i], i)
	}
	back()
	if len(q.rests) != 1 || q.rests[0] != 3*time.Millisecond || len(q.woken) != 0 {
		t.Fatalf("a place rests %v where a crowd waits, want 3ms; called %v", q.rests, q.woken)
	}
	q.waits(honest, 100)
	for q.ends[0](); q.woken[len(q.woken)-1] != 100; { // until it is the honest reader's turn
		i := q.woken[len(q.woken)-1]
		if len(q.woken) > 3 {
			t.Fatalf("called %v, want the new reader", q.woken)
		}
		n := len(q.rests)
		q.reads(readers[i])()
		q.waits(readers[i], i)
		if len(q.rests) != n+1 {
			t.Fatalf("%d rests, want %d", len(q.rests), n+1)
		}
		q.ends[n]()
	}
	n := len(q.rests)
	q.reads(honest)()
	if len(q.rests) != n || len(q.woken) < 2 || q.woken[len(q.woken)-1] == 100 {
		t.Errorf("a place rests after a reader outside of the crowd: %v; called %v", q.rests[n:], q.woken)
	}
	last := readers[q.woken[len(q.woken)-1]]
	for _, r := range readers {
		if r != last {
			r.leave()
		}
	}
	q.waits(first, 0)
	if q.reads(last)(); len(q.rests) != n {
		t.Errorf("a place rests after the crowd has left: %v", q.rests[n:])
	}
}
