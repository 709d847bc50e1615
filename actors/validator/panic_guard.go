package validator

import (
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// guardedEngine is the engine that the core uses. It sets Life.mutating during calls that change
// the engine. A panic in such a call may leave the chain half changed, so Actor.start halts the
// node. After any other panic, the actor restarts.
type guardedEngine struct {
	*engine.Engine
	life *Life
}

// BeginImport implements consensus.Chain.
func (g guardedEngine) BeginImport(b *primitives.Block, chunks []*primitives.Chunk,
	produced bool) (*engine.BlockImport, error) {
	g.life.mutating.Store(true)
	p, err := g.Engine.BeginImport(b, chunks, produced)
	g.life.mutating.Store(false)
	return p, err
}

// FinishImport implements consensus.Chain.
func (g guardedEngine) FinishImport(p *engine.BlockImport, stored func()) (*engine.Imported, error) {
	g.life.mutating.Store(true)
	acc, err := g.Engine.FinishImport(p, stored)
	g.life.mutating.Store(false)
	return acc, err
}

// Stored implements consensus.Chain.
func (g guardedEngine) Stored() ([]*engine.Imported, error) {
	g.life.mutating.Store(true)
	list, err := g.Engine.Stored()
	g.life.mutating.Store(false)
	return list, err
}
