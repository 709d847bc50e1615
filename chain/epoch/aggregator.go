package epoch

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Aggregator collects the statistics of the validators of one epoch from its blocks up to some
// block (nearcore epoch_info_aggregator.rs). Validators are identified by ID and shards by index,
// which are fixed within an epoch.
type Aggregator struct {
	EpochID   primitives.EpochID
	LastBlock primitives.Hash // the last block that was counted
	Blocks    []Stats         // counts of blocks by validator ID
	Chunks    [][]ChunkStats  // counts of chunks by shard index and validator ID
	// Votes contains, by validator ID, the protocol version in the validator's latest block of the
	// epoch. Voted is true, by validator ID, if the validator produced a block in the epoch.
	Votes     []primitives.ProtocolVersion
	Voted     []bool
	Proposals AccountMap[primitives.ValidatorStake] // the latest proposal of each account
}

func newAggregator(id primitives.EpochID, info *EpochInfo) *Aggregator {
	n := len(info.Validators)
	a := &Aggregator{
		EpochID: id, Blocks: make([]Stats, n), Votes: make([]primitives.ProtocolVersion, n), Voted: make([]bool, n),
		Chunks: make([][]ChunkStats, len(info.ChunkProducers)),
	}
	for i := range a.Chunks {
		a.Chunks[i] = make([]ChunkStats, n)
	}
	return a
}

func (a *Aggregator) clone() *Aggregator {
	c := *a
	c.Blocks, c.Votes, c.Voted = slices.Clone(a.Blocks), slices.Clone(a.Votes), slices.Clone(a.Voted)
	c.Proposals = slices.Clone(a.Proposals)
	c.Chunks = make([][]ChunkStats, len(a.Chunks))
	for i := range a.Chunks {
		c.Chunks[i] = slices.Clone(a.Chunks[i])
	}
	return &c
}

// add counts a block. The block's parent must be the block that add counted last, or the last block
// of the previous epoch. A skipped height counts against its block producer. producers are the
// producers of the chunks on the parent, by shard index. assignment is SampleChunkValidators of the
// height after the parent: the validators whose endorsements are counted.
func (a *Aggregator) add(b *BlockInfo, info *EpochInfo, producers []ValidatorID,
	prevHeight primitives.Height, assignment [][]WeightedValidator) error {
	for h := prevHeight + 1; h <= b.Height; h++ {
		a.Blocks[info.SampleBlockProducer(h)].count(h == b.Height)
	}
	if len(b.ChunkMask) > min(len(a.Chunks), len(producers)) {
		return fmt.Errorf("%w: block %v has a mask of %d chunks for %d shards", ErrBlockInfo, b.Hash, len(b.ChunkMask), len(a.Chunks))
	}
	for i, mask := range b.ChunkMask {
		shard := a.Chunks[i]
		shard[producers[i]].Production.count(mask)
		if i >= len(assignment) {
			continue
		}
		var bitmap []byte // nil if the chunk is not new, so that it has no endorsements
		if mask && i < len(b.ChunkEndorsements) {
			bitmap = b.ChunkEndorsements[i]
		}
		for j, v := range assignment[i] {
			made := j/8 < len(bitmap) && bitmap[j/8]>>(j%8)&1 == 1
			if mask && j/8 >= len(bitmap) {
				continue // the bitmap is too short for this validator: do not count it
			}
			shard[v.ID].Endorsement.count(made)
		}
	}
	producer := info.SampleBlockProducer(b.Height)
	a.Votes[producer], a.Voted[producer] = b.LatestProtocolVersion, true
	// If an account has several proposals in a block, the first one counts.
	for _, p := range slices.Backward(b.Proposals) {
		a.Proposals.Set(p.AccountID, p)
	}
	a.LastBlock = b.Hash
	return nil
}

// stats returns the statistics of each validator, by ID, summed over all shards.
func (a *Aggregator) stats() []ValidatorStats {
	out := make([]ValidatorStats, len(a.Blocks))
	for id := range out {
		out[id].Blocks = a.Blocks[id]
		for i := range a.Chunks {
			out[id].add(a.Chunks[i][id])
		}
	}
	return out
}
