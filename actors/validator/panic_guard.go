package validator

import (
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// guardedEngine is the engine as the core sees it. It records whether a call that changes the
// engine is in work, so that after a panic start knows whether the chain may be half changed:
// then the node halts, else the actor restarts.
type guardedEngine struct {
	*engine.Engine
	life *Life
}

// BeginImport is part of consensus.Chain.
func (g guardedEngine) BeginImport(b *primitives.Block, chunks []*primitives.Chunk,
	produced bool) (*engine.BlockImport, error) {
	g.life.mutating.Store(true)
	p, err := g.Engine.BeginImport(b, chunks, produced)
	g.life.mutating.Store(false)
	return p, err
}

// FinishImport is part of consensus.Chain.
func (g guardedEngine) FinishImport(p *engine.BlockImport, stored func()) (*engine.Accepted, error) {
	g.life.mutating.Store(true)
	acc, err := g.Engine.FinishImport(p, stored)
	g.life.mutating.Store(false)
	return acc, err
}

// Stored is part of consensus.Chain.
func (g guardedEngine) Stored() ([]*engine.Accepted, error) {
	g.life.mutating.Store(true)
	list, err := g.Engine.Stored()
	g.life.mutating.Store(false)
	return list, err
}
