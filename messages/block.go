package messages

import "github.com/troupe-chain/troupe/primitives"

// BlockImported: chain -> producer, every mempool, streams; no reply. The block is part of the chain, and the next may be made on it, but
// it is not on disk yet, so nothing that leaves the node may rest on it. A BlockAccepted with the same content follows,
// unless the process ends. Order, losses and duplicates as with that.
type BlockImported struct{ *BlockAccepted }

// BlockAccepted: chain -> producer, milestones; no reply. The block is on disk and readers see it. Blocks come in the order in
// which they were adopted, parents first. A loss would leave a receiver behind for good, so senders and receivers live and
// die together; a duplicate changes nothing but counters.
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
	// Changes are what the block wrote to the shard's state.
	Changes []primitives.KeyChanges
}

// Height is the block's.
func (b *BlockAccepted) Height() primitives.Height { return b.Block.Header.Height }

// Fresh tells whether the block has transactions, Pressing whether it left receipts that are no refunds for the next one.
func (b *BlockAccepted) Fresh() bool {
	for i := range b.Shards {
		if c := b.Shards[i].Chunk; c != nil && len(c.Transactions) > 0 {
			return true
		}
	}
	return false
}

// Pressing goes with Fresh.
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
