package messages

import "github.com/troupe-chain/troupe/primitives"

// Job is work on one shard that may run on any goroutine, once.
type Job interface{ Run() }

// ApplyChunk: chain -> shard, answered to the chain with ChunkApplied. A shard applies its chunks in the order they come.
type ApplyChunk struct {
	Block  primitives.Hash
	Height primitives.Height
	Job    Job
}

// ProduceChunk: producer -> mempool -> chunk-producer, answered to the producer by way of the chain with ChunkMade. It goes
// through the mempool's mailbox so that the pool has seen the parent before; an empty pool is not asked. A duplicate makes a second chunk, which the
// producer drops.
type ProduceChunk struct {
	Parent   primitives.Hash
	Shard    primitives.ShardIndex // in the layout of the parent's children
	ShardID  primitives.ShardID
	Producer primitives.AccountID // one of this node's validators
	Era      Era
	Empty    bool // it is to have no transactions
}
