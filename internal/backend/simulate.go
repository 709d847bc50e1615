package backend

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"time"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/internal/trace"
	"github.com/troupe-chain/troupe/internal/viewpool"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/runtime/verify"
	"github.com/troupe-chain/troupe/storage"
)

// Simulate runs a transaction on a stored state and discards the changes. Simulate runs in the pool
// Views as a simulation.
func (b *Backend) Simulate(ctx context.Context, r *view.Simulate) (out *view.Simulation, err error) {
	err = b.aside(ctx, r, func(ask func() error) error {
		at, err := b.stateAt(ask, r.Block)
		if err != nil {
			return err
		}
		defer at.Release()
		o := simulateOptions(r)
		o.VM = trace.Interruptible(b.VM, ask)
		if err := simulable(at); err != nil {
			return err
		}
		out, err = b.Engine.Simulate(ctx, at, r.Tx, o)
		return err
	})
	return out, err
}

// simulable returns an error if this node does not have the state of all shards. A simulation may
// reach any shard.
func simulable(at *engine.State) error {
	for i := range at.Shards {
		if !at.Shards[i].Held() {
			return unavailable(at.Shards[i].ID)
		}
	}
	return nil
}

// aside runs f in the pool Views as a simulation, so that f does not slow down the chain. If ctx
// ends before f starts, aside returns at once. f must call ask regularly. ask returns an error when
// the time limit of the pool or the request is exceeded, or the client has disconnected.
func (b *Backend) aside(ctx context.Context, r *view.Simulate, f func(ask func() error) error) error {
	if b.Views == nil {
		return &view.LookupError{Kind: view.ErrContractsUnsupported}
	}
	begun := false
	err := b.Views.RunAside(r.Client, func(_ bool, interrupt func() error) error {
		begun = true
		asked, began := 0, time.Now()
		defer func() { r.Took = int64(time.Since(began)) }()
		return f(func() error {
			if asked++; asked%64 == 0 {
				runtime.Gosched()
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			return interrupt()
		})
	}, func() bool { return ctx.Err() != nil })
	if errors.Is(err, viewpool.ErrGone) {
		err = ctx.Err()
	}
	if err != nil && !begun && (errors.Is(err, view.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)) {
		return &view.StoppedError{Where: "before its turn came: one simulation or trace runs at a time", Err: err}
	}
	return err
}

func simulateOptions(r *view.Simulate) engine.SimulateOptions {
	if r.Unsigned {
		return engine.SimulateOptions{Signature: verify.Checked}
	}
	return engine.SimulateOptions{Signature: verify.CheckSignature}
}

// stateAt returns the state after a block. Its reads fail once ask returns an error. The caller
// must release that state.
func (b *Backend) stateAt(ask func() error, r view.BlockRef) (*engine.State, error) {
	if r.Kind == view.RefHeight && b.isCollected(r.Height) {
		return nil, b.collected(r.Height)
	}
	k, err := b.find(r)
	if err != nil {
		return nil, err
	}
	at, err := b.Engine.StateUntil(ask, k.ref.Hash)
	switch {
	case errors.Is(err, storage.ErrGone) && !b.isCollected(k.ref.Height): // after a state sync the block never had a state here
		layout, err := b.layoutOf(k)
		if err != nil {
			return nil, err
		}
		return nil, unavailable(layout.ShardIDs()[0])
	case errors.Is(err, storage.ErrGone):
		return nil, &view.LookupError{Kind: view.ErrGarbageCollected, Height: k.ref.Height, Hash: k.ref.Hash}
	case errors.Is(err, engine.ErrUnknown):
		return nil, &view.LookupError{Kind: view.ErrUnknownBlock, Hash: k.ref.Hash}
	}
	return at, err
}

// Trace returns the JSON trace of a stored or simulated transaction. Trace runs in the pool Views
// as a simulation.
func (b *Backend) Trace(ctx context.Context, r *view.Trace) (out []byte, err error) {
	err = b.aside(ctx, &r.Simulate, func(ask func() error) error {
		report, err := b.trace(ctx, r, ask)
		if err == nil {
			out, err = json.Marshal(report)
		}
		return err
	})
	return out, err
}

func (b *Backend) trace(ctx context.Context, r *view.Trace, ask func() error) (*trace.Report, error) {
	if r.Tx != nil {
		at, err := b.stateAt(ask, r.Block)
		if err != nil {
			return nil, err
		}
		defer at.Release()
		if err := simulable(at); err != nil {
			return nil, err
		}
		return trace.Simulation(ctx, b.Engine, b.VM, at, r.Tx, simulateOptions(&r.Simulate), trace.Options{Profile: r.Profile, Interrupt: ask})
	}
	report, err := trace.Transaction(ctx, b.Engine, b.VM, r.Hash, trace.Options{Profile: r.Profile, Interrupt: ask})
	switch {
	case errors.Is(err, storage.ErrGone):
		return nil, &view.LookupError{Kind: view.ErrGarbageCollected}
	case errors.Is(err, engine.ErrUnknown):
		return nil, b.stateless(r.Hash)
	}
	return report, err
}

// stateless returns the error for a transaction that the node has not executed: ErrGarbageCollected with
// the height of the block if the history has the transaction, whose state the node lacks, else
// ErrUnknownTx.
func (b *Backend) stateless(tx primitives.Hash) error {
	if b.History != nil {
		if at, ok, err := b.History.Transaction(tx); err == nil && ok {
			return &view.LookupError{Kind: view.ErrGarbageCollected, Height: at.Height}
		}
	}
	return &view.LookupError{Kind: view.ErrUnknownTx, Hash: tx}
}
