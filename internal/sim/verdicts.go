package sim

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/engine/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// Tally counts the blocks or chunks of a form that were sent, are final, and were refused by any
// node.
type Tally struct{ Said, Taken, Refused int }

// strangeChunk names chunks of another height than the one behind their block.
const strangeChunk = "chunk"

// verdicts are what nodes have found of blocks and chunks, which has to be the same: what one has
// refused no other takes. What the liar says in another form is known to be right or wrong besides.
type verdicts struct {
	c       *checks
	said    map[primitives.Hash]*saying
	copies  map[primitives.Hash]string               // of blocks that were said with another body too: of which form
	bad     map[primitives.Hash]primitives.AccountID // blocks and chunks that were refused, by the first node that did
	good    map[primitives.Hash]primitives.AccountID // and those that were taken
	strange map[primitives.Hash]*strange
	tally   map[string]Tally
}

// saying is a block that the liar has said.
type saying struct {
	names []string
	right bool
}

func (v *verdicts) init(c *checks) {
	*v = verdicts{c: c, said: map[primitives.Hash]*saying{}, copies: map[primitives.Hash]string{}, bad: map[primitives.Hash]primitives.AccountID{},
		good: map[primitives.Hash]primitives.AccountID{}, strange: map[primitives.Hash]*strange{}, tally: map[string]Tally{}}
}

// count adds to a tally.
func (v *verdicts) count(name string, by Tally) {
	if name != "" {
		t := v.tally[name]
		v.tally[name] = Tally{t.Said + by.Said, t.Taken + by.Taken, t.Refused + by.Refused}
	}
}

// say notes a block of the liar in a form, none: in that of all, with what is strange about its
// chunks.
func (v *verdicts) say(b *primitives.Block, form string, right bool, chunks string) {
	hash := b.Hash()
	if b.Body.Hash() != b.Header.BlockBodyHash { // the hash is that of a right one
		v.copies[hash] = form
		v.count(form, Tally{Said: 1})
		return
	}
	if v.said[hash] != nil {
		return
	}
	s := &saying{[]string{form}, right}
	if right || form == "" {
		s.names = append(s.names, chunks)
	}
	v.said[hash] = s
	for _, name := range s.names {
		v.count(name, Tally{Said: 1})
	}
}

// created notes a chunk of another height.
func (v *verdicts) created(s *strange) {
	v.strange[s.chunk.Hash] = s
	v.count(strangeChunk, Tally{Said: 1})
}

// refused takes what a node says that it refuses.
func (v *verdicts) refused(n *node, err error) {
	var b *consensus.Refusal
	var c *consensus.ChunkRefusal
	switch {
	case n.lies():
	case errors.As(err, &b):
		form, copied := v.copies[b.Block]
		if copied && errors.Is(err, chain.InvalidBodyHash) {
			v.count(form, Tally{Refused: 1})
			return
		}
		s := v.said[b.Block]
		if s != nil && s.right {
			v.c.fail("%s rejected a valid block of form %q: %v", n.name, s.names, err)
		}
		if _, again := v.bad[b.Block]; s != nil && !again {
			for _, name := range s.names {
				v.count(name, Tally{Refused: 1})
			}
		}
		v.refuse(n, b.Block, err)
	case errors.As(err, &c):
		if s := v.strange[c.Chunk]; s != nil {
			if s.on < n.engine.TipFinal().Height { // no longer needed
				return
			}
			v.count(strangeChunk, Tally{Refused: 1})
			v.c.fail("%s rejected a valid chunk: %v", n.name, err)
		}
		v.refuse(n, c.Chunk, err)
	}
}

func (v *verdicts) refuse(n *node, hash primitives.Hash, err error) {
	if by, ok := v.good[hash]; ok {
		v.c.fail("%s rejected a block or chunk that %s accepted: %v", n.name, by, err)
	}
	if _, ok := v.bad[hash]; !ok {
		v.bad[hash] = n.name
	}
}

// taken takes a block that is part of a node's chain.
func (v *verdicts) taken(n *node, b *primitives.Block) {
	if n.lies() { // it may endorse anything
		return
	}
	hash := b.Hash()
	if s := v.said[hash]; s != nil && !s.right {
		v.c.fail("%s takes a block that is wrong, of form %q: %v", n.name, s.names, hash)
	}
	v.take(n, hash)
	for _, h := range b.Body.Chunks {
		if h.HeightIncluded == b.Header.Height {
			v.take(n, h.ChunkHash())
		}
	}
}

func (v *verdicts) take(n *node, hash primitives.Hash) {
	if by, ok := v.bad[hash]; ok {
		v.c.fail("%s takes what %s has refused: %v", n.name, by, hash)
	}
	if _, ok := v.good[hash]; !ok {
		v.good[hash] = n.name
	}
}

// final takes a final block.
func (v *verdicts) final(b *primitives.Block) {
	if s := v.said[b.Hash()]; s != nil {
		for _, name := range s.names {
			v.count(name, Tally{Taken: 1})
		}
	}
	for _, h := range b.Body.Chunks {
		if h.HeightIncluded == b.Header.Height && v.strange[h.ChunkHash()] != nil {
			v.count(strangeChunk, Tally{Taken: 1})
		}
	}
}
