package messages

import "github.com/troupe-chain/troupe/primitives"

// BlockAccepted: chain -> producer, every mempool, milestones; no reply. The block is on disk and readers see it. Blocks come
// in the order in which they were accepted, parents first. A loss would leave a receiver behind for good, so senders and
// receivers live and die together; a duplicate changes nothing but counters.
type BlockAccepted struct {
	Block *primitives.Block
	Hash  primitives.Hash
	// IsHead: the block is the new canonical head. Reorganised: it is, and does not follow the head before.
	IsHead, Reorganised bool
	Final               primitives.Height // of the head's last final block
	FinalHash           primitives.Hash
	Shards              []ShardAccepted // by shard index
	// Returned are the transactions of blocks that are canonical no longer, without those that the new branch has too.
	Returned []*primitives.SignedTransaction
}

// ShardAccepted is what a block did in one shard.
type ShardAccepted struct {
	ID       primitives.ShardID
	Chunk    *primitives.Chunk // nil: missed
	Outcomes []primitives.OutcomeWithID
	Outgoing []*primitives.Receipt // sent in this block
	Delayed  uint64                // receipts in the shard's queue
}

// Height is the block's.
func (b *BlockAccepted) Height() primitives.Height { return b.Block.Header.Height }

// Busy tells whether the block had work in it or left some for the next one.
func (b *BlockAccepted) Busy() bool {
	for i := range b.Shards {
		s := &b.Shards[i]
		if len(s.Outcomes) > 0 || len(s.Outgoing) > 0 || s.Delayed > 0 || s.Chunk != nil && len(s.Chunk.Transactions) > 0 {
			return true
		}
	}
	return false
}
