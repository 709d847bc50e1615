package chain

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/storage"
)

// ErrClosed rejects requests that arrive after the chain has halted or while it drains.
var ErrClosed = errors.New("chain: the node has halted or is stopping and begins no further block")

// runWhenIdle runs do once no block is being imported or written. Until then no further import
// starts.
func (a *Actor) runWhenIdle(do func()) {
	a.whenIdle = append(a.whenIdle, do)
	a.runIdle()
}

func (a *Actor) runIdle() {
	if a.blocks.Running() != nil || len(a.inFlight) > 0 || len(a.whenIdle) == 0 {
		return
	}
	list := a.whenIdle
	a.whenIdle = nil
	for _, do := range list {
		do()
	}
	a.self(next{})
}

func (a *Actor) snapshot(m system.Request[messages.TakeSnapshot, messages.SnapshotTaken]) {
	if a.isClosing() {
		m.Reply(messages.SnapshotTaken{}, ErrClosed)
		return
	}
	var s *engine.RevertPoint
	var err error
	if of := m.Question.Of; of != nil {
		s, err = a.o.Engine.ShareRevertPoint(of.(*engine.RevertPoint))
	} else {
		s, err = a.o.Engine.NewRevertPoint()
	}
	if err != nil {
		m.Reply(messages.SnapshotTaken{}, err)
		return
	}
	if m.Question.Of == nil {
		a.o.Out.Captured()
	}
	m.Reply(snapshotTaken(s), nil)
}

func snapshotTaken(s *engine.RevertPoint) messages.SnapshotTaken {
	return messages.SnapshotTaken{Snapshot: s, Height: s.Ref().Height, Hash: s.Ref().Hash}
}

// rollback makes the block of a revert point the head and begins a new era. From then on, the actor
// ignores requests of earlier eras, because they may name removed blocks.
func (a *Actor) rollback(m system.Request[messages.Rollback, messages.SnapshotTaken]) {
	s := m.Question.Snapshot.(*engine.RevertPoint)
	if a.isClosing() {
		m.Reply(messages.SnapshotTaken{}, ErrClosed)
		return
	}
	err := a.o.Engine.Rewind(s)
	switch {
	case errors.Is(err, engine.ErrEnded), errors.Is(err, storage.ErrFull), errors.Is(err, storage.ErrOrder):
		a.proposals = nil // the producer makes new requests after the rollback
		m.Reply(messages.SnapshotTaken{}, err)
		return
	case err != nil:
		panic(fmt.Errorf("chain: %w", err))
	}
	a.era++
	a.proposals = nil
	head := a.o.Engine.Head()
	a.blocks.Reset(head.Height(), a.o.Engine.Final().Height)
	a.o.Out.RolledBack(messages.RolledBack{Era: a.era, At: messages.Position{Head: head.Height(),
		Final: a.o.Engine.Final().Height}})
	m.Reply(snapshotTaken(s), nil)
}
