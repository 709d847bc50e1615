package messages

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// ChunkMade: chain -> producer, no reply. A chunk on another block than the head is dropped, so is a second one.
type ChunkMade struct {
	Shard primitives.ShardIndex
	Chunk *primitives.Chunk
	Era   Era
}

// ChunkReceived: net -> producer, no reply: another validator's chunk, whose header has been checked. It is included once
// enough validators have endorsed it; this node's endorse it only by ChunkEndorsed. Losses and duplicates as ChunkMade.
type ChunkReceived struct {
	Shard primitives.ShardIndex
	Chunk *primitives.Chunk
}

// ChunkEndorsed: net -> producer, no reply: a validator's endorsement, whose signature is still to be checked. One that
// comes before its chunk waits for it. A duplicate changes nothing; a loss may cost the chunk its place in the block.
type ChunkEndorsed struct {
	Endorsement *primitives.ChunkEndorsement
}

// ApprovalReceived: net -> producer, no reply: a vote, whose signature is still to be checked. One on a block that is
// not the head yet waits for it. A duplicate changes nothing; a loss waits for the next vote.
type ApprovalReceived struct {
	Approval *primitives.Approval
}

// TransactionsWaiting: mempool -> producer, no reply: a pool that had nothing to offer has something. More of the same say
// nothing new; a loss delays a block until the idle interval is over.
type TransactionsWaiting struct{}

// FinalityWanted: node -> producer, no reply: somebody waits for a block to be final, and nobody did before. More of the same say
// nothing new; a loss delays him.
type FinalityWanted struct{}

// MineBlocks: node -> producer, asked; answered with BlocksMined when so many blocks more are accepted, or an error.
type MineBlocks struct{ Blocks uint64 }

// BlocksMined answers MineBlocks: the head then.
type BlocksMined struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// PatchState: node -> producer, asked; answered with StatePatched when a block is on disk that has written the records into the state,
// behind all else that it does. A duplicate writes them twice.
type PatchState struct{ Records []genesis.Record }

// StatePatched answers PatchState: the block, or the head then.
type StatePatched struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// FastForward: node -> producer, asked; answered with Forwarded when the head is so many heights above where it was. One that comes while
// another is under way waits for that one.
type FastForward struct{ Heights uint64 }

// Forwarded answers FastForward: the head then.
type Forwarded struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// MockVerification: node -> producer, asked; answered with VerificationMocked at once: what contracts are told of signatures from the next block
// on, and beside the chain.
type MockVerification struct{ Mocks *primitives.Mocks }

// VerificationMocked answers MockVerification.
type VerificationMocked struct{}

// MissChunks: node -> producer, asked; answered with ChunksMissed at once. The next blocks have no new chunks of some shards.
type MissChunks struct {
	Shards []primitives.ShardID // nil: all
	Blocks uint64               // 0: no longer
}

// ChunksMissed answers MissChunks: of how many blocks to come each shard's chunk is missing.
type ChunksMissed struct{ Left map[primitives.ShardID]uint64 }

// Reorganise: node -> producer, asked; answered with Reorganised when a block is on disk that has the head before it and so many blocks below it
// replaced. One at a time.
type Reorganise struct{ Blocks uint64 }

// Reorganised answers Reorganise: the head then, and the blocks that are not of the chain any more, the newest first.
type Reorganised struct {
	Height primitives.Height
	Hash   primitives.Hash
	Gone   []BlockAt
}

// BlockAt names a block.
type BlockAt struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// StopProducing: node -> producer, asked; answered with Stopped. No block is begun after it.
type StopProducing struct{}

// Stopped answers StopProducing.
type Stopped struct{}

// ApprovalMade: producer -> net, no reply: a vote of one of this node's validators for the validator To.
type ApprovalMade struct {
	Approval *primitives.Approval
	To       primitives.AccountID
}

// EndorsementMade: producer -> net, no reply: an endorsement by one of this node's validators.
type EndorsementMade struct {
	Endorsement *primitives.ChunkEndorsement
}
