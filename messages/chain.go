package messages

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// MakeChunk: chunk-producer -> chain, answered to the producer with ChunkMade. There is no
// answer if the parent is gone: the producer has moved on. A duplicate makes the same chunk
// again.
type MakeChunk struct {
	Parent       primitives.Hash
	Shard        primitives.ShardIndex // in the layout of the parent's children
	ShardID      primitives.ShardID
	Producer     primitives.AccountID // one of this node's validators
	Transactions []*primitives.SignedTransaction
	Era          Era
}

// MakeBlock: producer -> chain, answered to all with BlockImported and BlockAccepted. A
// duplicate is rejected as known.
type MakeBlock struct {
	Parent       primitives.Hash
	Height       primitives.Height
	Timestamp    uint64               // ns since 1970; raised above the parent's if needed
	Producer     primitives.AccountID // one of this node's validators
	Chunks       []*primitives.Chunk  // by shard index; nil: missing
	Endorsements [][]primitives.Signature
	Approvals    []primitives.Signature
	Patch        []genesis.Record  // written into the state with the block; not with a missing chunk
	Mocks        *primitives.Mocks // mocked signature verification of its contracts; nil: none
	Era          Era
}

// BlockReceived: net -> chain, answered to all with BlockAccepted if the block is valid, else
// with BlockRefused. A block that lacks its parent or chunk bodies waits for them within
// limits; they are requested with BlockWanted and ChunksWanted. A duplicate changes nothing.
// After a loss sync fetches the block.
type BlockReceived struct {
	Block  *primitives.Block
	Chunks []*primitives.Chunk // its new chunks that came with it, by shard index
	From   string              // the sender, for scores, quotas and logs
	// called when the block has left the mailbox, so that the sender may send another; may be nil
	Taken func()
}

// ChunkReceivedAlone: net -> chain, answered with ChunkRefused if the body does not match its
// header. It is a chunk with its transactions that came without its block. It is kept for a
// waiting block, or for a future one if the right producer has signed it. A duplicate changes
// nothing. A loss leaves its block waiting.
type ChunkReceivedAlone struct {
	Chunk *primitives.Chunk
	From  string
}

// BlockRefused: chain -> net, no reply. The block is invalid in a way that its sender could
// detect.
type BlockRefused struct {
	Hash   primitives.Hash
	Height primitives.Height
	From   string
	Err    error
}

// ChunkRefused: chain -> net, no reply. A chunk body does not match its header.
type ChunkRefused struct {
	Hash primitives.Hash // as the sender claims; zero: it came with a block
	From string
	Err  error
}

// BlockWanted: chain -> net, no reply. The unknown parent of a block that From sent. After a
// loss the next sender of the child triggers it again.
type BlockWanted struct {
	Hash primitives.Hash
	From string
}

// ChunksWanted: chain -> net, no reply. Chunk bodies that a block from From lacks. Losses as
// for BlockWanted.
type ChunksWanted struct {
	Block  *primitives.Block
	Chunks []primitives.Hash
	From   string
}

// ChunkApplied: shard -> chain, no reply. Exactly one for each ApplyChunk.
type ChunkApplied struct{ Block primitives.Hash }

// ChainHalted: chain -> node -> chain, producer; no reply. No further block is started: a block
// that may be valid could not be applied, or an actor that blocks need has failed. The chain
// still reports blocks that are on their way to disk. A duplicate changes nothing.
type ChainHalted struct {
	Height primitives.Height // of the block
	Block  primitives.Hash
	Err    error
	Drop   func() // releases what the block holds, once it is no longer examined; may be nil
}

// DrainChain: node -> chain, asked; answered with Drained once no block is in work or on its
// way to disk. Later blocks are dropped.
type DrainChain struct{}

// Drained answers DrainChain.
type Drained struct{}
