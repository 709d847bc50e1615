package txpool

import "cmp"

// QueueLimits bounds a Queue. Zero Items or Bytes means no limit.
type QueueLimits struct {
	Items, Bytes int
	Turn         int // bytes that a client may take in one turn; 0: 64 KiB
}

// Queue contains items that wait to be checked. Clients take turns, and clients with large items
// get fewer turns (deficit round robin). If the queue is full, the newest item of the client with
// the most bytes is evicted. So a client that sends more than can be checked delays and loses only
// its own items.
//
// Every operation is O(log clients). A Queue is not safe for concurrent use.
type Queue[T any] struct {
	limits   QueueLimits
	clients  map[string]*clientQueue[T]
	turns    []*clientQueue[T] // clients in the order of their turns, starting at head
	head     int
	byWeight []*clientQueue[T] // heap of all clients, by clientQueue.weight, the greatest first
	items    int
	bytes    int
}

// clientQueue contains the items of one client.
type clientQueue[T any] struct {
	client string
	items  []queued[T] // items before index head were taken
	head   int
	bytes  int
	// bytes taken minus QueueLimits.Turn bytes for each turn that the client skipped to pay for
	// these bytes
	deficit   int
	heapIndex int // index in byWeight
}

type queued[T any] struct {
	item T
	size int
}

// An item's weight is its size plus itemWeight, in bytes. turnBytes is the default of Turn.
const (
	itemWeight = 512
	turnBytes  = 64 << 10
)

// NewQueue returns an empty queue.
func NewQueue[T any](l QueueLimits) *Queue[T] {
	l.Turn = cmp.Or(l.Turn, turnBytes)
	return &Queue[T]{limits: l, clients: map[string]*clientQueue[T]{}}
}

// Len returns the number of items, Bytes the sum of their sizes, Clients the number of clients with
// items.
func (q *Queue[T]) Len() int     { return q.items }
func (q *Queue[T]) Bytes() int   { return q.bytes }
func (q *Queue[T]) Clients() int { return len(q.clients) }

func (l *clientQueue[T]) weight() int { return l.bytes + itemWeight*(len(l.items)-l.head) }

// Put adds an item of a client. size is the item's size in bytes. Put returns the evicted items,
// which may include the new item.
func (q *Queue[T]) Put(client string, size int, item T) (lost []T) {
	l := q.clients[client]
	if l == nil {
		l = &clientQueue[T]{client: client, heapIndex: len(q.byWeight)}
		q.clients[client] = l
		q.turns = append(q.turns, l)
		q.byWeight = append(q.byWeight, l)
	}
	l.items = append(l.items, queued[T]{item, size})
	q.adjust(l, 1, size)
	for q.limits.Items > 0 && q.items > q.limits.Items || q.limits.Bytes > 0 && q.bytes > q.limits.Bytes {
		lost = append(lost, q.evictNewest())
	}
	return lost
}

// evictNewest removes the newest item of the heaviest client.
func (q *Queue[T]) evictNewest() T {
	l := q.byWeight[0]
	last := len(l.items) - 1
	x := l.items[last]
	l.items[last] = queued[T]{}
	l.items = l.items[:last]
	q.adjust(l, -1, -x.size)
	return x.item
}

// Take removes and returns the next item. ok is false if the queue is empty.
func (q *Queue[T]) Take() (item T, ok bool) {
	for q.items > 0 {
		l := q.turns[q.head]
		q.turns[q.head] = nil
		if q.head++; q.head >= 256 && q.head*2 > len(q.turns) {
			q.turns = q.turns[:copy(q.turns, q.turns[q.head:])]
			q.head = 0
		}
		switch {
		case l.head == len(l.items): // all items of the client were evicted
			q.removeClient(l)
			continue
		case l.deficit > q.limits.Turn:
			l.deficit -= q.limits.Turn
			q.turns = append(q.turns, l)
			continue
		}
		x := l.items[l.head]
		l.items[l.head] = queued[T]{}
		if l.head++; l.head >= 256 && l.head*2 > len(l.items) {
			l.items = l.items[:copy(l.items, l.items[l.head:])]
			l.head = 0
		}
		l.deficit += x.size
		q.adjust(l, -1, -x.size)
		if l.head == len(l.items) {
			q.removeClient(l)
		} else {
			q.turns = append(q.turns, l)
		}
		return x.item, true
	}
	return item, false
}

// removeClient removes a client that has no items and is not in turns.
func (q *Queue[T]) removeClient(l *clientQueue[T]) {
	delete(q.clients, l.client)
	last := len(q.byWeight) - 1
	moved := q.byWeight[last]
	q.byWeight[last] = nil
	q.byWeight = q.byWeight[:last]
	if l.heapIndex < last {
		q.place(l.heapIndex, moved)
		q.sift(moved)
	}
}

// adjust updates the sums. items and bytes are what a client gained, or lost if negative.
func (q *Queue[T]) adjust(l *clientQueue[T], items, bytes int) {
	q.items += items
	q.bytes += bytes
	l.bytes += bytes
	q.sift(l)
}

// sift restores the heap after the weight of a client has changed.
func (q *Queue[T]) sift(l *clientQueue[T]) {
	i := l.heapIndex
	for i > 0 && q.byWeight[(i-1)/2].weight() < l.weight() {
		q.place(i, q.byWeight[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child >= len(q.byWeight) {
			break
		}
		if child+1 < len(q.byWeight) && q.byWeight[child+1].weight() > q.byWeight[child].weight() {
			child++
		}
		if q.byWeight[child].weight() <= l.weight() {
			break
		}
		q.place(i, q.byWeight[child])
		i = child
	}
	q.place(i, l)
}

func (q *Queue[T]) place(i int, l *clientQueue[T]) { q.byWeight[i], l.heapIndex = l, i }
