package blockpool

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// unknownEpochBlock is a block of an unknown epoch. Its signature cannot be verified, so any peer
// may have made it. Therefore blocks are counted for each sender, and one sender cannot evict the
// blocks of another.
type unknownEpochBlock struct {
	Block
	hash primitives.Hash
}

// addUnknownEpoch stores a block of an unknown epoch without its bodies. The bodies are requested
// once the block's producer is known. Errors: ErrFull.
func (p *Pool) addUnknownEpoch(b *Block) error {
	hash := b.Hash()
	count := map[string]int{}
	for _, s := range p.unknownEpoch {
		if s.From == b.From && s.hash == hash {
			return nil
		}
		count[s.From]++
	}
	if SizeOf(b.Block) > MaxUnknownEpochSize {
		return ErrFull
	}
	s := &unknownEpochBlock{*b, hash}
	s.Chunks = nil
	p.unknownEpoch = append(p.unknownEpoch, s)
	count[b.From]++
	switch {
	case count[b.From] > MaxEach:
		p.evictUnknownEpoch(func(x *unknownEpochBlock) bool { return x.From == b.From })
	case len(p.unknownEpoch) > MaxUnknownEpoch:
		most := 0
		for _, n := range count {
			most = max(most, n)
		}
		p.evictUnknownEpoch(func(x *unknownEpochBlock) bool { return count[x.From] == most })
	default:
		return nil
	}
	if p.unknownEpoch[len(p.unknownEpoch)-1] != s {
		return ErrFull
	}
	return nil
}

// evictUnknownEpoch drops one block of an unknown epoch for which may returns true: the block
// farthest from the tip, and among blocks at equal distance the last to arrive.
func (p *Pool) evictUnknownEpoch(may func(*unknownEpochBlock) bool) {
	far := -1
	for i, s := range p.unknownEpoch {
		if may(s) && (far < 0 || p.distance(s.Header.Height) >= p.distance(p.unknownEpoch[far].Header.Height)) {
			far = i
		}
	}
	p.unknownEpoch = slices.Delete(p.unknownEpoch, far, far+1)
}
