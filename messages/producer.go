package messages

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// ChunkMade: chain -> producer, no reply. A chunk on another parent than the head is dropped, as
// is a second one.
type ChunkMade struct {
	Shard primitives.ShardIndex
	Chunk *primitives.Chunk
	Era   Era
}

// ChunkReceived: net -> producer, no reply: another validator's chunk with a valid header. It
// is included once enough validators have endorsed it; this node's validators do so with
// ChunkEndorsed only. Losses and duplicates as for ChunkMade.
type ChunkReceived struct {
	Shard primitives.ShardIndex
	Chunk *primitives.Chunk
}

// ChunkEndorsed: net -> producer, no reply: a validator's endorsement with an unchecked
// signature. It waits for its chunk if that has not come. A duplicate changes nothing. A loss
// may cost the chunk its place in the block.
type ChunkEndorsed struct {
	Endorsement *primitives.ChunkEndorsement
}

// ApprovalReceived: net -> producer, no reply: an approval with an unchecked signature. It
// waits if its block is not the head yet. A duplicate changes nothing. After a loss the next
// approval counts.
type ApprovalReceived struct {
	Approval *primitives.Approval
}

// TransactionsWaiting: mempool -> producer, no reply. A pool that had nothing to offer has
// something. Duplicates change nothing. A loss delays a block until the idle interval is over.
type TransactionsWaiting struct{}

// FinalityWanted: node -> producer, no reply. The first wait for a final block has begun.
// Duplicates change nothing. A loss delays the wait.
type FinalityWanted struct{}

// MineBlocks: node -> producer, asked; answered with BlocksMined when that many more blocks are
// accepted, or with an error.
type MineBlocks struct{ Blocks uint64 }

// BlocksMined answers MineBlocks with the head.
type BlocksMined struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// PatchState: node -> producer, asked; answered with StatePatched when a block is on disk that
// wrote the records into the state, after everything else the block does. A duplicate writes
// them twice.
type PatchState struct{ Records []genesis.Record }

// StatePatched answers PatchState with the block.
type StatePatched struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// FastForward: node -> producer, asked; answered with Forwarded when the head has advanced by
// that many heights. A request during another one waits for that one.
type FastForward struct{ Heights uint64 }

// Forwarded answers FastForward with the head.
type Forwarded struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// MockVerification: node -> producer, asked; answered with VerificationMocked at once. It mocks
// the signature verification of contracts from the next block on, and in view calls.
type MockVerification struct{ Mocks *primitives.Mocks }

// VerificationMocked answers MockVerification.
type VerificationMocked struct{}

// MissChunks: node -> producer, asked; answered with ChunksMissed at once. The next blocks lack
// new chunks of some shards.
type MissChunks struct {
	Shards []primitives.ShardID // nil: all
	Blocks uint64               // how many; 0: no longer
}

// ChunksMissed answers MissChunks: for each shard, the number of coming blocks without its
// chunk.
type ChunksMissed struct{ Left map[primitives.ShardID]uint64 }

// Reorganise: node -> producer, asked; answered with Reorganised when a block is on disk that
// replaces the head and blocks below it, Blocks in all. One at a time.
type Reorganise struct{ Blocks uint64 }

// Reorganised answers Reorganise: the new head, and the replaced blocks, newest first.
type Reorganised struct {
	Height primitives.Height
	Hash   primitives.Hash
	Gone   []BlockAt
}

// BlockAt identifies a block.
type BlockAt struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// StopProducing: node -> producer, asked; answered with Stopped. No block is started after it.
type StopProducing struct{}

// Stopped answers StopProducing.
type Stopped struct{}

// ApprovalMade: producer -> net, no reply: an approval of one of this node's validators,
// addressed to the validator To.
type ApprovalMade struct {
	Approval *primitives.Approval
	To       primitives.AccountID
}

// EndorsementMade: producer -> net, no reply: an endorsement by one of this node's validators.
type EndorsementMade struct {
	Endorsement *primitives.ChunkEndorsement
}
