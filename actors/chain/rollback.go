package chain

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/actors/system"
	"github.com/troupe-chain/troupe/chain/blockpool"
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/messages"
	"github.com/troupe-chain/troupe/storage"
)

// ErrOver refuses what would need further blocks.
var ErrOver = errors.New("chain: no block is begun any more")

// rest has something done once no block is in work or on its way to the disk; until then none is begun.
func (a *Actor) rest(do func()) {
	a.rests = append(a.rests, do)
	a.rested()
}

func (a *Actor) rested() {
	if a.work != nil || len(a.ahead) > 0 || len(a.rests) == 0 {
		return
	}
	list := a.rests
	a.rests = nil
	for _, do := range list {
		do()
	}
	a.self(next{})
}

func (a *Actor) snapshot(m system.Request[messages.TakeSnapshot, messages.SnapshotTaken]) {
	if a.over() {
		m.Reply(messages.SnapshotTaken{}, ErrOver)
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
	m.Reply(taken(s), nil)
}

func taken(s *engine.RevertPoint) messages.SnapshotTaken {
	return messages.SnapshotTaken{Snapshot: s, Height: s.Ref().Height, Hash: s.Ref().Hash}
}

// goBack makes a snapshot's block the head. What was asked for on blocks that are gone is of the era before.
func (a *Actor) goBack(m system.Request[messages.Rollback, messages.SnapshotTaken]) {
	s := m.Question.Snapshot.(*engine.RevertPoint)
	if a.over() {
		m.Reply(messages.SnapshotTaken{}, ErrOver)
		return
	}
	err := a.o.Engine.Rewind(s)
	switch {
	case errors.Is(err, engine.ErrEnded), errors.Is(err, storage.ErrFull), errors.Is(err, storage.ErrOrder):
		a.makes = nil // who asked for them begins anew at the head
		m.Reply(messages.SnapshotTaken{}, err)
		return
	case err != nil:
		panic(fmt.Errorf("chain: %w", err))
	}
	a.era++
	a.makes = nil
	head := a.o.Engine.Head()
	a.tip, a.pool = head.Height(), blockpool.New(head.Height(), a.o.Engine.Final().Height)
	a.o.Out.WentBack(messages.RolledBack{Era: a.era, At: messages.Position{Head: head.Height(), Final: a.o.Engine.Final().Height}})
	m.Reply(taken(s), nil)
}
