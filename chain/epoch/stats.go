package epoch

import (
	"math/big"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Stats contains how many items a validator was expected to produce in an epoch, and how many items
// the validator produced.
type Stats struct{ Produced, Expected uint64 }

// LessThan returns whether the validator produced less than percent of the expected number. The
// result is false if nothing was expected.
func (s Stats) LessThan(percent uint8) bool { return s.Produced*100 < uint64(percent)*s.Expected }

func (s *Stats) count(made bool) {
	s.Expected++
	if made {
		s.Produced++
	}
}

func (s *Stats) add(o Stats) {
	s.Produced += o.Produced
	s.Expected += o.Expected
}

func (s *Stats) appendBorsh(b []byte) []byte {
	return borsh.AppendUint64(borsh.AppendUint64(b, s.Produced), s.Expected)
}

func readStats(r *borsh.Reader) Stats { return Stats{r.Uint64(), r.Uint64()} }

// ChunkStats counts a validator's chunks and endorsements.
type ChunkStats struct{ Production, Endorsement Stats }

func (c *ChunkStats) add(o ChunkStats) {
	c.Production.add(o.Production)
	c.Endorsement.add(o.Endorsement)
}

// ValidatorStats contains all statistics of a validator in an epoch (nearcore
// BlockChunkValidatorStats).
type ValidatorStats struct {
	Blocks Stats
	ChunkStats
}

// AppendBorsh appends six u64: produced and expected blocks, chunks, endorsements.
func (v *ValidatorStats) AppendBorsh(b []byte) []byte {
	return v.Endorsement.appendBorsh(v.Production.appendBorsh(v.Blocks.appendBorsh(b)))
}

// DecodeBorsh reads six u64.
func (v *ValidatorStats) DecodeBorsh(r *borsh.Reader) {
	v.Blocks, v.Production, v.Endorsement = readStats(r), readStats(r), readStats(r)
}

// onlineRatio returns the mean of produced/expected over blocks, chunks and endorsements, as an
// unreduced fraction (nearcore validator_stats.rs:17). onlineRatio leaves out a kind of which no
// item was expected. If it leaves out all three kinds, the ratio is 0/1. cutoff is a percentage of
// endorsements: below cutoff the endorsements count as 0, from cutoff on as 1. A negative cutoff
// has no effect.
func (v *ValidatorStats) onlineRatio(cutoff int) (num, den *big.Int) {
	endorsement := v.Endorsement
	if cutoff >= 0 && endorsement.Expected > 0 {
		made := uint64(1)
		if endorsement.LessThan(uint8(cutoff)) {
			made = 0
		}
		endorsement = Stats{made, 1}
	}
	num, den = big.NewInt(0), big.NewInt(1)
	terms := uint64(0)
	for _, s := range [...]Stats{v.Blocks, v.Production, endorsement} {
		if s.Expected == 0 {
			continue
		}
		// Add produced/expected to num/den. The division for the mean follows at the end.
		e := bigUint(s.Expected)
		num.Mul(num, e)
		num.Add(num, new(big.Int).Mul(bigUint(s.Produced), den))
		den.Mul(den, e)
		terms++
	}
	if terms > 1 {
		den.Mul(den, bigUint(terms))
	}
	return num, den
}
