package epoch

import (
	"encoding/binary"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// StakeWeightedIndex draws an index with a probability proportional to its stake, by the alias method
// (nearcore core/primitives/src/rand.rs). Its bytes are part of an EpochInfo.
type StakeWeightedIndex struct {
	StakeSum    primitives.Balance
	Aliases     []uint64
	NoAliasOdds []primitives.Balance // out of StakeSum
}

// NewStakeWeightedIndex fails when the sum of the stakes times their number overflows u128.
func NewStakeWeightedIndex(stakes []primitives.Balance) (StakeWeightedIndex, error) {
	n := len(stakes)
	s := StakeWeightedIndex{Aliases: make([]uint64, n), NoAliasOdds: make([]primitives.Balance, n)}
	for i, stake := range stakes {
		var ok, ok2 bool
		s.StakeSum, ok = s.StakeSum.Add(stake)
		if s.NoAliasOdds[i], ok2 = stake.Mul64(uint64(n)); !ok || !ok2 {
			return StakeWeightedIndex{}, fmt.Errorf("stake odds: %w", primitives.ErrOverflow)
		}
	}
	var small, big []int // stacks: the order of pops decides the aliases
	push := func(i int) {
		if s.NoAliasOdds[i].Less(s.StakeSum) {
			small = append(small, i)
		} else {
			big = append(big, i)
		}
	}
	for i := range n {
		push(i)
	}
	for len(small) > 0 && len(big) > 0 {
		lo, hi := small[len(small)-1], big[len(big)-1]
		small, big = small[:len(small)-1], big[:len(big)-1]
		s.Aliases[lo] = uint64(hi)
		rest, _ := s.NoAliasOdds[hi].Sub(s.StakeSum) // a big one is at least the sum
		odds, ok := rest.Add(s.NoAliasOdds[lo])
		if !ok {
			return StakeWeightedIndex{}, fmt.Errorf("stake odds: %w", primitives.ErrOverflow)
		}
		s.NoAliasOdds[hi] = odds
		push(hi)
	}
	for _, i := range append(small, big...) {
		s.NoAliasOdds[i] = s.StakeSum
	}
	return s, nil
}

// Sample draws an index. There must be one, and some stake.
func (s *StakeWeightedIndex) Sample(seed primitives.Hash) int {
	i := binary.LittleEndian.Uint64(seed[:8]) % uint64(len(s.Aliases))
	draw := primitives.Balance{Lo: binary.LittleEndian.Uint64(seed[8:16]), Hi: binary.LittleEndian.Uint64(seed[16:24])}
	if _, draw = quoRem(draw, s.StakeSum); draw.Less(s.NoAliasOdds[i]) {
		return int(i)
	}
	return int(s.Aliases[i])
}

// check refuses a decoded table that Sample could not use for n items.
func (s *StakeWeightedIndex) check(n int) bool {
	if len(s.Aliases) != n || len(s.NoAliasOdds) != n || n > 0 && s.StakeSum.IsZero() {
		return false
	}
	for _, a := range s.Aliases {
		if a >= uint64(n) {
			return false
		}
	}
	return true
}

// AppendBorsh appends the fields.
func (s *StakeWeightedIndex) AppendBorsh(b []byte) []byte {
	return borsh.AppendSlice(borsh.AppendUint64s(s.StakeSum.AppendBorsh(b), s.Aliases), s.NoAliasOdds, appendBalance)
}

// DecodeBorsh reads the fields.
func (s *StakeWeightedIndex) DecodeBorsh(r *borsh.Reader) {
	s.StakeSum, s.Aliases = primitives.ReadBalance(r), r.Uint64s()
	s.NoAliasOdds = borsh.Slice(r, 16, primitives.ReadBalance)
}
