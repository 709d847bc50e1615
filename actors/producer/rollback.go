package producer

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/doomslug"
	"github.com/troupe-chain/troupe/chain/production"
	"github.com/troupe-chain/troupe/messages"
)

// ErrRolledBack rejects requests whose blocks are not made because of a rollback.
var ErrRolledBack = errors.New("producer: the chain was reverted to a snapshot")

// pause stops reading the chain until the rollback is done, because blocks that messages name may
// be removed.
func (a *Actor) pause(m system.Request[messages.StandStill, messages.Stopped]) {
	err := a.requireSole()
	a.paused = err == nil
	if a.paused && a.timer != nil {
		a.timer.Stop()
	}
	m.Reply(messages.Stopped{}, err)
}

// handlePaused handles a message while paused.
func (a *Actor) handlePaused(msg any) {
	switch m := msg.(type) {
	case messages.BlockAccepted: // a block that was imported before the rollback is on disk now
		if m.IsHead {
			a.answerGoals(&m)
		}
	case messages.RolledBack:
		a.rolledBack(&m)
	case messages.GoOn:
		for i := range a.patches { // the chain actor dropped the requests for these patches' blocks
			if p := &a.patches[i]; p.at > a.o.Chain.Head().Height() {
				p.at = 0
			}
		}
		a.resume()
	case messages.RestoreClock:
		a.clock.restore(m.Clock)
	case system.Request[messages.StopProducing, messages.Stopped], messages.ChainHalted:
		a.stopped = true
		a.resume()
		a.Handle(m)
	case messages.BlockImported, messages.ChunkMade, messages.TransactionsWaiting, messages.SubmitAgain,
		messages.FinalityWanted, tick: // ignored, because resume reads the chain afterwards
	case actor.SystemMessage, actor.AutoReceiveMessage: // lifecycle; nothing to do
	default: // all other messages are requests, which wait
		a.deferred = append(a.deferred, msg)
	}
}

// resume ends the pause: the actor begins at the head again, and then handles the deferred
// requests.
func (a *Actor) resume() {
	a.paused, a.followed, a.held = false, nil, false
	if a.reorg != nil { // the chain actor dropped the request for the block of this reorganisation
		a.reorg.at = 0
	}
	if !a.stopped {
		a.begin()
		a.startBranch()
	}
	later := a.deferred
	a.deferred = nil
	for _, m := range later {
		a.Handle(m)
	}
}

// rolledBack begins at the new head with empty state. That is safe for consensus: this node is the
// sole validator, so no approval of a removed block has left this node.
func (a *Actor) rolledBack(m *messages.RolledBack) {
	for _, g := range a.goals {
		g.reply(messages.BlocksMined{}, ErrRolledBack)
	}
	a.goals = nil
	a.refuseAll(ErrRolledBack)
	a.era, a.missLeft = m.Era, nil
	a.doomslug = doomslug.New(a.o.Delays, 0, a.now())
	a.sched = production.New(a.sched.Rules(), a.now())
	a.resume()
}
