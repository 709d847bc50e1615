package backend

import (
	"context"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/primitives/view"
)

// SandboxControl executes the sandbox_ methods, except those that the backend itself executes.
type SandboxControl interface {
	view.ProductionControl
	view.StateControl
	view.SnapshotControl
	view.WorldControl
	view.FaultControl
}

var errNoSandboxControl = &view.SandboxError{Reason: "this node produces no blocks, so it has no sandbox methods"}

// Mine produces blocks on request and returns the new head.
func (b *Backend) Mine(ctx context.Context, m *view.Mine) (view.At, error) {
	if b.Control == nil {
		return view.At{}, errNoSandboxControl
	}
	return b.Control.Mine(ctx, m)
}

// PatchState writes records into the state.
func (b *Backend) PatchState(ctx context.Context, records []genesis.Record) error {
	if b.Control == nil {
		return errNoSandboxControl
	}
	return b.Control.PatchState(ctx, records)
}

// FastForward advances the chain by a number of heights.
func (b *Backend) FastForward(ctx context.Context, heights uint64) error {
	if b.Control == nil {
		return errNoSandboxControl
	}
	return b.Control.FastForward(ctx, heights)
}

// NextEpoch advances the chain to the first block of the next epoch.
func (b *Backend) NextEpoch(ctx context.Context) (view.At, error) {
	if b.Control == nil {
		return view.At{}, errNoSandboxControl
	}
	return b.Control.NextEpoch(ctx)
}

// TakeSnapshot makes a snapshot of the chain, to which Revert can roll back.
func (b *Backend) TakeSnapshot(ctx context.Context, name string) (view.Snapshot, error) {
	if b.Control == nil {
		return view.Snapshot{}, errNoSandboxControl
	}
	return b.Control.TakeSnapshot(ctx, name)
}

// Revert rolls the chain back to a snapshot.
func (b *Backend) Revert(ctx context.Context, id string) (view.At, error) {
	if b.Control == nil {
		return view.At{}, errNoSandboxControl
	}
	return b.Control.Revert(ctx, id)
}

// DropSnapshot deletes a snapshot.
func (b *Backend) DropSnapshot(id string) error {
	if b.Control == nil {
		return errNoSandboxControl
	}
	return b.Control.DropSnapshot(id)
}

// Snapshots lists the snapshots.
func (b *Backend) Snapshots() ([]view.Snapshot, error) {
	if b.Control == nil {
		return nil, errNoSandboxControl
	}
	return b.Control.Snapshots()
}

// NewWorld creates a world: a chain instance that branches off this one.
func (b *Backend) NewWorld(ctx context.Context, w *view.NewWorld) (view.World, error) {
	if b.Control == nil {
		return view.World{}, errNoSandboxControl
	}
	return b.Control.NewWorld(ctx, w)
}

// DropWorld deletes a world.
func (b *Backend) DropWorld(ctx context.Context, id string) error {
	if b.Control == nil {
		return errNoSandboxControl
	}
	return b.Control.DropWorld(ctx, id)
}

// Worlds lists the worlds.
func (b *Backend) Worlds() ([]view.World, error) {
	if b.Control == nil {
		return nil, errNoSandboxControl
	}
	return b.Control.Worlds()
}

// SetClock sets the timestamps of the next blocks.
func (b *Backend) SetClock(ctx context.Context, c *view.SetClock) (view.Clock, error) {
	if b.Control == nil {
		return view.Clock{}, errNoSandboxControl
	}
	return b.Control.SetClock(ctx, c)
}

// SetProduction sets when blocks are produced.
func (b *Backend) SetProduction(ctx context.Context, p *view.SetProduction) (view.Production, error) {
	if b.Control == nil {
		return view.Production{}, errNoSandboxControl
	}
	return b.Control.SetProduction(ctx, p)
}

// DumpState returns the state of accounts as records.
func (b *Backend) DumpState(ctx context.Context, accounts []primitives.AccountID, height *uint64,
	each func(genesis.Record) error) (view.At, error) {
	if b.Control == nil {
		return view.At{}, errNoSandboxControl
	}
	return b.Control.DumpState(ctx, accounts, height, each)
}

// LoadState replaces the state of the accounts in records.
func (b *Backend) LoadState(ctx context.Context, records []genesis.Record) error {
	if b.Control == nil {
		return errNoSandboxControl
	}
	return b.Control.LoadState(ctx, records)
}

// Deal sets an account's balance of a token.
func (b *Backend) Deal(ctx context.Context, token, account primitives.AccountID, amount primitives.Balance) error {
	if b.Control == nil {
		return errNoSandboxControl
	}
	return b.Control.Deal(ctx, token, account, amount)
}

// Impersonate makes the chain accept transactions of accounts without a valid signature. all means
// every account.
func (b *Backend) Impersonate(accounts []primitives.AccountID, all bool) error {
	if b.Control == nil {
		return errNoSandboxControl
	}
	return b.Control.Impersonate(accounts, all)
}

// MissChunks makes shards miss chunks.
func (b *Backend) MissChunks(ctx context.Context, m *view.MissChunks) (view.ChunksMissed, error) {
	if b.Control == nil {
		return nil, errNoSandboxControl
	}
	return b.Control.MissChunks(ctx, m)
}

// Reorganise replaces the last blocks with a fork.
func (b *Backend) Reorganise(ctx context.Context, blocks uint64) (view.Reorganised, error) {
	if b.Control == nil {
		return view.Reorganised{}, errNoSandboxControl
	}
	return b.Control.Reorganise(ctx, blocks)
}

// MockVerification sets the results of signature checks in contracts.
func (b *Backend) MockVerification(ctx context.Context, m *primitives.Mocks) error {
	if b.Control == nil {
		return errNoSandboxControl
	}
	return b.Control.MockVerification(ctx, m)
}

// Fork performs the actions of f on accounts of this fork, and describes the chain that was forked.
func (b *Backend) Fork(ctx context.Context, f *view.ForkControl) (view.Fork, error) {
	if b.Control == nil {
		return view.Fork{}, errNoSandboxControl
	}
	return b.Control.Fork(ctx, f)
}
