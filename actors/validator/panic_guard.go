package validator

import (
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// guardedEngine is the engine as the core has it: behind a panic it is known whether that was inside of what changes the chain.
type guardedEngine struct {
	*engine.Engine
	life *Life
}

// Begin is the engine's.
func (g guardedEngine) BeginImport(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*engine.BlockImport, error) {
	g.life.mutating.Store(true)
	p, err := g.Engine.BeginImport(b, chunks, produced)
	g.life.mutating.Store(false)
	return p, err
}

// Adopt is the engine's.
func (g guardedEngine) FinishImport(p *engine.BlockImport, stored func()) (*engine.Accepted, error) {
	g.life.mutating.Store(true)
	acc, err := g.Engine.FinishImport(p, stored)
	g.life.mutating.Store(false)
	return acc, err
}

// Stored is the engine's.
func (g guardedEngine) Stored() ([]*engine.Accepted, error) {
	g.life.mutating.Store(true)
	list, err := g.Engine.Stored()
	g.life.mutating.Store(false)
	return list, err
}
