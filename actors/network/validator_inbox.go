package network

import (
	"sync"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives/fair"
)

// Limits of the messages in the validator actor's mailbox.
const (
	maxWithValidator = 32   // maximum number of messages in the validator's mailbox
	messageCost      = 1024 // bytes that a message costs in the fair queue, in addition to its size
)

// validatorInbox passes messages to the validator actor, fairly between sources (see source). A
// peer that sends too much delays only its own messages. inbox bounds the queue. Safe for
// concurrent use.
type validatorInbox struct {
	mu    sync.Mutex
	queue fair.Queue[validatorMessage]
	with  int // number of messages in the validator's mailbox
}

type validatorMessage struct {
	m consensus.Received
	p *slot
}

// receiveInTurn queues a message for the validator.
func (a *Actor) receiveInTurn(m consensus.Received, p *slot) {
	t := &a.validatorInbox
	t.mu.Lock()
	t.queue.Limit = t.queue.Len() + 1
	t.queue.Push(clientOf(p.source.of), validatorMessage{m, p})
	t.mu.Unlock()
	a.passNext()
}

// passNext passes queued messages until the validator has maxWithValidator.
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
		a.o.Validator.Receive(x.m, func() {
			x.p.done()
			t.mu.Lock()
			t.with--
			t.mu.Unlock()
			a.passNext()
		})
	}
}
