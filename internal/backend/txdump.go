package backend

import (
	"context"
	"errors"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/trace"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage"
)

// DumpTransaction returns a transaction with the state that it reads, as input for
// ReplayTransaction. DumpTransaction runs in the pool Views as a simulation.
func (b *Backend) DumpTransaction(ctx context.Context, r *view.Trace) (out *view.Case, err error) {
	err = b.aside(ctx, &r.Simulate, func(ask func() error) (err error) {
		out, err = b.Engine.Prestate(ctx, r.Hash, trace.Interruptible(b.VM, ask))
		return err
	})
	switch {
	case errors.Is(err, view.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return nil, err
	case errors.Is(err, engine.ErrUnknown):
		return nil, &view.LookupError{Kind: view.ErrUnknownTx, Hash: r.Hash}
	case errors.Is(err, storage.ErrGone):
		return nil, &view.SandboxError{Reason: "the state before the transaction was garbage-collected"}
	case errors.Is(err, engine.ErrPrestate) && ctx.Err() == nil:
		return nil, &view.SandboxError{Reason: err.Error()}
	}
	return out, err
}

// ReplayTransaction runs a dumped transaction again and compares the results with the recorded
// results.
func (b *Backend) ReplayTransaction(ctx context.Context, c *view.Case) (view.Replayed, error) {
	if b.Control == nil {
		return view.Replayed{}, errNoSandboxControl
	}
	return b.Control.ReplayTransaction(ctx, c)
}
