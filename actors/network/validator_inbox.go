package network

import (
	"sync"

	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/primitives/fair"
)

// Limits of the messages that the validator has at once.
const (
	maxWithValidator = 32   // messages in the validator's mailbox
	messageCost      = 1024 // bytes that a message counts besides its length
)

// validatorInbox passes messages to the validator fairly between the sources of inbox, which
// bounds them. A peer that floods delays only its own messages. Safe for concurrent use.
type validatorInbox struct {
	mu    sync.Mutex
	queue fair.Queue[validatorMessage]
	with  int // messages in the validator's mailbox
}

type validatorMessage struct {
	m consensus.Received
	p *slot
}

// receiveInTurn passes a message to the validator in its turn.
func (a *Actor) receiveInTurn(m consensus.Received, p *slot) {
	t := &a.validatorInbox
	t.mu.Lock()
	t.queue.Limit = t.queue.Len() + 1
	t.queue.Push(clientOf(p.source.of), validatorMessage{m, p})
	t.mu.Unlock()
	a.passNext()
}

// passNext passes as many messages as the validator may have.
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
