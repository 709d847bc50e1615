package messages

import "github.com/troupe-chain/troupe/primitives"

// Job is work on one shard. It runs once, on any goroutine.
type Job interface{ Run() }

// ApplyChunk: chain -> shard, answered to the chain with ChunkApplied. A shard applies its
// chunks in the order of arrival.
type ApplyChunk struct {
	Block  primitives.Hash
	Height primitives.Height
	Job    Job
}

// ProduceChunk: producer -> mempool -> chunk-producer, answered through the chain to the
// producer with ChunkMade. It passes the mempool's mailbox so that the pool has seen the
// parent; an empty pool is not asked. A duplicate makes a second chunk, which the producer
// drops.
type ProduceChunk struct {
	Parent   primitives.Hash
	Shard    primitives.ShardIndex // in the layout of the parent's children
	ShardID  primitives.ShardID
	Producer primitives.AccountID // one of this node's validators
	Era      Era
	Empty    bool // the chunk must have no transactions
}
