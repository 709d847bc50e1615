package producer

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
)

// ErrWentBack answers those who wait for blocks that will never be.
var ErrWentBack = errors.New("producer: the chain went back to a snapshot")

// standStill looks at the chain no more until it is known where that is: the blocks that messages tell of may be gone.
func (a *Actor) standStill(m system.Request[messages.StandStill, messages.Stopped]) {
	err := a.alone()
	a.still = err == nil
	if a.still && a.timer != nil {
		a.timer.Stop()
	}
	m.Reply(messages.Stopped{}, err)
}

// whileStill handles a message meanwhile.
func (a *Actor) whileStill(msg any) {
	switch m := msg.(type) {
	case messages.BlockAccepted: // one that was on its way to the disk
		if m.IsHead {
			a.told(&m)
		}
	case messages.RolledBack:
		a.wentBack(&m)
	case messages.GoOn:
		for i := range a.patches { // the chain makes none of the blocks that it was asked for
			if p := &a.patches[i]; p.at > a.o.Chain.Head().Height() {
				p.at = 0
			}
		}
		a.goOn()
	case messages.RestoreClock:
		a.clock.restore(m.Clock)
	case system.Request[messages.StopProducing, messages.Stopped], messages.ChainHalted:
		a.stopped = true
		a.goOn()
		a.Handle(m)
	case messages.BlockImported, messages.ChunkMade, messages.ChunkReceived, messages.ChunkEndorsed, messages.ApprovalReceived,
		messages.TransactionsWaiting, messages.SubmitAgain, messages.FinalityWanted, tick: // it begins anew
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default: // asked for by somebody
		a.later = append(a.later, msg)
	}
}

// goOn begins anew at the head, with what was asked for meanwhile.
func (a *Actor) goOn() {
	a.still, a.ahead, a.early, a.held = false, nil, nil, false
	if a.fork != nil { // the block that was asked for is not made
		a.fork.at = 0
	}
	if !a.stopped {
		a.begin()
		a.branch()
	}
	later := a.later
	a.later = nil
	for _, m := range later {
		a.Handle(m)
	}
}

// wentBack begins anew at the head. No vote of a block that is gone has left the node, which alone makes the blocks.
func (a *Actor) wentBack(m *messages.RolledBack) {
	for _, g := range a.goals {
		g.reply(messages.BlocksMined{}, ErrWentBack)
	}
	a.goals = nil
	a.refuseAll(ErrWentBack)
	a.era, a.miss = m.Era, nil
	a.tracker = doomslug.New(a.o.Delays, 0, a.now())
	a.sched = production.New(a.sched.Rules(), a.now())
	a.goOn()
}
