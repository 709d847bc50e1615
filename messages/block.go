package messages

import "github.com/troupe-chain/troupe/primitives"

// BlockImported: chain, validator or replica -> producer, every mempool, network, subscriptions; no
// reply. The block is part of the chain in memory, and the next block may build on it. The block is
// not on disk yet. So the receivers must not send peers or clients any message that depends on the
// block. (One exception: engine.commitPipeline, invariant 2.) A BlockAccepted with the same contents
// follows unless the process ends or the write fails. The rules of BlockAccepted about order, losses
// and duplicates apply.
type BlockImported struct{ *BlockAccepted }

// BlockAccepted: chain, validator or replica -> producer, txtracker, network; no reply. The block is
// persisted: it is on disk and visible to readers. Blocks are sent in the order of their import,
// parents first. A message is lost only if its receiver fails. The producer cannot recover from a
// loss, so its failure halts the node. txtracker restarts at the head, and waiters read missed
// outcomes from the store. A duplicate changes only counters.
type BlockAccepted struct {
	Block *primitives.Block
	Hash  primitives.Hash
	// IsHead means that the block is the new canonical head. Reorganised means that the block is
	// the head and the block's parent is not the previous head.
	IsHead, Reorganised bool
	Final               primitives.Height // height of the last final block as of the head
	FinalHash           primitives.Hash
	Shards              []ShardAccepted // effects on the shards, by shard index
	// Returned contains the transactions of blocks that are no longer canonical. Returned leaves
	// out the transactions that the new branch includes.
	Returned []*primitives.SignedTransaction
}

// ShardAccepted contains the effects of a block on one shard.
type ShardAccepted struct {
	ID       primitives.ShardID
	Chunk    *primitives.Chunk // new chunk of the shard; nil: the chunk is missing
	Outcomes []primitives.OutcomeWithID
	Outgoing []*primitives.Receipt // receipts that the shard's chunk created
	Delayed  uint64                // length of the shard's delayed receipt queue after the block
	// Changes are the block's writes to the shard's state, by key.
	Changes []primitives.KeyChanges
}

// Height returns the height of the block.
func (b *BlockAccepted) Height() primitives.Height { return b.Block.Header.Height }

// Fresh returns whether the block includes transactions.
func (b *BlockAccepted) Fresh() bool {
	for i := range b.Shards {
		if c := b.Shards[i].Chunk; c != nil && len(c.Transactions) > 0 {
			return true
		}
	}
	return false
}

// Pressing returns whether the next block has receipts to execute that are not refunds.
func (b *BlockAccepted) Pressing() bool {
	for i := range b.Shards {
		s := &b.Shards[i]
		if s.Delayed > 0 {
			return true
		}
		for _, r := range s.Outgoing {
			if r.PredecessorID != primitives.SystemAccount {
				return true
			}
		}
	}
	return false
}

// Busy returns whether the block included transactions, executed receipts, or left receipts for the
// next block.
func (b *BlockAccepted) Busy() bool {
	for i := range b.Shards {
		s := &b.Shards[i]
		if len(s.Outcomes) > 0 || len(s.Outgoing) > 0 || s.Delayed > 0 || s.Chunk != nil && len(s.Chunk.Transactions) > 0 {
			return true
		}
	}
	return false
}
