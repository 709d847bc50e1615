package network

import (
	"sync"

	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/primitives/fair"
)

const (
	maxHeard  = 32   // messages of peers that are with the validator at once; the others wait for their turns
	heardCost = 1024 // as how many bytes a message counts beside its length
)

// turns has the validator hear its peers in turns, by lanes of the inbox, which bounds what waits: one that floods waits behind its own messages, and not all others behind them.
type turns struct {
	mu    sync.Mutex
	queue fair.Queue[turn]
	with  int // the validator
}

type turn struct {
	m consensus.Received
	p *place
}

// hear gives the validator a message when it is its turn.
func (a *Actor) hear(m consensus.Received, p *place) {
	t := &a.turns
	t.mu.Lock()
	t.queue.Limit = t.queue.Len() + 1
	t.queue.Push(clientOf(p.lane.of), turn{m, p})
	t.mu.Unlock()
	a.hearNext()
}

// hearNext gives it as many as may be with it.
func (a *Actor) hearNext() {
	t := &a.turns
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.with < maxHeard {
		x, c, ok := t.queue.Pop()
		if !ok {
			return
		}
		t.queue.Charge(c, int64(heardCost+x.p.size))
		t.with++
		a.o.Hear(x.m, func() {
			x.p.done()
			t.mu.Lock()
			t.with--
			t.mu.Unlock()
			a.hearNext()
		})
	}
}
