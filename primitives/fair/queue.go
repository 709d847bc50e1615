// Package fair lets clients take turns at something of which there is too little.
//
//	in      Push: an item and whose it is; Charge: what a turn of theirs cost
//	out     Pop: the item whose turn it is
//	state   Queue: what waits, and how much each client has had; no clock, no goroutine, no lock
//	units   cost as the caller counts it: nanoseconds, mostly
//	bound   Limit items; Remembered addresses that have nothing waiting, RememberedConns
//	        connections of each
//	errors  none; Push says false when the queue is full
//	source  start-time fair queueing (Goyal, Vin, Cheng 1996), on two levels
//
// The turn is that of the address that has had least, and within an address that of the connection
// that has had least. Who comes anew, or comes back, begins where the others are: he has no credit
// from the time before. But of those who are as far as each other, every other turn is for such, so
// that one who asks seldom does not wait for a whole round of those who always ask.
package fair

import "container/heap"

// Client is who waits: an address, and one of its connections.
type Client struct {
	Address [16]byte
	Conn    uint64
}

// How many addresses, and connections of each, without anything in the queue are kept in mind, so
// that they don't come back as new ones.
const (
	Remembered      = 1024
	RememberedConns = 64
)

// Queue holds items of type T. It is not safe for concurrent use.
type Queue[T any] struct {
	// Limit is how many items may wait; 0: none.
	Limit int
	all   level[[16]byte, *level[uint64, *fifo[T]]]
	n     int
}

// level is a set of flows, of which those with something waiting form a heap by what they have had.
type level[K comparable, V any] struct {
	flows map[K]*flow[K, V]
	heap  flowHeap[K, V]
	clock int64         // what the last one that had a turn had had before it
	keep  int           // flows to remember of which nothing waits
	fresh []*flow[K, V] // those that came anew, and may have had their turns since
	next  bool          // the next turn is for one of them
}

type flow[K comparable, V any] struct {
	key  K
	had  int64
	came uint64 // breaks ties: first come
	at   int    // in the heap; -1: nothing waits
	anew bool   // it waits for its first turn since it came
	// listed: in fresh.
	listed bool
	of     V
}

type fifo[T any] struct{ items []T }

type flowHeap[K comparable, V any] struct {
	list []*flow[K, V]
	came uint64
}

func (h *flowHeap[K, V]) Len() int { return len(h.list) }
func (h *flowHeap[K, V]) Less(i, j int) bool {
	a, b := h.list[i], h.list[j]
	return a.had < b.had || a.had == b.had && a.came < b.came
}
func (h *flowHeap[K, V]) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].at, h.list[j].at = i, j
}
func (h *flowHeap[K, V]) Push(x any) {
	f := x.(*flow[K, V])
	f.at = len(h.list)
	h.list = append(h.list, f)
}
func (h *flowHeap[K, V]) Pop() any {
	last := len(h.list) - 1
	f := h.list[last]
	h.list[last], h.list = nil, h.list[:last]
	f.at = -1
	return f
}

// get finds or makes a flow.
func (l *level[K, V]) get(k K, fresh func() V) *flow[K, V] {
	f := l.flows[k]
	if f == nil {
		if l.flows == nil {
			l.flows = map[K]*flow[K, V]{}
		}
		if len(l.flows)-l.heap.Len() >= l.keep {
			l.forget()
		}
		f = &flow[K, V]{key: k, had: l.clock, at: -1, of: fresh()}
		l.flows[k] = f
	}
	return f
}

// forget drops flows that have nothing waiting: those that are no further than the clock first,
// since they would come back the same; all, if that is not enough.
func (l *level[K, V]) forget() {
	for _, all := range []bool{false, true} {
		for k, f := range l.flows {
			if f.at < 0 && (all || f.had <= l.clock) {
				delete(l.flows, k)
			}
		}
		if len(l.flows)-l.heap.Len() < l.keep/2 {
			return
		}
	}
}

// wait enters a flow into the heap, unless it is there.
func (l *level[K, V]) wait(f *flow[K, V]) {
	if f.at >= 0 {
		return
	}
	if f.had <= l.clock {
		f.had, f.anew = l.clock, true
		if !f.listed {
			f.listed, l.fresh = true, append(l.fresh, f)
		}
	}
	l.heap.came++
	f.came = l.heap.came
	heap.Push(&l.heap, f)
}

// first returns the flow whose turn it is.
func (l *level[K, V]) first() *flow[K, V] {
	f := l.heap.list[0]
	for l.next = !l.next; l.next && len(l.fresh) > 0; {
		came := l.fresh[0]
		if came.at >= 0 && came.anew && came.had > f.had {
			break // it is not where the others are any more
		}
		if l.fresh, came.listed = l.fresh[1:], false; came.at >= 0 && came.anew {
			f = came
			break
		}
	}
	l.clock, f.anew = max(l.clock, f.had), false
	return f
}

func (l *level[K, V]) charge(f *flow[K, V], cost int64) {
	f.had += cost
	if f.at >= 0 {
		heap.Fix(&l.heap, f.at)
	}
}

// Push enters an item; false if the queue is full.
func (q *Queue[T]) Push(c Client, item T) bool {
	if q.n >= q.Limit {
		return false
	}
	q.n++
	address := q.address(c)
	conn := conn(address, c)
	conn.of.items = append(conn.of.items, item)
	address.of.wait(conn)
	q.all.wait(address)
	return true
}

func (q *Queue[T]) address(c Client) *flow[[16]byte, *level[uint64, *fifo[T]]] {
	q.all.keep = Remembered
	return q.all.get(c.Address, func() *level[uint64, *fifo[T]] { return &level[uint64, *fifo[T]]{keep: RememberedConns} })
}

func conn[T any](address *flow[[16]byte, *level[uint64, *fifo[T]]], c Client) *flow[uint64, *fifo[T]] {
	return address.of.get(c.Conn, func() *fifo[T] { return &fifo[T]{} })
}

// Pop removes the item whose turn it is and says whose it was; false if nothing waits. Each turn is
// charged one unit, so that those whose cost is not known yet go round.
func (q *Queue[T]) Pop() (item T, c Client, ok bool) {
	if q.n == 0 {
		return item, c, false
	}
	q.n--
	address := q.all.first()
	conn := address.of.first()
	list := conn.of.items
	item = list[0]
	var none T
	list[0] = none
	if conn.of.items = list[1:]; len(conn.of.items) == 0 {
		conn.of.items = nil
		heap.Remove(&address.of.heap, conn.at)
		if address.of.heap.Len() == 0 {
			heap.Remove(&q.all.heap, address.at)
		}
	}
	address.of.charge(conn, 1)
	q.all.charge(address, 1)
	return item, Client{address.key, conn.key}, true
}

// Charge says what a client has had.
func (q *Queue[T]) Charge(c Client, cost int64) {
	address := q.address(c)
	address.of.charge(conn(address, c), cost)
	q.all.charge(address, cost)
}

// Len returns how many items wait.
func (q *Queue[T]) Len() int { return q.n }
