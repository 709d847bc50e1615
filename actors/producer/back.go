package producer

import (
	"errors"

	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
)

// ErrWentBack answers those who wait for blocks that will never be.
var ErrWentBack = errors.New("producer: the chain went back to a snapshot")

// wentBack begins anew at the head. No vote of a block that is gone has left the node, which alone makes the blocks.
func (a *Actor) wentBack(m *messages.WentBack) {
	for _, g := range a.goals {
		g.reply(messages.BlocksMined{}, ErrWentBack)
	}
	a.goals = nil
	a.refuseAll(ErrWentBack)
	if a.stopped {
		return
	}
	a.era, a.ahead, a.early, a.held = m.Era, nil, nil, false
	a.tracker = doomslug.New(a.o.Delays, 0, a.now())
	a.sched = production.New(a.sched.Rules(), a.now())
	a.begin()
}
