package txtracker

// Indices into waiter.place. A waiter whose Use is watched is in a heap by nonce and in the heap by
// expiry.
const (
	byNonce  = iota // index of the heap of an access key's waiters, lowest nonce first
	byExpiry        // index of the heap of all waiters, lowest expiry height first
)

// useHeap is a min-heap of waiters by nonce or by expiry. Each waiter stores its position in the
// heap, for removal.
type useHeap struct {
	which int
	list  []*waiter
}

func (q *useHeap) key(w *waiter) uint64 {
	if q.which == byNonce {
		return uint64(w.use.Nonce)
	}
	return uint64(w.use.Expires)
}

func (q *useHeap) push(w *waiter) {
	q.list = append(q.list, w)
	q.up(len(q.list) - 1)
}

// remove removes the waiter at position i.
func (q *useHeap) remove(i int) {
	last := len(q.list) - 1
	moved := q.list[last]
	q.list[last] = nil
	q.list = q.list[:last]
	if i == last {
		return
	}
	q.list[i] = moved
	q.down(i)
	q.up(moved.place[q.which])
}

func (q *useHeap) up(i int) {
	w := q.list[i]
	for i > 0 {
		parent := (i - 1) / 2
		if q.key(q.list[parent]) <= q.key(w) {
			break
		}
		q.set(i, q.list[parent])
		i = parent
	}
	q.set(i, w)
}

func (q *useHeap) down(i int) {
	w := q.list[i]
	for {
		child := 2*i + 1
		if child >= len(q.list) {
			break
		}
		if child+1 < len(q.list) && q.key(q.list[child+1]) < q.key(q.list[child]) {
			child++
		}
		if q.key(w) <= q.key(q.list[child]) {
			break
		}
		q.set(i, q.list[child])
		i = child
	}
	q.set(i, w)
}

func (q *useHeap) set(i int, w *waiter) { q.list[i], w.place[q.which] = w, i }
