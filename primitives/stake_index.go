package primitives

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// StakeWeightedIndex picks an index with a probability proportional to its stake, in constant time,
// by the alias method (nearcore core/primitives/src/rand.rs). It is part of EpochInfo, so its
// construction order is consensus.
type StakeWeightedIndex struct {
	sum     Balance
	aliases []uint64
	odds    []Balance // column i picks i for a draw below odds[i], else aliases[i]
}

// NewStakeWeightedIndex builds the table. NewStakeWeightedIndex returns ErrOverflow if the sum of
// stakes, or a stake times the number of stakes, exceeds u128.
func NewStakeWeightedIndex(stakes []Balance) (*StakeWeightedIndex, error) {
	w := &StakeWeightedIndex{aliases: make([]uint64, len(stakes)), odds: make([]Balance, len(stakes))}
	for i, stake := range stakes {
		var ok, ok2 bool
		w.sum, ok = w.sum.Add(stake)
		w.odds[i], ok2 = stake.Mul64(uint64(len(stakes)))
		if !ok || !ok2 {
			return nil, fmt.Errorf("add up the stakes of a weighted sampler: %w", ErrOverflow)
		}
	}
	// small and big are stacks of indices. Each step fills the gap of the top small entry from the
	// top big entry, which may then become small.
	var small, big []int
	push := func(i int) {
		if w.odds[i].Less(w.sum) {
			small = append(small, i)
		} else {
			big = append(big, i)
		}
	}
	for i := range w.odds {
		push(i)
	}
	for len(small) > 0 && len(big) > 0 {
		s, b := small[len(small)-1], big[len(big)-1]
		small, big = small[:len(small)-1], big[:len(big)-1]
		w.aliases[s] = uint64(b)
		rest, ok := w.odds[b].Sub(w.sum)
		if ok {
			rest, ok = rest.Add(w.odds[s])
		}
		if !ok {
			return nil, fmt.Errorf("compute the odds of a weighted sampler: %w", ErrOverflow)
		}
		w.odds[b] = rest
		push(b)
	}
	for _, i := range small {
		w.odds[i] = w.sum
	}
	for _, i := range big {
		w.odds[i] = w.sum
	}
	return w, nil
}

// Sample returns the index that a seed picks: its first 8 bytes choose the column, the next 16 the
// stake within it. Sample panics if there are no stakes, or if all stakes are 0.
func (w *StakeWeightedIndex) Sample(seed [32]byte) int {
	i := binary.LittleEndian.Uint64(seed[:8]) % uint64(len(w.aliases))
	stake := Balance{Lo: binary.LittleEndian.Uint64(seed[8:]), Hi: binary.LittleEndian.Uint64(seed[16:])}
	if mod128(stake, w.sum).Less(w.odds[i]) {
		return int(i)
	}
	return int(w.aliases[i])
}

// mod128 returns a mod m; m must not be 0.
func mod128(a, m Balance) Balance {
	if m.Hi == 0 {
		_, r := a.DivMod64(m.Lo)
		return Yocto(r)
	}
	// Division by more than 64 bits (Hacker's Delight, 9-5): the quotient fits a word. Dividing by
	// the normalised upper half of m gives an estimate. After 1 is subtracted, the estimate is
	// never too large, and at most 1 too small.
	shift := bits.LeadingZeros64(m.Hi)
	top := m.Hi<<shift | m.Lo>>1>>(63-shift) // upper 64 bits of m, normalised
	q, _ := bits.Div64(a.Hi>>1, a.Hi<<63|a.Lo>>1, top)
	q = q >> (63 - shift)
	if q != 0 {
		q--
	}
	p, _ := m.Mul64(q)
	r, _ := a.Sub(p)
	for !r.Less(m) {
		r, _ = r.Sub(m)
	}
	return r
}

// Len returns the number of stakes.
func (w *StakeWeightedIndex) Len() int { return len(w.aliases) }

// Aliases returns the alias of each index. The caller must not change it.
func (w *StakeWeightedIndex) Aliases() []uint64 { return w.aliases }

// NoAliasOdds returns the share of each column that stays with its own index, out of the sum of
// stakes. The caller must not change the result.
func (w *StakeWeightedIndex) NoAliasOdds() []Balance { return w.odds }

// StakeSum returns the sum of the stakes.
func (w *StakeWeightedIndex) StakeSum() Balance { return w.sum }

// AppendBorsh appends sum, aliases and odds.
func (w *StakeWeightedIndex) AppendBorsh(b []byte) []byte {
	b = borsh.AppendUint64s(w.sum.AppendBorsh(b), w.aliases)
	return borsh.AppendSlice(b, w.odds, func(b []byte, v *Balance) []byte { return v.AppendBorsh(b) })
}

// DecodeBorsh reads sum, aliases and odds. It refuses tables that Sample could not use.
func (w *StakeWeightedIndex) DecodeBorsh(r *borsh.Reader) {
	w.sum.DecodeBorsh(r)
	w.aliases = r.Uint64s()
	w.odds = borsh.Slice(r, 16, ReadBalance)
	if r.Err() != nil {
		return
	}
	if len(w.aliases) != len(w.odds) {
		r.Failf("a sampler of %d aliases and %d odds", len(w.aliases), len(w.odds))
		return
	}
	for _, alias := range w.aliases {
		if alias >= uint64(len(w.aliases)) {
			r.Failf("a sampler of %d with alias %d", len(w.aliases), alias)
			return
		}
	}
}
