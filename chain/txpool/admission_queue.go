package txpool

import "cmp"

// QueueLimits bound a Queue. Zero means no limit.
type QueueLimits struct {
	Items, Bytes int
	Turn         int // bytes that a turn pays for; 0: 64 KiB
}

// Queue holds what waits to be looked at, and gives it out in turns: one item of each client after the other, and of a client
// whose items are large the fewer. When it is full it is the client with the most in it who loses what came last of his; so a
// client that sends more than is looked at delays and loses its own, and nobody else's.
type Queue[T any] struct {
	limits QueueLimits
	lines  map[string]*line[T]
	turns  []*line[T] // whose turn it is comes first, from head on
	head   int
	most   []*line[T] // heap by weight, the heaviest first
	items  int
	bytes  int
}

// line is what one client has in a Queue.
type line[T any] struct {
	client string
	list   []queued[T] // from head on
	head   int
	bytes  int
	debt   int // bytes given out that have not been paid with turns yet
	place  int // in most
}

type queued[T any] struct {
	item T
	size int
}

// An item counts as its bytes and a little more.
const (
	itemWeight = 512
	turnBytes  = 64 << 10
)

// NewQueue returns an empty queue.
func NewQueue[T any](l QueueLimits) *Queue[T] {
	l.Turn = cmp.Or(l.Turn, turnBytes)
	return &Queue[T]{limits: l, lines: map[string]*line[T]{}}
}

// Len is the number of items, Bytes the sum of their sizes, Clients the number of clients that have any.
func (q *Queue[T]) Len() int     { return q.items }
func (q *Queue[T]) Bytes() int   { return q.bytes }
func (q *Queue[T]) Clients() int { return len(q.lines) }

func (l *line[T]) weight() int { return l.bytes + itemWeight*(len(l.list)-l.head) }

// Put takes an item of a client. It returns what has no place any more, which may be this one.
func (q *Queue[T]) Put(client string, size int, item T) (lost []T) {
	l := q.lines[client]
	if l == nil {
		l = &line[T]{client: client, place: len(q.most)}
		q.lines[client] = l
		q.turns = append(q.turns, l)
		q.most = append(q.most, l)
	}
	l.list = append(l.list, queued[T]{item, size})
	q.count(l, 1, size)
	for q.limits.Items > 0 && q.items > q.limits.Items || q.limits.Bytes > 0 && q.bytes > q.limits.Bytes {
		lost = append(lost, q.lose())
	}
	return lost
}

// lose takes away what came last of the heaviest client.
func (q *Queue[T]) lose() T {
	l := q.most[0]
	last := len(l.list) - 1
	x := l.list[last]
	l.list[last] = queued[T]{}
	l.list = l.list[:last]
	q.count(l, -1, -x.size)
	return x.item
}

// Take returns the next item; false if there is none.
func (q *Queue[T]) Take() (item T, ok bool) {
	for q.items > 0 {
		l := q.turns[q.head]
		q.turns[q.head] = nil
		if q.head++; q.head >= 256 && q.head*2 > len(q.turns) {
			q.turns = q.turns[:copy(q.turns, q.turns[q.head:])]
			q.head = 0
		}
		switch {
		case l.head == len(l.list): // it has lost all
			q.leave(l)
			continue
		case l.debt > q.limits.Turn:
			l.debt -= q.limits.Turn
			q.turns = append(q.turns, l)
			continue
		}
		x := l.list[l.head]
		l.list[l.head] = queued[T]{}
		if l.head++; l.head >= 256 && l.head*2 > len(l.list) {
			l.list = l.list[:copy(l.list, l.list[l.head:])]
			l.head = 0
		}
		l.debt += x.size
		q.count(l, -1, -x.size)
		if l.head == len(l.list) {
			q.leave(l)
		} else {
			q.turns = append(q.turns, l)
		}
		return x.item, true
	}
	return item, false
}

// leave forgets a client that has nothing and is not among the turns.
func (q *Queue[T]) leave(l *line[T]) {
	delete(q.lines, l.client)
	last := len(q.most) - 1
	moved := q.most[last]
	q.most[last] = nil
	q.most = q.most[:last]
	if l.place < last {
		q.set(l.place, moved)
		q.sift(moved)
	}
}

// count notes what a client has got or lost.
func (q *Queue[T]) count(l *line[T], items, bytes int) {
	q.items += items
	q.bytes += bytes
	l.bytes += bytes
	q.sift(l)
}

// sift moves a client to where its weight belongs.
func (q *Queue[T]) sift(l *line[T]) {
	i := l.place
	for i > 0 && q.most[(i-1)/2].weight() < l.weight() {
		q.set(i, q.most[(i-1)/2])
		i = (i - 1) / 2
	}
	for {
		child := 2*i + 1
		if child >= len(q.most) {
			break
		}
		if child+1 < len(q.most) && q.most[child+1].weight() > q.most[child].weight() {
			child++
		}
		if q.most[child].weight() <= l.weight() {
			break
		}
		q.set(i, q.most[child])
		i = child
	}
	q.set(i, l)
}

func (q *Queue[T]) set(i int, l *line[T]) { q.most[i], l.place = l, i }
