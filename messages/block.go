package messages

import "github.com/troupe-chain/troupe/primitives"

// BlockImported: chain -> producer, every mempool, subscriptions; no reply. The block is part
// of the chain in memory and the next block may build on it. It is not on disk yet, so nothing
// that leaves the node may depend on it. A BlockAccepted with the same content follows unless
// the process ends. Order, losses and duplicates as for BlockAccepted.
type BlockImported struct{ *BlockAccepted }

// BlockAccepted: chain -> producer, txtracker; no reply. The block is on disk and visible to
// readers. Blocks come in the order of their import, parents first. A loss would leave the
// receiver behind for good, so senders and receivers live and die together. A duplicate changes
// only counters.
type BlockAccepted struct {
	Block *primitives.Block
	Hash  primitives.Hash
	// IsHead: the block is the new canonical head. Reorganised: it is the head and not a child of
	// the previous head.
	IsHead, Reorganised bool
	Final               primitives.Height // height of the last final block as of the head
	FinalHash           primitives.Hash
	Shards              []ShardAccepted // by shard index
	// Returned are the transactions of blocks that are no longer canonical, without those that the
	// new branch includes.
	Returned []*primitives.SignedTransaction
}

// ShardAccepted is what a block did in one shard.
type ShardAccepted struct {
	ID       primitives.ShardID
	Chunk    *primitives.Chunk // nil: missing chunk
	Outcomes []primitives.OutcomeWithID
	Outgoing []*primitives.Receipt // sent in this block
	Delayed  uint64                // receipts in the shard's delayed queue
	// Changes are the block's writes to the shard's state.
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

// Pressing returns whether the block left receipts for the next one that are no refunds.
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

// Busy returns whether the block did any work or left some for the next one.
func (b *BlockAccepted) Busy() bool {
	for i := range b.Shards {
		s := &b.Shards[i]
		if len(s.Outcomes) > 0 || len(s.Outgoing) > 0 || s.Delayed > 0 || s.Chunk != nil && len(s.Chunk.Transactions) > 0 {
			return true
		}
	}
	return false
}
