package cache

import "container/heap"

// rank says how soon an entry goes: the least first. An entry is worth what it saves to make again, for each byte that it takes,
// times how often it was used; and since when counts, as what goes raises the floor on which the next uses stand (this is
// Cherkasova's Greedy-Dual-Size-Frequency, 1998). So what is in use can't be driven out by what is used once, however much of
// that there is; and an artifact that is large beyond what it was made of goes before all others.
type rank struct {
	worth uint64 // of one use
	hits  uint64
	floor uint64 // when it was last used
	turn  uint64 // counts uses of all: of equals the one goes that was used longest ago
	index int    // in the heap
	// What the heap is ordered by: value and turn, or less if it was used since.
	at, atTurn uint64
}

// mostHits bounds what is remembered of better times.
const mostHits = 256

// value is how high an entry stands now.
func (r *rank) value() uint64 { return r.floor + r.hits*r.worth }

// worth of a use: bytes of source, for each 64 KiB of the artifact. Even what has no source is worth something.
func worth(source int, size int64) uint64 {
	return max((uint64(source)+overhead)<<16/uint64(max(size, 1)), 1)
}

// order finds the entry that goes next. The heap is put right where it is looked at, so that a hit costs nothing.
type order[V Value] struct {
	heap        []*Entry[V]
	floor, turn uint64
}

func (o *order[V]) Len() int { return len(o.heap) }
func (o *order[V]) Less(i, j int) bool {
	a, b := &o.heap[i].rank, &o.heap[j].rank
	return a.at < b.at || a.at == b.at && a.atTurn < b.atTurn
}
func (o *order[V]) Swap(i, j int) {
	o.heap[i], o.heap[j] = o.heap[j], o.heap[i]
	o.heap[i].rank.index, o.heap[j].rank.index = i, j
}

// Push and Pop are the heap's own.
func (o *order[V]) Push(e any) {
	entry := e.(*Entry[V])
	entry.rank.index = len(o.heap)
	o.heap = append(o.heap, entry)
}

func (o *order[V]) Pop() any {
	n := len(o.heap) - 1
	e := o.heap[n]
	o.heap[n] = nil
	o.heap = o.heap[:n]
	return e
}

func (o *order[V]) push(e *Entry[V]) {
	o.touch(e)
	e.rank.at, e.rank.atTurn = e.rank.value(), e.rank.turn
	heap.Push(o, e)
}

func (o *order[V]) touch(e *Entry[V]) {
	o.turn++
	e.rank.hits, e.rank.floor, e.rank.turn = min(e.rank.hits+1, mostHits), o.floor, o.turn
}

func (o *order[V]) remove(e *Entry[V]) { heap.Remove(o, e.rank.index) }

// least returns the entry that is to go, which stays in until it is removed.
func (o *order[V]) least() *Entry[V] {
	for {
		e := o.heap[0]
		if e.rank.turn != e.rank.atTurn {
			e.rank.at, e.rank.atTurn = e.rank.value(), e.rank.turn
			heap.Fix(o, 0)
			continue
		}
		o.floor = max(o.floor, e.rank.at)
		return e
	}
}
