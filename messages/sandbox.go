package messages

import "github.com/troupe-chain/troupe/primitives"

// Era counts how often the chain went back. What was asked for in one era is dropped in the next.
type Era uint64

// Snapshot is a block to which the chain may go back; *engine.RevertPoint is it. It is the chain's, and others only hand it back.
type Snapshot interface{ Ended() bool }

// TakeSnapshot: node -> chain, asked; answered with SnapshotTaken when no block is in work or on its way to the disk. Who makes blocks and
// every mempool are told at that moment with CaptureClock and CapturePool, before any of another block. Of: not the head, but the block of that
// snapshot; then nobody is told.
type TakeSnapshot struct{ Of Snapshot }

// SnapshotTaken answers TakeSnapshot, and Rollback: the block.
type SnapshotTaken struct {
	Snapshot Snapshot
	Height   primitives.Height
	Hash     primitives.Hash
}

// EndSnapshot: node -> chain, no reply: nobody goes back there any more. A duplicate changes nothing; a loss keeps its states.
type EndSnapshot struct{ Snapshot Snapshot }

// Rollback: node -> chain, asked; answered with SnapshotTaken when the snapshot's block is the head again and everybody has been told with
// RolledBack. Blocks that were asked for before are not made.
type Rollback struct{ Snapshot Snapshot }

// RolledBack: chain -> producer, milestones, node; no reply: the head is one that it was before, and what was behind that never was. A loss
// would leave a receiver behind for good.
type RolledBack struct {
	Era Era
	At  Position
}

// CapturePool: node -> shard -> mempool, asked; answered with PoolCaptured.
type CapturePool struct{}

// PoolCaptured answers CapturePool, and is what RestorePool restores.
type PoolCaptured struct {
	Transactions []*primitives.SignedTransaction
	Bases        []primitives.Height // of the blocks that they refer to
}

// RestorePool: node -> shard -> mempool, asked, behind a RolledBack; answered with PoolRestored when the pool is what it was. Waiters of what is
// in it no more have been told by milestones. It goes by the shard, as the blocks did that are gone, so that it comes behind them: who asked
// for a Rollback submits nothing before the answer.
type RestorePool struct {
	PoolCaptured
	Head primitives.Height
}

// StandStill: node -> producer, asked before Rollback; answered with Stopped, or an error where others have a say in the next block. Nothing is
// looked up of the chain, whose blocks may be gone, until a RolledBack or a GoOn; what is asked for meanwhile waits for that.
type StandStill struct{}

// GoOn: node -> producer, no reply: the chain did not go back.
type GoOn struct{}

// PoolRestored answers RestorePool.
type PoolRestored struct{}

// CaptureClock: node -> producer, asked; answered with Clock, or an error where others have a say in the next block.
type CaptureClock struct{}

// Clock says what time blocks have.
type Clock struct {
	Time   uint64 // ns since 1970: what it shows
	Frozen bool   // it stands still, but for what is set and for heights that are passed over
	Next   uint64 // ns since 1970, of the next block alone, from which the clock goes on; 0: it is not said
	Step   uint64 // ns between a block and the one before, whatever the clock shows; 0: the clock counts
}

// RestoreClock: node -> producer, no reply, behind a RolledBack: the clock goes on as it stood.
type RestoreClock struct{ Clock Clock }

// SetProduction: node -> producer, asked; answered with Production: as it is then. What is nil stays.
type SetProduction struct {
	Mode     *byte  // a production.Mode
	Quiet    *bool  // no block unless something waits or is asked for
	Interval *int64 // ns between blocks when nothing is to be done
}

// Production says when blocks are made.
type Production struct {
	Mode     byte
	Quiet    bool
	Interval int64
}

// SetClock: node -> producer, asked; answered with Clock: as it is then. What is nil stays.
type SetClock struct {
	Time    *uint64
	Advance uint64 // ns
	Frozen  *bool
	Next    *uint64
	Step    *uint64
}
