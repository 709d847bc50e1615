// Package fair is a fair queue: clients take turns at a scarce resource.
//
//	in      Push: an item and its client; Charge: the cost of a client's turn
//	out     Pop: the item whose turn it is
//	state   Queue: the waiting items, and how much each client has used; no clock, no goroutine,
//	        no lock
//	units   cost in any unit of the caller's, mostly nanoseconds
//	bound   Limit items; Remembered addresses without waiting items, RememberedConns connections
//	        of each
//	errors  none; Push returns false when the queue is full
//	source  start-time fair queueing (Goyal, Vin, Cheng 1996), on two levels
//
// The next turn belongs to the address that has used least, and within this address to the
// connection that has used least. A client that is new, or returns, starts with the usage of the
// present clients: such a client gets no credit for the time before. Among clients with equal
// usage, every other turn goes to such a new client. So a client with rare requests does not wait
// for a whole round of clients that always have requests.
package fair

import "container/heap"

// Client identifies a client: an address, and one of its connections.
type Client struct {
	Address [16]byte
	Conn    uint64
}

// The queue remembers this many addresses without waiting items, and this many connections of each
// address, so that a returning address or connection does not count as new.
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

// level is a set of flows. The flows with waiting items form a heap, ordered by their usage.
type level[K comparable, V any] struct {
	flows map[K]*flow[K, V]
	heap  flowHeap[K, V]
	clock int64         // usage that the flow with the last turn had before that turn
	keep  int           // maximum number of flows without waiting items that are remembered
	fresh []*flow[K, V] // flows that are new or have returned; some may have had a turn since
	next  bool          // true: a flow in fresh has the next turn
}

type flow[K comparable, V any] struct {
	key  K
	had  int64
	came uint64 // sequence number that breaks ties: the lower one is first
	at   int    // index in the heap; -1: the flow has no waiting items
	anew bool   // the flow is new or has returned, and waits for its first turn
	// listed means that the flow is in level.fresh.
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

// get returns the flow of k, creating it if necessary.
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

// forget drops flows without waiting items. forget first drops the flows whose usage is at most
// clock, because a flow that returns starts at clock anyway. If too many flows remain, forget drops
// all flows without waiting items.
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

// wait adds a flow to the heap, unless it is there.
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
			break // the flow has used more than the other flows in fresh
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

// Push adds an item and returns false if the queue is full.
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

// Pop removes the item whose turn it is and returns the item with its client; false if nothing
// waits. Each turn is charged one unit, so that clients whose cost is not yet known alternate.
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

// Charge adds to what a client has used.
func (q *Queue[T]) Charge(c Client, cost int64) {
	address := q.address(c)
	address.of.charge(conn(address, c), cost)
	q.all.charge(address, cost)
}

// Len returns how many items wait.
func (q *Queue[T]) Len() int { return q.n }
