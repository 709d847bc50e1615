package txpool

// Each entry is in two heaps. The heap of its group is ordered by nonce. The heap of the pool is
// ordered by the height of the base block.
const (
	byNonce = iota
	byAge
)

// heapPush adds entry e to heap h.
func (p *Pool) heapPush(h []int32, which int, e int32) []int32 {
	h = append(h, e)
	p.siftUp(h, which, len(h)-1)
	return h
}

// heapRemove removes the entry at index i from heap h.
func (p *Pool) heapRemove(h []int32, which, i int) []int32 {
	p.entries[h[i]].place[which] = none
	last := len(h) - 1
	moved := h[last]
	h = h[:last]
	if i < last {
		h[i] = moved
		p.entries[moved].place[which] = int32(i)
		p.siftDown(h, which, i)
		p.siftUp(h, which, i)
	}
	return h
}

func (p *Pool) siftUp(h []int32, which, i int) {
	e := h[i]
	key := p.entries[e].key[which]
	for i > 0 {
		parent := (i - 1) / 2
		if p.entries[h[parent]].key[which] <= key {
			break
		}
		h[i] = h[parent]
		p.entries[h[i]].place[which] = int32(i)
		i = parent
	}
	h[i] = e
	p.entries[e].place[which] = int32(i)
}

func (p *Pool) siftDown(h []int32, which, i int) {
	e := h[i]
	key := p.entries[e].key[which]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if r := child + 1; r < len(h) && p.entries[h[r]].key[which] < p.entries[h[child]].key[which] {
			child = r
		}
		if p.entries[h[child]].key[which] >= key {
			break
		}
		h[i] = h[child]
		p.entries[h[i]].place[which] = int32(i)
		i = child
	}
	h[i] = e
	p.entries[e].place[which] = int32(i)
}
