package network

import (
	"sync"

	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/primitives/fair"
)

const (
	maxWithValidator  = 32   // messages of peers that are with the validator at once; the others wait for their turns
	messageCost = 1024 // as how many bytes a message counts beside its length
)

// validatorInbox has the validator hear its peers in turns, by lanes of the inbox, which bounds what waits: one that floods waits behind its own messages, and not all others behind them.
type validatorInbox struct {
	mu    sync.Mutex
	queue fair.Queue[validatorMessage]
	with  int // the validator
}

type validatorMessage struct {
	m consensus.Received
	p *slot
}

// receiveInTurn gives the validator a message when it is its turn.
func (a *Actor) receiveInTurn(m consensus.Received, p *slot) {
	t := &a.validatorInbox
	t.mu.Lock()
	t.queue.Limit = t.queue.Len() + 1
	t.queue.Push(clientOf(p.source.of), validatorMessage{m, p})
	t.mu.Unlock()
	a.passNext()
}

// passNext gives it as many as may be with it.
func (a *Actor) passNext() {
	t := &a.validatorInbox
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.with < maxWithValidator {
		x, c, ok := t.queue.Pop()
		if !ok {
			return
		}
		t.queue.Charge(c, int64(messageCost+x.p.size))
		t.with++
		a.o.Receive(x.m, func() {
			x.p.done()
			t.mu.Lock()
			t.with--
			t.mu.Unlock()
			a.passNext()
		})
	}
}
