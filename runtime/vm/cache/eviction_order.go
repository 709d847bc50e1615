package cache

import "container/heap"

// rank orders entries for eviction: the entry with the lowest rank is evicted first.
//
// The value of an entry is the compile time that a hit saves per byte of memory, times the entry's
// number of uses. The number of uses is remembered after eviction, and all numbers are halved from
// time to time. This is the admission rule of TinyLFU (Einziger et al., 2015), extended by sizes.
// So contracts that are called once or twice, however many there are, cannot evict contracts in
// use. An artifact that is large compared with its source has a low value and is evicted early.
type rank struct {
	worth uint64 // value of one use, see the function worth
	hits  uint64 // number of uses, halved now and then
	// number of the last use; of entries with equal values, the entry with the lowest turn is
	// evicted first
	turn  uint64
	index int // index in the heap
	// at and atTurn are the value and the turn by which the heap is ordered. at and atTurn are
	// outdated, and too low, if the entry was used after the heap was last updated.
	at, atTurn uint64
}

const (
	mostHits   = 256
	mostGone   = 1 << 14 // maximum number of evicted keys whose uses are remembered
	leastAging = 1 << 12 // hits are halved after this number of uses; with more than 512 entries, after eight per entry
)

// value returns the value of the entry, from its current hits.
func (r *rank) value() uint64 { return r.hits * r.worth }

// worth returns the value of one use: bytes of source, plus overhead, per 64 KiB of artifact. It is
// at least 1.
func worth(source int, size int64) uint64 {
	return max((uint64(source)+overhead)<<16/uint64(max(size, 1)), 1)
}

// order finds the next entry to evict. A hit does not move its entry in the heap; least moves
// outdated entries.
type order[V Value] struct {
	heap []*Entry[V]
	gone map[Key]uint64 // number of uses of evicted keys
	turn uint64
	aged uint64 // turn at which hits were last halved
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

// Push and Pop implement heap.Interface.
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

// age halves all hits, so that the order follows recent use.
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

// least returns the entry to evict next. The entry stays in the heap until it is removed.
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
