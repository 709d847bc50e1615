package messages

import "github.com/troupe-chain/troupe/primitives"

// Job is work on one shard. Run is called once, on any goroutine.
type Job interface{ Run() }

// ApplyChunk: chain -> shard, answered to the chain with ChunkApplied. A shard runs its jobs in the
// order of arrival.
type ApplyChunk struct {
	Block  primitives.Hash
	Height primitives.Height
	Job    Job
}

// ProduceChunk: producer -> mempool -> chunk-producer, answered to the producer with ChunkMade.
// There is no answer if the parent is on a branch that is no longer canonical; in that case the
// producer expects no answer. The request passes through the mempool's mailbox. So the pool has
// processed the parent block before the pool offers candidates. A duplicate makes a second chunk,
// which the producer drops.
type ProduceChunk struct {
	Parent   primitives.Hash
	Shard    primitives.ShardIndex // shard's index in the layout of the parent's children
	ShardID  primitives.ShardID
	Producer primitives.AccountID // one of this node's validators
	Era      Era
}
