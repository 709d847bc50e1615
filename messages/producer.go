package messages

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// ChunkMade: chunk-producer -> producer, answers ProduceChunk. The producer drops a chunk whose parent
// is not the head, and a second chunk of a shard.
type ChunkMade struct {
	Shard primitives.ShardIndex
	Chunk *primitives.Chunk
	Era   Era
}

// TransactionsWaiting: mempool -> producer, no reply. A pool that had no transactions to offer has
// some now. A duplicate changes nothing. A loss delays the next block until the idle interval is
// over.
type TransactionsWaiting struct{}

// FinalityWanted: node -> producer, no reply. The first request that waits for finality has begun.
// A duplicate changes nothing. A loss delays that request.
type FinalityWanted struct{}

// MineBlocks: node -> producer, asked; answered with BlocksMined when Blocks more blocks are
// accepted, or with an error.
type MineBlocks struct{ Blocks uint64 }

// BlocksMined answers MineBlocks with the new head.
type BlocksMined struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// PatchState: node -> producer, asked; answered with StatePatched when a block that wrote the
// records is on disk. The records are written after all other changes of that block. A duplicate
// writes the records twice.
type PatchState struct{ Records []genesis.Record }

// StatePatched answers PatchState with the block that wrote the records.
type StatePatched struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// FastForward: node -> producer, asked; answered with Forwarded when the head has advanced by
// Heights heights. A second request waits until the first is done.
type FastForward struct{ Heights uint64 }

// Forwarded answers FastForward with the new head.
type Forwarded struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// MockVerification: node -> producer, asked; answered with VerificationMocked at once. Mocks
// replaces the signature verification of contracts from the next block on, and in view calls.
type MockVerification struct{ Mocks *primitives.Mocks }

// VerificationMocked answers MockVerification.
type VerificationMocked struct{}

// MissChunks: node -> producer, asked; answered with ChunksMissed at once. The next Blocks blocks
// have no new chunks in the given shards.
type MissChunks struct {
	Shards []primitives.ShardID // shards that get no new chunks; nil: all shards
	Blocks uint64               // number of next blocks without these chunks; 0: end the effect of the previous request
}

// ChunksMissed answers MissChunks. Left is, for each shard, how many of the next blocks have no new
// chunk of that shard.
type ChunksMissed struct{ Left map[primitives.ShardID]uint64 }

// Reorganise: node -> producer, asked; answered with Reorganised when a block is on disk that makes
// Blocks blocks, up to the previous head, non-canonical. Only one request may be open.
type Reorganise struct{ Blocks uint64 }

// Reorganised answers Reorganise with the new head and the blocks that are no longer canonical,
// newest first.
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

// StopProducing: node -> producer, asked; answered with Stopped. The producer starts no further
// block.
type StopProducing struct{}

// Stopped answers StopProducing.
type Stopped struct{}
