package sim

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// form is how a block may be written otherwise than nearcore's own code writes it. Valid
// forms are accepted and invalid ones refused by every node, as by neard.
type form struct {
	name  string
	right bool // before version 87, which refuses header V7
	// of a block with a header and body of its own; false: it can't be said of this one
	change func(w *World, b *primitives.Block) bool
}

// Lengths that are far beyond what honest blocks have: more than a stranger's block may have, and a
// header of 160 KB.
const (
	longChallenge = 1_200_000
	longStats     = 20_000
)

// created and unendorsed are no forms of any block, but blocks with a chunk of another height than
// theirs: with its endorsements, and with too few.
const (
	created    = "created"
	unendorsed = "unendorsed"
)

// since87 is what the names of forms end in that are wrong since version 87.
const since87 = ", since 87"

// forms are all there are, but for those two.
var forms = []form{
	{"V5", true, func(_ *World, b *primitives.Block) bool {
		b.Header.Version = primitives.HeaderV5
		return b.Header.ShardSplit == nil
	}},
	{"V7", true, func(w *World, b *primitives.Block) bool { return seventh(w, b, w.rng.IntN(8)) }},
	{"long V7", true, func(w *World, b *primitives.Block) bool { return seventh(w, b, longStats) }},
	{"challenges", true, func(w *World, b *primitives.Block) bool { return challenged(b, w.rng.IntN(3)+1, w.rng.IntN(300)) }},
	{"long challenge", true, func(_ *World, b *primitives.Block) bool { return challenged(b, 1, longChallenge) }},
	{"V5, challenges", true, func(_ *World, b *primitives.Block) bool {
		b.Header.Version = primitives.HeaderV5
		return challenged(b, 2, 40) && b.Header.ShardSplit == nil
	}},
	{"V1", false, func(_ *World, b *primitives.Block) bool {
		b.Header.Version = primitives.HeaderV1
		return true
	}},
	{"V5, no split", false, func(_ *World, b *primitives.Block) bool { // which is to be told
		b.Header.Version = primitives.HeaderV5
		return b.Header.ShardSplit != nil
	}},
	{"split", false, func(w *World, b *primitives.Block) bool {
		if w.chance(500) {
			b.Header.Version = primitives.HeaderV7
		}
		if b.Header.ShardSplit != nil {
			b.Header.ShardSplit = nil
		} else {
			b.Header.ShardSplit = &primitives.ShardSplit{ShardID: b.Body.Chunks[0].ShardID, Boundary: "mm"}
		}
		return true
	}},
	{"bits", false, func(w *World, b *primitives.Block) bool { // none of a new chunk, some of an old one
		list := slices.Clone(b.Header.ChunkEndorsements)
		if i := w.rng.IntN(len(list)); len(list[i]) > 0 {
			list[i] = nil
		} else {
			list[i] = []byte{1}
		}
		b.Header.ChunkEndorsements = list
		return true
	}},
	{"other bits", false, func(w *World, b *primitives.Block) bool { // more of a new chunk than there are validators
		list := slices.Clone(b.Header.ChunkEndorsements)
		i := w.rng.IntN(len(list))
		if len(list[i]) == 0 {
			return false
		}
		list[i] = append(slices.Clone(list[i]), 0)
		b.Header.ChunkEndorsements = list
		return true
	}},
	{"other body", false, func(_ *World, b *primitives.Block) bool { // than the header's
		hash := b.Header.BlockBodyHash
		challenged(b, 1, 8)
		b.Header.BlockBodyHash = hash
		return true
	}},
}

// seventh writes a header as V7, with that many unread numbers.
func seventh(w *World, b *primitives.Block, stats int) bool {
	b.Header.Version, b.Header.CertifiedEpochID = primitives.HeaderV7, primitives.Hash{byte(stats)}
	b.Header.EndorsementStats = make([]primitives.EndorsementStats, stats)
	for i := range b.Header.EndorsementStats {
		b.Header.EndorsementStats[i] = primitives.EndorsementStats{Produced: uint32(i), Expected: w.rng.Uint32()}
	}
	return true
}

// refusesV7 returns whether a header is V7 in an epoch from version 87 on.
func (n *node) refusesV7(h *primitives.BlockHeader) bool {
	var pv primitives.ProtocolVersion
	err := n.engine.Epochs(func(m *epoch.Manager) (err error) {
		pv, err = m.ProtocolVersion(h.EpochID)
		return err
	})
	return err == nil && pv >= 87 && h.Version == primitives.HeaderV7
}

// challenged puts challenges into a body, each of two headers that are none, the first of so many
// bytes.
func challenged(b *primitives.Block, count, size int) bool {
	raw := borsh.AppendUint32(nil, uint32(count))
	for range count {
		raw = borsh.AppendBytes(borsh.AppendBytes(append(raw, 0), make([]byte, size)), nil)
		raw = primitives.ZeroED25519Signature.AppendBorsh(borsh.AppendString(raw, "aa"))
	}
	b.Body.Challenges = raw
	b.Header.BlockBodyHash = b.Body.Hash()
	return true
}

// write gives a block another form, signed by its producer, as it is read from a socket. nil: the
// form does not apply to this block.
func (w *World) write(from *node, b *primitives.Block, f *form) *primitives.Block {
	header := *b.Header
	x := &primitives.Block{Header: &header, Body: b.Body}
	if !f.change(w, x) {
		return nil
	}
	header.Init()
	chain.SignBlock(x, secretOf(from.name))
	var came primitives.Block
	switch err := borsh.Unmarshal(x.AppendBorsh(nil), &came); {
	case header.Version == primitives.HeaderV1: // the rules refuse it besides
		if err == nil {
			w.check.fail("a block of form %q is read", f.name)
		}
		return x
	case err != nil || came.Hash() != x.Hash():
		w.check.fail("a block of form %q can't be read: %v", f.name, err)
		return nil
	}
	return &came
}

// reform tells others of a block that the liar makes: in another form to some, and to others as it
// was, or in a third one. false: it says nothing else.
func (x *network) reform(from *node, m *primitives.Block) bool {
	w := x.w
	base, what := x.include(from, m)
	if what == "" && !w.chance(800) {
		return false
	}
	var said []*primitives.Block
	for i := w.rng.IntN(2); i >= 0; i-- {
		if f := &forms[w.rng.IntN(len(forms))]; what != unendorsed {
			if b := w.write(from, base, f); b != nil {
				w.result.Lies++
				name, right := f.name, f.right
				if right && from.refusesV7(b.Header) {
					name, right = name+since87, false
				}
				w.check.verdicts.say(b, name, right, what)
				w.say(from.name, "makes block %d as %q: %s", m.Header.Height, name, b.Hash().String()[:8])
				said = append(said, b)
			}
		}
	}
	if len(said) < 2 {
		w.check.verdicts.say(base, "", what != unendorsed, what)
		said = append(said, base)
	}
	one := w.chance(500) // and all have the same
	for _, n := range w.nodes {
		if n == from {
			continue
		}
		either := w.rng.IntN(3)
		if one {
			either = 0
		}
		for i, b := range said {
			if either == 2 || either == i {
				x.carry(from, n, b)
			}
		}
	}
	return true
}
