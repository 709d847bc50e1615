package sim

import (
	"errors"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// Tally counts blocks or chunks of one form: how many were sent (Said), are in final blocks
// (Taken), and were refused by a node.
type Tally struct{ Said, Taken, Refused int }

// misnumberedChunk is the name under which tallies count misnumbered chunks.
const misnumberedChunk = "chunk"

// verdicts checks that all nodes agree on blocks and chunks: no node accepts a block or chunk that
// another node has refused. It also checks that nodes accept valid variants of the byzantine
// validator's blocks and refuse invalid ones.
type verdicts struct {
	c    *checks
	said map[primitives.Hash]*sentVariant
	// copies maps the hash of a block that was sent with a wrong body to its form.
	copies map[primitives.Hash]string
	// bad maps the hash of a refused block or chunk to the first node that refused it.
	bad map[primitives.Hash]primitives.AccountID
	// good maps the hash of an accepted block or chunk to the first node that accepted it.
	good        map[primitives.Hash]primitives.AccountID
	misnumbered map[primitives.Hash]*misnumbered
	tally       map[string]Tally
}

// sentVariant is a variant of a block that the byzantine validator has sent.
type sentVariant struct {
	names []string
	right bool
}

func (v *verdicts) init(c *checks) {
	*v = verdicts{c: c, said: map[primitives.Hash]*sentVariant{}, copies: map[primitives.Hash]string{},
		bad:  map[primitives.Hash]primitives.AccountID{},
		good: map[primitives.Hash]primitives.AccountID{}, misnumbered: map[primitives.Hash]*misnumbered{}, tally: map[string]Tally{}}
}

// count adds by to the tally of a form. The empty name has no tally.
func (v *verdicts) count(name string, by Tally) {
	if name != "" {
		t := v.tally[name]
		v.tally[name] = Tally{t.Said + by.Said, t.Taken + by.Taken, t.Refused + by.Refused}
	}
}

// say records a block that the byzantine validator sends. form is empty for the usual form. right
// means that the block is valid. chunks is created or unendorsed if the block includes misnumbered
// chunks, otherwise empty.
func (v *verdicts) say(b *primitives.Block, form string, right bool, chunks string) {
	hash := b.Hash()
	if b.Body.Hash() != b.Header.BlockBodyHash { // a valid block may have the same hash
		v.copies[hash] = form
		v.count(form, Tally{Said: 1})
		return
	}
	if v.said[hash] != nil {
		return
	}
	s := &sentVariant{[]string{form}, right}
	if right || form == "" {
		s.names = append(s.names, chunks)
	}
	v.said[hash] = s
	for _, name := range s.names {
		v.count(name, Tally{Said: 1})
	}
}

// created records that a byzantine producer has made a misnumbered chunk.
func (v *verdicts) created(s *misnumbered) {
	v.misnumbered[s.chunk.Hash] = s
	v.count(misnumberedChunk, Tally{Said: 1})
}

// refused handles the error with which a node has refused a block, chunk or witness.
func (v *verdicts) refused(n *node, err error) {
	var b *consensus.Refusal
	var c *consensus.ChunkRefusal
	switch {
	case n.misbehaves():
	case errors.As(err, &b):
		form, copied := v.copies[b.Block]
		// The hash of a block with a V1 header does not cover its body.
		if copied && (errors.Is(err, chain.InvalidBodyHash) || errors.Is(err, chain.InvalidHeaderVersion)) {
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
		if s := v.misnumbered[c.Chunk]; s != nil {
			if s.on < n.engine.TipFinal().Height { // the chunk can no longer be included
				return
			}
			v.count(misnumberedChunk, Tally{Refused: 1})
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

// taken fails the run if an honest node has imported an invalid block.
func (v *verdicts) taken(n *node, b *primitives.Block) {
	if n.misbehaves() { // a misbehaving node may accept anything
		return
	}
	hash := b.Hash()
	if s := v.said[hash]; s != nil && !s.right {
		v.c.fail("%s accepted an invalid block of form %q: %v", n.name, s.names, hash)
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
		v.c.fail("%s accepted block or chunk %[3]v, which %[2]s has refused", n.name, by, hash)
	}
	if _, ok := v.good[hash]; !ok {
		v.good[hash] = n.name
	}
}

// final counts a final block and its misnumbered chunks as taken.
func (v *verdicts) final(b *primitives.Block) {
	if s := v.said[b.Hash()]; s != nil {
		for _, name := range s.names {
			v.count(name, Tally{Taken: 1})
		}
	}
	for _, h := range b.Body.Chunks {
		if h.HeightIncluded == b.Header.Height && v.misnumbered[h.ChunkHash()] != nil {
			v.count(misnumberedChunk, Tally{Taken: 1})
		}
	}
}
