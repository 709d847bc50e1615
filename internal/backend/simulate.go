package backend

import (
	"context"
	"errors"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/storage"
)

// Simulate runs a transaction on a stored state and keeps nothing. A few run at a time; others wait as long as their context
// lets them.
func (b *Backend) Simulate(ctx context.Context, r *view.Simulate) (*view.Simulation, error) {
	select {
	case b.simulations <- struct{}{}:
		defer func() { <-b.simulations }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if r.Block.Kind == view.RefHeight && b.collectable(r.Block.Height) {
		return nil, b.collected(r.Block.Height)
	}
	k, err := b.find(r.Block)
	if err != nil {
		return nil, err
	}
	at, err := b.Engine.StateAt(k.ref.Hash)
	switch {
	case errors.Is(err, storage.ErrGone):
		return nil, &view.LookupError{Kind: view.ErrGarbageCollected, Height: k.ref.Height, Hash: k.ref.Hash}
	case errors.Is(err, engine.ErrUnknown):
		return nil, &view.LookupError{Kind: view.ErrUnknownBlock, Hash: k.ref.Hash}
	case err != nil:
		return nil, err
	}
	defer at.Release()
	o := engine.SimulateOptions{Signature: verify.CheckSignature}
	if r.Unsigned {
		o.Signature = verify.Checked
	}
	return b.Engine.Simulate(ctx, at, r.Tx, o)
}
