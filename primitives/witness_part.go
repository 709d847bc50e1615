package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

const (
	partialWitnessDifferentiator   = "PartialEncodedStateWitness"
	partialWitnessDifferentiatorV2 = "PartialEncodedStateWitnessV2"
)

// PartialWitness is a part of an erasure-coded witness, signed by the chunk's producer (nearcore
// PartialEncodedStateWitness).
type PartialWitness struct {
	EpochID       EpochID
	ShardID       ShardID
	HeightCreated Height
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
	return p.appendInner(make([]byte, 0, 128+len(p.Part)), nil)
}

// Signed passes SignedBytes to use, which must not keep it.
func (p *PartialWitness) Signed(use func(b []byte)) {
	lend(func(b []byte) []byte { return p.appendInner(b, nil) }, use)
}

func (p *PartialWitness) appendInner(b []byte, prev *Hash) []byte {
	b = borsh.AppendUint64(append(b, p.EpochID[:]...), uint64(p.ShardID))
	b = borsh.AppendUint64(b, uint64(p.HeightCreated))
	differentiator := partialWitnessDifferentiator
	if prev != nil {
		b, differentiator = append(b, prev[:]...), partialWitnessDifferentiatorV2
	}
	b = borsh.AppendBytes(borsh.AppendUint64(b, p.Ord), p.Part)
	return borsh.AppendString(borsh.AppendUint64(b, p.EncodedLength), differentiator)
}

// AppendBorsh appends the fields and the signature: message bodies 22 and 23, which have no
// version.
func (p *PartialWitness) AppendBorsh(b []byte) []byte {
	return p.Signature.AppendBorsh(p.appendInner(b, nil))
}

// DecodeBorsh reads it; the part aliases the input.
func (p *PartialWitness) DecodeBorsh(r *borsh.Reader) { p.decode(r, nil) }

func (p *PartialWitness) decode(r *borsh.Reader, prev *Hash) {
	p.EpochID, p.ShardID, p.HeightCreated = ReadHash(r), ShardID(r.Uint64()), Height(r.Uint64())
	differentiator := partialWitnessDifferentiator
	if prev != nil {
		prev.DecodeBorsh(r)
		differentiator = partialWitnessDifferentiatorV2
	}
	p.Ord, p.Part, p.EncodedLength = r.Uint64(), r.Bytes(), r.Uint64()
	readDifferentiator(r, differentiator)
	p.Signature = ReadSignature(r)
}

// readDifferentiator reads the string that separates signatures of different messages, and fails if
// it is not want.
func readDifferentiator(r *borsh.Reader, want string) {
	if d := r.String(); r.Err() == nil && d != want {
		r.Failf("signature differentiator %q, not %q", d, want)
	}
}

// VersionedPartialWitness is a PartialWitness with a version, as in the routed message bodies 40
// and 41. Version 2 adds PrevBlock; no current protocol version sends it, and a receiver drops it.
type VersionedPartialWitness struct {
	PartialWitness
	PrevBlock *Hash // nil: version 1
}

// AppendBorsh appends tag 0 or 1, the fields and the signature.
func (v *VersionedPartialWitness) AppendBorsh(b []byte) []byte {
	tag := byte(0)
	if v.PrevBlock != nil {
		tag = 1
	}
	return v.Signature.AppendBorsh(v.appendInner(append(b, tag), v.PrevBlock))
}

// DecodeBorsh reads it; the part aliases the input.
func (v *VersionedPartialWitness) DecodeBorsh(r *borsh.Reader) {
	switch tag := r.Byte(); tag {
	case 0:
		v.PrevBlock = nil
	case 1:
		v.PrevBlock = new(Hash)
	default:
		r.BadTag("VersionedPartialEncodedStateWitness", tag)
		return
	}
	v.decode(r, v.PrevBlock)
}
