package messages

import "github.com/troupe-chain/troupe/primitives"

// MakeChunk: chunk-producer -> chain, answered to the producer with ChunkMade. A parent that is gone gives nothing: the
// producer has moved on. A duplicate makes the same chunk again.
type MakeChunk struct {
	Parent       primitives.Hash
	Shard        primitives.ShardIndex // in the layout of the parent's children
	ShardID      primitives.ShardID
	Producer     primitives.AccountID // one of this node's validators
	Transactions []*primitives.SignedTransaction
}

// MakeBlock: producer -> chain, answered to everybody with BlockAdopted and BlockAccepted. A duplicate is refused as known.
type MakeBlock struct {
	Parent       primitives.Hash
	Height       primitives.Height
	Timestamp    uint64               // ns since 1970; raised to just above the parent's
	Producer     primitives.AccountID // one of this node's validators
	Chunks       []*primitives.Chunk  // by shard index; nil: missed
	Endorsements [][]primitives.Signature
	Approvals    []primitives.Signature
}

// BlockReceived: net -> chain, answered with BlockAccepted to everybody if it is valid, with BlockRefused if it is not. A
// block whose parent is unknown waits for it, within limits. A duplicate changes nothing; a loss is for sync to mend.
type BlockReceived struct {
	Block  *primitives.Block
	Chunks []*primitives.Chunk // the new ones, by shard index
	From   string              // who sent it, for scores and logs
}

// BlockRefused: chain -> net, no reply.
type BlockRefused struct {
	Hash primitives.Hash
	From string
	Err  error
}

// ChunkApplied: shard -> chain, no reply. Exactly one comes for each ApplyChunk.
type ChunkApplied struct{ Block primitives.Hash }

// ChainHalted: chain -> node -> chain, producer; no reply. No block is begun any more, as one that may be right could not be applied,
// or as an actor is gone that blocks need. The chain goes on telling of those that are on their way to the disk. A duplicate changes
// nothing.
type ChainHalted struct {
	Height primitives.Height // of the block
	Block  primitives.Hash
	Err    error
	Drop   func() // gives back what the block holds, once nobody looks into it any more; nil: nothing
}

// DrainChain: node -> chain, asked; answered with Drained once no block is in work or on its way to the disk. Blocks that come
// after it are dropped.
type DrainChain struct{}

// Drained answers DrainChain.
type Drained struct{}
