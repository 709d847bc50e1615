package validator

import (
	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
)

// guarded is the engine as the core has it: behind a panic it is known whether that was inside of what changes the chain.
type guarded struct {
	*engine.Engine
	life *Life
}

// Begin is the engine's.
func (g guarded) BeginImport(b *primitives.Block, chunks []*primitives.Chunk, produced bool) (*engine.BlockImport, error) {
	g.life.inside.Store(true)
	p, err := g.Engine.BeginImport(b, chunks, produced)
	g.life.inside.Store(false)
	return p, err
}

// Adopt is the engine's.
func (g guarded) FinishImport(p *engine.BlockImport, stored func()) (*engine.Accepted, error) {
	g.life.inside.Store(true)
	acc, err := g.Engine.FinishImport(p, stored)
	g.life.inside.Store(false)
	return acc, err
}

// Stored is the engine's.
func (g guarded) Stored() ([]*engine.Accepted, error) {
	g.life.inside.Store(true)
	list, err := g.Engine.Stored()
	g.life.inside.Store(false)
	return list, err
}
