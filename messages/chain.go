package messages

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// MakeBlock: producer -> chain, answered with BlockImported and BlockAccepted to their receivers.
// The chain rejects a duplicate as known.
type MakeBlock struct {
	Parent       primitives.Hash
	Height       primitives.Height
	Timestamp    uint64               // ns since 1970; raised above the parent's if needed
	Producer     primitives.AccountID // one of this node's validators
	Chunks       []*primitives.Chunk  // new chunks by shard index; nil: the chunk is missing
	Endorsements [][]primitives.Signature
	Approvals    []primitives.Signature
	Patch        []genesis.Record // records written into the state with the block; only with new chunks in all shards
	// replaces signature verification in contracts; nil: contracts verify signatures as usual
	Mocks *primitives.Mocks
	Era   Era
}

// BlockReceived: net -> chain. If the block is valid, the answer is BlockAccepted to all its
// receivers, else BlockRefused. A block whose parent or chunk bodies are missing waits within the
// limits of chain/blockpool; BlockWanted and ChunksWanted request the missing parent or bodies. A
// duplicate changes nothing. After a loss, sync fetches the block.
type BlockReceived struct {
	Block  *primitives.Block
	Chunks []*primitives.Chunk // bodies of new chunks that came with the block, by shard index; nil: no body
	From   string              // the peer that sent the block, for scores, quotas and logs
	// Taken is called when the chain has read the message, so that the peer may send the next
	// block. Taken may be nil.
	Taken func()
}

// ChunkReceivedAlone: net -> chain, answered with ChunkRefused if the body does not match its
// header. The message contains a chunk body that arrived without its block. The chain stores the
// body for a pooled block. If the shard's chunk producer signed the chunk, the chain also stores
// the body for a future block. A duplicate changes nothing. After a loss the block keeps waiting
// for the body.
type ChunkReceivedAlone struct {
	Chunk *primitives.Chunk
	From  string
}

// BlockRefused: chain -> net, no reply. The block is invalid, and the peer that sent the block
// could have detected the fault.
type BlockRefused struct {
	Hash   primitives.Hash
	Height primitives.Height
	From   string
	Err    error
}

// ChunkRefused: chain -> net, no reply. A chunk body does not match its header.
type ChunkRefused struct {
	Hash primitives.Hash // claimed by the peer; zero: the body came with a block
	From string
	Err  error
}

// BlockWanted: chain -> net, no reply. The peer From sent a block whose parent is unknown. Hash is
// the hash of that parent. After a loss, the next peer that sends the block triggers the request
// again.
type BlockWanted struct {
	Hash primitives.Hash
	From string
}

// ChunksWanted: chain -> net, no reply. The peer From sent a block whose chunk bodies Chunks are
// missing. A loss has the same effect as for BlockWanted.
type ChunksWanted struct {
	Block  *primitives.Block
	Chunks []primitives.Hash
	From   string
}

// ChunkApplied: shard -> chain, no reply. Sent exactly once for each ApplyChunk.
type ChunkApplied struct{ Block primitives.Hash }

// ChainHalted: chain -> node -> chain, producer; no reply. The chain imports no further block: a
// block that may be valid could not be applied, or an actor that blocks need has failed. The chain
// still reports blocks that are being written to disk. A duplicate changes nothing.
type ChainHalted struct {
	Height primitives.Height // height of the block that failed; 0: no block failed
	Block  primitives.Hash
	Err    error
	Drop   func() // releases the memory of the failed block after it was examined; may be nil
}

// DrainChain: node -> chain, asked; answered with Drained once no block is being imported or
// written. Blocks that arrive after DrainChain are dropped.
type DrainChain struct{}

// Drained answers DrainChain.
type Drained struct{}
