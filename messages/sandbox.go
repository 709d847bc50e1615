package messages

import "github.com/troupe-chain/troupe/primitives"

// Era counts the rollbacks of the chain. The receiver drops a request that was made in a previous
// era.
type Era uint64

// Snapshot is a block to which the chain can roll back: an *engine.RevertPoint. Only the chain
// actor uses the contents of a Snapshot. All other actors only pass a Snapshot on.
type Snapshot interface{ Ended() bool }

// TakeSnapshot: node -> chain, asked; answered with SnapshotTaken when no block is being imported
// or written. At that moment, before any message about a block after that moment, the chain sends
// CaptureClock to the producer and CapturePool to every mempool. If Of is set, the snapshot is of
// Of's block instead of the head, and the chain sends neither CaptureClock nor CapturePool.
type TakeSnapshot struct{ Of Snapshot }

// SnapshotTaken answers TakeSnapshot with the snapshot's block, and Rollback with the new head.
type SnapshotTaken struct {
	Snapshot Snapshot
	Height   primitives.Height
	Hash     primitives.Hash
}

// EndSnapshot: node -> chain, no reply. The snapshot is no longer needed. A duplicate changes
// nothing. After a loss the snapshot's states stay in memory.
type EndSnapshot struct{ Snapshot Snapshot }

// Rollback: node -> chain, asked; answered with SnapshotTaken when the snapshot's block is the head
// again and RolledBack has been sent. Blocks that were requested before the rollback are not made.
type Rollback struct{ Snapshot Snapshot }

// RolledBack: chain -> producer, txtracker, node; no reply. At is the new position: the snapshot's
// block is the head again, and the blocks after it no longer exist. A receiver cannot recover from
// a loss.
type RolledBack struct {
	Era Era
	At  Position
}

// CapturePool: node -> mempool, asked; answered with PoolCaptured.
type CapturePool struct{}

// PoolCaptured answers CapturePool with the pooled transactions. RestorePool restores these
// transactions.
type PoolCaptured struct {
	Transactions []*primitives.SignedTransaction
	Bases        []primitives.Height // heights of the transactions' base blocks, one for each
}

// RestorePool: node -> mempool, asked after a RolledBack; answered with PoolRestored when the pool
// has its captured contents. The chain's goroutine sends RestorePool, as it sends blocks, so that
// RestorePool arrives after the removed blocks. txtracker has already answered the waiters of
// removed transactions. The caller of Rollback submits nothing before the answer.
type RestorePool struct {
	PoolCaptured
	Head primitives.Height
}

// StandStill: node -> producer, asked before Rollback; answered with Stopped, or with an error if
// other validators take part in the next block. Until RolledBack or GoOn, the producer does not
// read the chain, because blocks of the chain may be removed. Requests that arrive in between wait.
type StandStill struct{}

// GoOn: node -> producer, no reply. GoOn ends StandStill if the rollback failed.
type GoOn struct{}

// PoolRestored answers RestorePool.
type PoolRestored struct{}

// CaptureClock: node -> producer, asked; answered with Clock, or with an error if other validators
// take part in the next block.
type CaptureClock struct{}

// Clock is the state of the sandbox clock, which gives blocks their timestamps.
type Clock struct {
	Time   uint64 // ns since 1970: its current time
	Frozen bool   // true: time does not pass; the time changes only when set and for skipped heights
	Next   uint64 // ns since 1970: timestamp of the next block, from which the clock then continues; 0: unset
	Step   uint64 // fixed ns between blocks, whatever the real time; 0: unset
}

// RestoreClock: node -> producer, no reply, after a RolledBack. RestoreClock sets the clock to the
// state captured with the snapshot.
type RestoreClock struct{ Clock Clock }

// SetProduction: node -> producer, asked; answered with the resulting Production. A nil field
// leaves its value unchanged.
type SetProduction struct {
	Mode     *byte  // a production.Mode
	Quiet    *bool  // make no block unless a transaction waits or a block is requested
	Interval *int64 // ns between blocks while idle
}

// Production says when the producer makes blocks. The fields have the meaning of the fields of
// SetProduction.
type Production struct {
	Mode     byte
	Quiet    bool
	Interval int64
}

// SetClock: node -> producer, asked; answered with the resulting Clock. A nil or zero field leaves
// its value unchanged. See Clock for the units.
type SetClock struct {
	Time    *uint64
	Advance uint64 // ns to add to the time
	Frozen  *bool
	Next    *uint64
	Step    *uint64
}
