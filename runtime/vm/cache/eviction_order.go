package cache

import "container/heap"

// rank says how soon an entry goes: the least first. An entry is worth what it saves to make again,
// for each byte that it takes, times how often it was used. How often is remembered of what went
// too, and halved for all from time to time (this is how Einziger's TinyLFU, 2015, admits entries,
// with sizes). So what is in use can't be driven out by what is used once or twice, however much of
// that there is; and an artifact that is large beyond what it was made of goes before all others.
type rank struct {
	worth uint64 // of one use
	hits  uint64
	turn  uint64 // counts uses of all: of equals the one goes that was used longest ago
	index int    // in the heap
	// What the heap is ordered by: value and turn, or less if it was used since.
	at, atTurn uint64
}

const (
	mostHits   = 256
	mostGone   = 1 << 14 // that are remembered after they went
	leastAging = 1 << 12 // uses after which hits are halved; more if there are many entries
)

// value is how high an entry stands now.
func (r *rank) value() uint64 { return r.hits * r.worth }

// worth of a use: bytes of source, for each 64 KiB of the artifact. Even what has no source is
// worth something.
func worth(source int, size int64) uint64 {
	return max((uint64(source)+overhead)<<16/uint64(max(size, 1)), 1)
}

// order finds the entry that goes next. The heap is put right where it is looked at, so that a hit
// costs nothing.
type order[V Value] struct {
	heap []*Entry[V]
	gone map[Key]uint64 // hits of those that went
	turn uint64
	aged uint64 // the turn when hits were halved
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
	e.rank.hits = o.gone[e.key]
	delete(o.gone, e.key)
	o.touch(e)
	e.rank.at, e.rank.atTurn = e.rank.value(), e.rank.turn
	heap.Push(o, e)
}

func (o *order[V]) touch(e *Entry[V]) {
	o.turn++
	e.rank.hits, e.rank.turn = min(e.rank.hits+1, mostHits), o.turn
	if o.turn-o.aged > max(leastAging, 8*uint64(len(o.heap))) {
		o.age()
	}
}

// age halves all hits, so that better times are forgotten.
func (o *order[V]) age() {
	o.aged = o.turn
	for _, e := range o.heap {
		e.rank.hits = (e.rank.hits + 1) / 2
		e.rank.at, e.rank.atTurn = e.rank.value(), e.rank.turn
	}
	heap.Init(o)
	o.ageGone()
}

func (o *order[V]) ageGone() {
	for key, hits := range o.gone {
		if hits /= 2; hits == 0 {
			delete(o.gone, key)
		} else {
			o.gone[key] = hits
		}
	}
}

func (o *order[V]) remove(e *Entry[V]) {
	heap.Remove(o, e.rank.index)
	for len(o.gone) >= mostGone {
		o.ageGone()
	}
	if o.gone == nil {
		o.gone = map[Key]uint64{}
	}
	o.gone[e.key] = e.rank.hits
}

// least returns the entry that is to go, which stays in until it is removed.
func (o *order[V]) least() *Entry[V] {
	for {
		e := o.heap[0]
		if e.rank.turn == e.rank.atTurn {
			return e
		}
		e.rank.at, e.rank.atTurn = e.rank.value(), e.rank.turn
		heap.Fix(o, 0)
	}
}
