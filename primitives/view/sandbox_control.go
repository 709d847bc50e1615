package view

import (
	"context"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// The methods of a sandbox, by role. The RPC requires all of them, and a node's backend passes each
// call on to the chain instance that implements them. They are declared here so that neither has to
// import the other. A method returns a *SandboxError if the node rejects the request or fails, and
// ErrTimeout if the context ends before the method has finished.

// ProductionControl makes blocks, and sets when blocks are made and the time in them.
type ProductionControl interface {
	// Mine produces blocks and returns the last one.
	Mine(ctx context.Context, m *Mine) (At, error)
	// FastForward advances the chain by heights.
	FastForward(ctx context.Context, heights uint64) error
	// NextEpoch advances to the first block of the next epoch.
	NextEpoch(ctx context.Context) (At, error)
	// SetClock sets the clock for block timestamps, and returns the setting after the change.
	SetClock(ctx context.Context, c *SetClock) (Clock, error)
	// SetProduction sets when blocks are produced, and returns the setting after the change.
	SetProduction(ctx context.Context, p *SetProduction) (Production, error)
}

// StateControl reads and writes whole records of the state.
type StateControl interface {
	// PatchState writes records into the state with the next block.
	PatchState(ctx context.Context, records []genesis.Record) error
	// DumpState calls each for the records of accounts (nil: of all accounts) in the state after a
	// block. height is the height of that block; nil: the head. DumpState stops when each returns
	// an error or the context ends.
	DumpState(ctx context.Context, accounts []primitives.AccountID, height *uint64, each func(genesis.Record) error) (At, error)
	// LoadState sets accounts to the state in the records.
	LoadState(ctx context.Context, records []genesis.Record) error
	// Deal sets an account's balance of a token.
	Deal(ctx context.Context, token, account primitives.AccountID, amount primitives.Balance) error
	// Fork applies f to the accounts that this chain takes from the chain that it forks. The result
	// describes the fork.
	Fork(ctx context.Context, f *ForkControl) (Fork, error)
	// ReplayTransaction writes the state that a transaction reads, executes the transaction, and
	// compares the outcomes.
	ReplayTransaction(context.Context, *Case) (Replayed, error)
}

// SnapshotControl rolls the chain back to snapshots.
type SnapshotControl interface {
	// TakeSnapshot takes a snapshot of the head under a name. If name is empty, the name is a
	// number.
	TakeSnapshot(ctx context.Context, name string) (Snapshot, error)
	// Revert rolls the chain back to a snapshot. DropSnapshot deletes one. Snapshots lists all.
	Revert(ctx context.Context, id string) (At, error)
	DropSnapshot(id string) error
	Snapshots() ([]Snapshot, error)
}

// WorldControl makes and ends worlds.
type WorldControl interface {
	// NewWorld makes a world that continues from this chain. DropWorld ends a world and all worlds
	// that continue from that world. Worlds lists all worlds of the process.
	NewWorld(ctx context.Context, w *NewWorld) (World, error)
	DropWorld(ctx context.Context, id string) error
	Worlds() ([]World, error)
}

// FaultControl makes the chain behave as no honest chain would, for tests of contracts and clients.
type FaultControl interface {
	// Impersonate sets the accounts whose transactions need no signature.
	Impersonate(accounts []primitives.AccountID, all bool) error
	// MockVerification sets the results of signature checks in contracts from the next block on.
	MockVerification(ctx context.Context, m *primitives.Mocks) error
	// MissChunks makes the next blocks have no new chunks for some shards.
	MissChunks(ctx context.Context, m *MissChunks) (ChunksMissed, error)
	// Reorganise replaces the last blocks of the chain, the head included, by another branch. None
	// of these blocks may be final.
	Reorganise(ctx context.Context, blocks uint64) (Reorganised, error)
}
