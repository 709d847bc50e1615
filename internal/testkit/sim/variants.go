package sim

import (
	"slices"

	"github.com/troupe-chain/troupe/chain"
	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// form is a variation of a block that nearcore never writes. Every node must accept a valid form
// and refuse an invalid one, as neard does.
type form struct {
	name  string
	right bool // blocks of this form are valid; those of V7 only before protocol version 87
	// change varies a block, whose header and body are copies. change returns false if the form
	// does not apply to the block.
	change func(w *World, b *primitives.Block) bool
}

// Lengths in variants of blocks. These lengths are far above the lengths in honest blocks.
const (
	longChallenge = 1_200_000 // size in bytes, above the limit for a stored block of an unknown epoch
	longStats     = 20_000    // number of statistics, which makes a header of 160 KB
)

// Forms of blocks that contain a misnumbered chunk.
const (
	created    = "created"    // form of a block that is valid, because it has enough endorsements
	unendorsed = "unendorsed" // form of a block that is invalid, because it has too few endorsements
)

// since87 is the suffix in the names of forms that are invalid because the version is 87 or later.
const since87 = ", since 87"

// forms lists all forms of blocks but the two that the constants created and unendorsed name.
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
	// the header loses the shard split, because only a V6 header can contain one
	{"V5, no split", false, func(_ *World, b *primitives.Block) bool {
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
	{"bits", false, func(w *World, b *primitives.Block) bool {
		// Remove the endorsements of a new chunk, or add some for an old chunk.
		list := slices.Clone(b.Header.ChunkEndorsements)
		if i := w.rng.IntN(len(list)); len(list[i]) > 0 {
			list[i] = nil
		} else {
			list[i] = []byte{1}
		}
		b.Header.ChunkEndorsements = list
		return true
	}},
	{"other bits", false, func(w *World, b *primitives.Block) bool {
		// Append a byte, so that the bitmap is longer than the number of chunk validators requires.
		list := slices.Clone(b.Header.ChunkEndorsements)
		i := w.rng.IntN(len(list))
		if len(list[i]) == 0 {
			return false
		}
		list[i] = append(slices.Clone(list[i]), 0)
		b.Header.ChunkEndorsements = list
		return true
	}},
	{"other body", false, func(_ *World, b *primitives.Block) bool {
		// Change the body, but keep the hash in the header.
		hash := b.Header.BlockBodyHash
		challenged(b, 1, 8)
		b.Header.BlockBodyHash = hash
		return true
	}},
}

// seventh makes the header V7, with the given number of endorsement statistics. Nodes ignore these
// statistics.
func seventh(w *World, b *primitives.Block, stats int) bool {
	b.Header.Version, b.Header.CertifiedEpochID = primitives.HeaderV7, primitives.Hash{byte(stats)}
	b.Header.EndorsementStats = make([]primitives.EndorsementStats, stats)
	for i := range b.Header.EndorsementStats {
		b.Header.EndorsementStats[i] = primitives.EndorsementStats{Produced: uint32(i), Expected: w.rng.Uint32()}
	}
	return true
}

// refusesV7 returns whether nodes must refuse a header because it is V7 and its epoch has version
// 87 or later.
func (n *node) refusesV7(h *primitives.BlockHeader) bool {
	var pv primitives.ProtocolVersion
	err := n.engine.Epochs(func(m *epoch.Manager) (err error) {
		pv, err = m.ProtocolVersion(h.EpochID)
		return err
	})
	return err == nil && pv >= 87 && h.Version == primitives.HeaderV7
}

// challenged sets a body's challenges to count double-sign challenges. Their headers cannot be
// decoded; the first header of each has size bytes.
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

// write returns a block in another form, signed by its producer, and decodes the result from its
// encoding. nil: the form does not apply to this block.
func (w *World) write(from *node, b *primitives.Block, f *form) *primitives.Block {
	header := *b.Header
	x := &primitives.Block{Header: &header, Body: b.Body}
	if !f.change(w, x) {
		return nil
	}
	header.Init()
	chain.SignBlock(x, secretOf(from.name))
	var came primitives.Block
	if err := borsh.Unmarshal(x.AppendBorsh(nil), &came); err != nil || came.Hash() != x.Hash() {
		w.check.fail("decoding a block of form %q: %v", f.name, err)
		return nil
	}
	return &came
}

// reform sends the byzantine validator's block in two variants. One of the variants may be the
// original block. Each node gets one variant or both. reform returns false if it sent nothing.
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
				w.result.FalseMessages++
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
	one := w.chance(500) // all nodes get only the first variant
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
