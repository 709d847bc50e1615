package messages

import "github.com/troupe-chain/troupe/primitives"

// Era counts the rollbacks of the chain. Requests of one era are dropped in the next.
type Era uint64

// Snapshot is a block to which the chain can roll back: *engine.RevertPoint. It belongs to the
// chain actor; others only hand it back.
type Snapshot interface{ Ended() bool }

// TakeSnapshot: node -> chain, asked; answered with SnapshotTaken when no block is in work or
// on its way to disk. At that moment, before any message about another block, the producer is
// asked with CaptureClock and every mempool with CapturePool. If Of is set, the snapshot is of
// Of's block instead of the head, and neither is asked.
type TakeSnapshot struct{ Of Snapshot }

// SnapshotTaken answers TakeSnapshot and Rollback with the block.
type SnapshotTaken struct {
	Snapshot Snapshot
	Height   primitives.Height
	Hash     primitives.Hash
}

// EndSnapshot: node -> chain, no reply. The snapshot is no longer needed. A duplicate changes
// nothing. A loss keeps its states.
type EndSnapshot struct{ Snapshot Snapshot }

// Rollback: node -> chain, asked; answered with SnapshotTaken when the snapshot's block is the
// head again and RolledBack has been sent. Blocks requested before are not made.
type Rollback struct{ Snapshot Snapshot }

// RolledBack: chain -> producer, txtracker, node; no reply. The head is an earlier block again,
// and later blocks are gone. A loss would leave a receiver behind for good.
type RolledBack struct {
	Era Era
	At  Position
}

// CapturePool: node -> shard -> mempool, asked; answered with PoolCaptured.
type CapturePool struct{}

// PoolCaptured answers CapturePool and is what RestorePool restores.
type PoolCaptured struct {
	Transactions []*primitives.SignedTransaction
	Bases        []primitives.Height // heights of their base blocks
}

// RestorePool: node -> shard -> mempool, asked, after a RolledBack; answered with PoolRestored
// when the pool is as captured. Waiters of other transactions have been told by txtracker. It
// goes through the shard, as the removed blocks did, so that it arrives after them. The caller
// of Rollback submits nothing before the answer.
type RestorePool struct {
	PoolCaptured
	Head primitives.Height
}

// StandStill: node -> producer, asked before Rollback; answered with Stopped, or an error if
// other validators take part in the next block. Until a RolledBack or a GoOn the producer does
// not read the chain: its blocks may be gone; requests that come meanwhile wait.
type StandStill struct{}

// GoOn: node -> producer, no reply. The rollback did not happen.
type GoOn struct{}

// PoolRestored answers RestorePool.
type PoolRestored struct{}

// CaptureClock: node -> producer, asked; answered with Clock, or an error if other validators
// take part in the next block.
type CaptureClock struct{}

// Clock is the state of the clock that gives blocks their timestamps.
type Clock struct {
	Time   uint64 // ns since 1970: the current reading
	Frozen bool   // it advances only when set and for skipped heights
	Next   uint64 // ns since 1970, timestamp of the next block only, from which the clock goes on; 0: unset
	Step   uint64 // ns between consecutive blocks, whatever the reading; 0: unset
}

// RestoreClock: node -> producer, no reply, after a RolledBack. It restores the clock of the
// snapshot.
type RestoreClock struct{ Clock Clock }

// SetProduction: node -> producer, asked; answered with the resulting Production. nil fields
// stay.
type SetProduction struct {
	Mode     *byte  // a production.Mode
	Quiet    *bool  // no block unless something waits or is requested
	Interval *int64 // ns between blocks while idle
}

// Production is when blocks are made.
type Production struct {
	Mode     byte
	Quiet    bool
	Interval int64
}

// SetClock: node -> producer, asked; answered with the resulting Clock. nil and zero fields
// stay.
type SetClock struct {
	Time    *uint64
	Advance uint64 // ns
	Frozen  *bool
	Next    *uint64
	Step    *uint64
}
