package epoch

import (
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
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

// AppendBorsh appends the fields. The encoding is that of Troupe's own rows, not that of nearcore.
func (a *Aggregator) AppendBorsh(b []byte) []byte {
	b = a.LastBlock.AppendBorsh(a.EpochID.AppendBorsh(b))
	b = borsh.AppendSlice(b, a.Blocks, func(b []byte, s *Stats) []byte { return s.appendBorsh(b) })
	b = borsh.AppendSlice(b, a.Chunks, func(b []byte, shard *[]ChunkStats) []byte {
		return borsh.AppendSlice(b, *shard, func(b []byte, c *ChunkStats) []byte {
			return c.Endorsement.appendBorsh(c.Production.appendBorsh(b))
		})
	})
	b = borsh.AppendSlice(b, a.Votes, func(b []byte, v *primitives.ProtocolVersion) []byte {
		return borsh.AppendUint32(b, uint32(*v))
	})
	b = borsh.AppendSlice(b, a.Voted, func(b []byte, v *bool) []byte { return borsh.AppendBool(b, *v) })
	return appendProposals(b, a.Proposals)
}

// DecodeBorsh reads the fields. DecodeBorsh refuses lists of unequal lengths, which could make add
// panic.
func (a *Aggregator) DecodeBorsh(r *borsh.Reader) {
	a.EpochID, a.LastBlock = primitives.ReadHash(r), primitives.ReadHash(r)
	a.Blocks = borsh.Slice(r, 16, readStats)
	a.Chunks = borsh.Slice(r, 4, func(r *borsh.Reader) []ChunkStats {
		return borsh.Slice(r, 32, func(r *borsh.Reader) ChunkStats { return ChunkStats{readStats(r), readStats(r)} })
	})
	a.Votes = borsh.Slice(r, 4, func(r *borsh.Reader) primitives.ProtocolVersion {
		return primitives.ProtocolVersion(r.Uint32())
	})
	a.Voted = borsh.Slice(r, 1, (*borsh.Reader).Bool)
	a.Proposals = readProposals(r)
	n := len(a.Blocks)
	if r.Err() == nil && (len(a.Votes) != n || len(a.Voted) != n ||
		slices.ContainsFunc(a.Chunks, func(shard []ChunkStats) bool { return len(shard) != n })) {
		r.Failf("statistics of an epoch with lists of unequal lengths")
	}
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
