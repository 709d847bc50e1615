package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

const (
	partialWitnessDifferentiator   = "PartialEncodedStateWitness"
	partialWitnessDifferentiatorV2 = "PartialEncodedStateWitnessV2"
)

// ChunkAnchor places a chunk in the chain: its parent and grandparent block. From protocol feature
// EarlyKickout on, a chunk's producer depends on the grandparent, so the messages that a producer
// signs name parent and grandparent (near-primitives 0.38.0
// src/stateless_validation/partial_witness.rs:206).
//
// Parent and grandparent are what the sender claims. Check these claims against the chain before
// trusting a producer that follows from them.
type ChunkAnchor struct {
	PrevBlock     Hash
	PrevPrevBlock Hash // zero if the parent is the genesis
}

func (a *ChunkAnchor) appendBorsh(b []byte) []byte {
	return append(append(b, a.PrevBlock[:]...), a.PrevPrevBlock[:]...)
}

func readChunkAnchor(r *borsh.Reader) *ChunkAnchor {
	return &ChunkAnchor{PrevBlock: ReadHash(r), PrevPrevBlock: ReadHash(r)}
}

// PartialWitness is a part of an erasure-coded witness, signed by the chunk's producer (nearcore
// PartialEncodedStateWitness; with an anchor PartialEncodedStateWitnessV2).
type PartialWitness struct {
	EpochID       EpochID
	ShardID       ShardID
	HeightCreated Height
	Anchor        *ChunkAnchor // nil: V1
	Ord           uint64
	Part          []byte // aliases the decoded input
	EncodedLength uint64 // bytes of all data parts together, without padding
	Signature     Signature
}

// Key returns the key of the chunk.
func (p *PartialWitness) Key() ChunkKey {
	return ChunkKey{ShardID: p.ShardID, EpochID: p.EpochID, HeightCreated: p.HeightCreated}
}

// SignedBytes returns what the producer signs, unhashed.
func (p *PartialWitness) SignedBytes() []byte {
	return p.appendInner(make([]byte, 0, 192+len(p.Part)))
}

// Signed passes SignedBytes to the function use, which must not keep them.
func (p *PartialWitness) Signed(use func(b []byte)) { lend(p.appendInner, use) }

func (p *PartialWitness) appendInner(b []byte) []byte {
	b = borsh.AppendUint64(append(b, p.EpochID[:]...), uint64(p.ShardID))
	b = borsh.AppendUint64(b, uint64(p.HeightCreated))
	differentiator := partialWitnessDifferentiator
	if p.Anchor != nil {
		b, differentiator = p.Anchor.appendBorsh(b), partialWitnessDifferentiatorV2
	}
	b = borsh.AppendBytes(borsh.AppendUint64(b, p.Ord), p.Part)
	return borsh.AppendString(borsh.AppendUint64(b, p.EncodedLength), differentiator)
}

// AppendBorsh appends the fields and the signature. The encodings of V1 are message bodies 22 and
// 23, which have no version. V2 is always sent with its version (VersionedPartialWitness).
func (p *PartialWitness) AppendBorsh(b []byte) []byte {
	return p.Signature.AppendBorsh(p.appendInner(b))
}

// DecodeBorsh reads V1 without its version; the part aliases the input.
func (p *PartialWitness) DecodeBorsh(r *borsh.Reader) { p.decode(r, false) }

func (p *PartialWitness) decode(r *borsh.Reader, anchored bool) {
	p.EpochID, p.ShardID, p.HeightCreated = ReadHash(r), ShardID(r.Uint64()), Height(r.Uint64())
	differentiator := partialWitnessDifferentiator
	p.Anchor = nil
	if anchored {
		p.Anchor, differentiator = readChunkAnchor(r), partialWitnessDifferentiatorV2
	}
	p.Ord, p.Part, p.EncodedLength = r.Uint64(), r.Bytes(), r.Uint64()
	readDifferentiator(r, differentiator)
	p.Signature = ReadSignature(r)
}

// readDifferentiator reads the string that separates signatures of different messages, and fails
// unless it is `want`.
func readDifferentiator(r *borsh.Reader, want string) {
	if d := r.String(); r.Err() == nil && d != want {
		r.Failf("signature differentiator %q, not %q", d, want)
	}
}

// VersionedPartialWitness is a PartialWitness with its version, as in the routed message bodies 40
// and 41. nearcore sends only V2 in these bodies and accepts V1 and V2.
type VersionedPartialWitness struct{ PartialWitness }

// AppendBorsh appends tag 0 for V1 or tag 1 for V2, the fields and the signature.
func (v *VersionedPartialWitness) AppendBorsh(b []byte) []byte {
	tag := byte(0)
	if v.Anchor != nil {
		tag = 1
	}
	return v.PartialWitness.AppendBorsh(append(b, tag))
}

// DecodeBorsh reads what AppendBorsh writes. The part aliases the input.
func (v *VersionedPartialWitness) DecodeBorsh(r *borsh.Reader) {
	tag := r.Byte()
	if tag > 1 {
		r.BadTag("VersionedPartialEncodedStateWitness", tag)
		return
	}
	v.decode(r, tag == 1)
}
