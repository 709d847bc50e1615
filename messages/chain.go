package messages

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// MakeChunk: chunk-producer -> chain, answered to the producer with ChunkMade. A parent that is gone gives nothing: the
// producer has moved on. A duplicate makes the same chunk again.
type MakeChunk struct {
	Parent       primitives.Hash
	Shard        primitives.ShardIndex // in the layout of the parent's children
	ShardID      primitives.ShardID
	Producer     primitives.AccountID // one of this node's validators
	Transactions []*primitives.SignedTransaction
	Era          Era
}

// MakeBlock: producer -> chain, answered to everybody with BlockImported and BlockAccepted. A duplicate is refused as known.
type MakeBlock struct {
	Parent       primitives.Hash
	Height       primitives.Height
	Timestamp    uint64               // ns since 1970; raised to just above the parent's
	Producer     primitives.AccountID // one of this node's validators
	Chunks       []*primitives.Chunk  // by shard index; nil: missed
	Endorsements [][]primitives.Signature
	Approvals    []primitives.Signature
	Patch        []genesis.Record  // what is written into the state with it; not with a missed chunk
	Mocks        *primitives.Mocks // what contracts are told in it; nil: the truth
	Era          Era
}

// BlockReceived: net -> chain, answered with BlockAccepted to everybody if it is valid, with BlockRefused if it is not. A
// block whose parent or chunks' bodies are not there waits for them, within limits, and they are asked for with BlockWanted and
// ChunksWanted. A duplicate changes nothing; a loss is for sync to mend.
type BlockReceived struct {
	Block  *primitives.Block
	Chunks []*primitives.Chunk // what came with it of the new ones, by shard index
	From   string              // who sent it, for scores, shares of room and logs
	Taken  func()              // called when it is out of the mailbox, so that its sender may send another; nil: nobody waits
}

// ChunkReceivedAlone: net -> chain, answered with ChunkRefused if it is not what its header says: a chunk with its transactions that
// came without its block. It is kept for a block that waits for it, or for one to come if the right producer has signed it. A
// duplicate changes nothing; a loss leaves its block waiting.
type ChunkReceivedAlone struct {
	Chunk *primitives.Chunk
	From  string
}

// BlockRefused: chain -> net, no reply: the block is bad, and who sent it could have known.
type BlockRefused struct {
	Hash   primitives.Hash
	Height primitives.Height
	From   string
	Err    error
}

// ChunkRefused: chain -> net, no reply: a chunk's body that is not what its header says.
type ChunkRefused struct {
	Hash primitives.Hash // as the sender calls it; zero: it came with a block
	From string
	Err  error
}

// BlockWanted: chain -> net, no reply: a block from From builds on this one, which is not known. A loss is mended by the next who sends
// the child.
type BlockWanted struct {
	Hash primitives.Hash
	From string
}

// ChunksWanted: chain -> net, no reply: a block from From has chunks whose bodies have not come. A loss as with BlockWanted.
type ChunksWanted struct {
	Block  *primitives.Block
	Chunks []primitives.Hash
	From   string
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
