package epoch

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// Aggregator collects what the blocks of one epoch, up to some block, say about its validators
// (nearcore epoch_info_aggregator.rs). Validators are identified by ID and shards by index: both
// are fixed for an epoch.
type Aggregator struct {
	EpochID   primitives.EpochID
	LastBlock primitives.Hash // the last block that was counted
	Blocks    []Stats         // by validator ID
	Chunks    [][]ChunkStats  // by shard index and validator ID
	// Votes holds the protocol version in each producer's latest block, by validator ID. Voted says
	// which producers made a block.
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

// add counts a block. Its parent must be the last counted block, or the last one of the epoch
// before. A skipped height counts against the producer that was sampled for it. producers are those
// of the chunks on the parent, by shard index. Endorsements are those sampled for the height after
// the parent, for which assignment is the result of SampleChunkValidators.
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
		var bitmap []byte // an old chunk has no endorsements
		if mask && i < len(b.ChunkEndorsements) {
			bitmap = b.ChunkEndorsements[i]
		}
		for j, v := range assignment[i] {
			made := j/8 < len(bitmap) && bitmap[j/8]>>(j%8)&1 == 1
			if mask && j/8 >= len(bitmap) {
				continue // a bitmap that is too short leaves the rest uncounted
			}
			shard[v.ID].Endorsement.count(made)
		}
	}
	producer := info.SampleBlockProducer(b.Height)
	a.Votes[producer], a.Voted[producer] = b.LatestProtocolVersion, true
	for _, p := range slices.Backward(b.Proposals) { // the first of several proposals of one account in a block wins
		a.Proposals.Set(p.AccountID, p)
	}
	a.LastBlock = b.Hash
	return nil
}

// stats returns the sums over all shards for each validator, by ID.
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
