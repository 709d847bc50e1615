package blockpool

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
)

// stranger is a block of an unknown epoch. Anybody can have made it, so each sender has his own copy of it and few places.
type stranger struct {
	Block
	hash primitives.Hash
}

// addStranger keeps a block of an unknown epoch; its bodies are asked for once it is known who made it.
func (p *Pool) addStranger(b *Block) error {
	hash := b.Hash()
	count := map[string]int{}
	for _, s := range p.strangers {
		if s.From == b.From && s.hash == hash {
			return nil
		}
		count[s.From]++
	}
	if SizeOf(b.Block) > MaxStrangerSize {
		return ErrFull
	}
	s := &stranger{*b, hash}
	s.Chunks = nil
	p.strangers = append(p.strangers, s)
	count[b.From]++
	switch {
	case count[b.From] > MaxEach:
		p.evict(func(x *stranger) bool { return x.From == b.From })
	case len(p.strangers) > MaxStrangers:
		most := 0
		for _, n := range count {
			most = max(most, n)
		}
		p.evict(func(x *stranger) bool { return count[x.From] == most })
	default:
		return nil
	}
	if p.strangers[len(p.strangers)-1] != s {
		return ErrFull
	}
	return nil
}

// evict drops the stranger that is farthest from the tip of those that may go, of these the last to come.
func (p *Pool) evict(may func(*stranger) bool) {
	far := -1
	for i, s := range p.strangers {
		if may(s) && (far < 0 || p.distance(s.Header.Height) >= p.distance(p.strangers[far].Header.Height)) {
			far = i
		}
	}
	p.strangers = slices.Delete(p.strangers, far, far+1)
}
