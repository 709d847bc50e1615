package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// ApprovalInner is the statement of an approval: either it endorses the tip, or it skips the
// heights between the tip and the target.
type ApprovalInner struct {
	Endorsement Hash   // hash of the tip, if Skip is not set
	SkipHeight  Height // height of the tip, if Skip is set
	Skip        bool
}

// NewApprovalInner returns the statement of an approval for target on the given tip: an endorsement
// if target directly follows the tip, else a skip.
func NewApprovalInner(tip Hash, tipHeight, target Height) ApprovalInner {
	if target == tipHeight+1 {
		return ApprovalInner{Endorsement: tip}
	}
	return ApprovalInner{SkipHeight: tipHeight, Skip: true}
}

// AppendBorsh appends 0 ‖ hash or 1 ‖ height.
func (a *ApprovalInner) AppendBorsh(b []byte) []byte {
	if a.Skip {
		return borsh.AppendUint64(append(b, 1), uint64(a.SkipHeight))
	}
	return append(append(b, 0), a.Endorsement[:]...)
}

// DecodeBorsh reads what AppendBorsh writes.
func (a *ApprovalInner) DecodeBorsh(r *borsh.Reader) {
	switch tag := r.Byte(); tag {
	case 0:
		*a = ApprovalInner{Endorsement: ReadHash(r)}
	case 1:
		*a = ApprovalInner{SkipHeight: Height(r.Uint64()), Skip: true}
	default:
		r.BadTag("ApprovalInner", tag)
	}
}

// SignedBytes returns what an approver signs, unhashed: inner ‖ u64 target.
func (a *ApprovalInner) SignedBytes(target Height) []byte {
	return borsh.AppendUint64(a.AppendBorsh(make([]byte, 0, 41)), uint64(target))
}

// Approval is a validator's vote for a block of height Target.
type Approval struct {
	Inner     ApprovalInner
	Target    Height
	Signature Signature
	AccountID AccountID
}

// AppendBorsh appends the fields.
func (a *Approval) AppendBorsh(b []byte) []byte {
	b = borsh.AppendUint64(a.Inner.AppendBorsh(b), uint64(a.Target))
	return a.AccountID.AppendBorsh(a.Signature.AppendBorsh(b))
}

// DecodeBorsh reads the fields.
func (a *Approval) DecodeBorsh(r *borsh.Reader) {
	a.Inner.DecodeBorsh(r)
	a.Target, a.Signature, a.AccountID = Height(r.Uint64()), ReadSignature(r), ReadAccountID(r)
}

const endorsementDifferentiator = "ChunkEndorsement"

// ChunkEndorsementBytes returns what a chunk validator signs, unhashed: chunk hash ‖
// "ChunkEndorsement".
func ChunkEndorsementBytes(chunk Hash) []byte {
	return borsh.AppendString(append(make([]byte, 0, 52), chunk[:]...), endorsementDifferentiator)
}

// ChunkEndorsementMetadata identifies the endorsed chunk and the endorsing validator.
type ChunkEndorsementMetadata struct {
	AccountID     AccountID
	ShardID       ShardID
	EpochID       EpochID
	HeightCreated Height
}

// ChunkEndorsement is nearcore's ChunkEndorsement V2. Signature is what block bodies carry. It is
// verified over ChunkEndorsementBytes, whatever Differentiator is (near-primitives 0.38.0
// src/stateless_validation/chunk_endorsement.rs:143).
type ChunkEndorsement struct {
	ChunkHash         Hash
	Differentiator    *string   // the string as received; nil: "ChunkEndorsement"
	Signature         Signature // signature of ChunkEndorsementBytes
	Metadata          ChunkEndorsementMetadata
	MetadataSignature Signature // signature of the metadata's encoding
}

// AppendBorsh appends the fields.
func (m *ChunkEndorsementMetadata) AppendBorsh(b []byte) []byte {
	b = append(borsh.AppendUint64(m.AccountID.AppendBorsh(b), uint64(m.ShardID)), m.EpochID[:]...)
	return borsh.AppendUint64(b, uint64(m.HeightCreated))
}

// AppendBorsh appends tag 1 and the fields.
func (e *ChunkEndorsement) AppendBorsh(b []byte) []byte {
	differentiator := endorsementDifferentiator
	if e.Differentiator != nil {
		differentiator = *e.Differentiator
	}
	b = borsh.AppendString(append(append(b, 1), e.ChunkHash[:]...), differentiator)
	b = e.Metadata.AppendBorsh(e.Signature.AppendBorsh(b))
	return e.MetadataSignature.AppendBorsh(b)
}

// DecodeBorsh reads what AppendBorsh writes, and any signature differentiator.
func (e *ChunkEndorsement) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 1 {
		r.BadTag("ChunkEndorsement", tag)
		return
	}
	e.ChunkHash = ReadHash(r)
	if d := r.String(); d != endorsementDifferentiator {
		e.Differentiator = &d
	}
	e.Signature = ReadSignature(r)
	m := &e.Metadata
	m.AccountID, m.ShardID, m.EpochID, m.HeightCreated = ReadAccountID(r), ShardID(r.Uint64()), ReadHash(r), Height(r.Uint64())
	e.MetadataSignature = ReadSignature(r)
}

const optimisticDifferentiator = "OptimisticBlock"

// OptimisticBlock announces a block before its chunks are known, so that chunks can be applied
// early.
type OptimisticBlock struct {
	PrevBlockHash Hash
	Height        Height
	Timestamp     uint64 // ns since 1970
	RandomValue   Hash
	VRFValue      [32]byte
	VRFProof      [64]byte
	Signature     Signature // signature of Hash
}

func (o *OptimisticBlock) appendInner(b []byte) []byte {
	b = borsh.AppendUint64(borsh.AppendUint64(append(b, o.PrevBlockHash[:]...), uint64(o.Height)), o.Timestamp)
	b = append(append(append(b, o.RandomValue[:]...), o.VRFValue[:]...), o.VRFProof[:]...)
	return borsh.AppendString(b, optimisticDifferentiator)
}

// Hash returns H(inner), which the producer signs.
func (o *OptimisticBlock) Hash() Hash { return HashBytes(o.appendInner(nil)) }

// AppendBorsh appends inner and signature.
func (o *OptimisticBlock) AppendBorsh(b []byte) []byte {
	return o.Signature.AppendBorsh(o.appendInner(b))
}

// DecodeBorsh reads what AppendBorsh writes.
func (o *OptimisticBlock) DecodeBorsh(r *borsh.Reader) {
	o.PrevBlockHash, o.Height, o.Timestamp, o.RandomValue = ReadHash(r), Height(r.Uint64()), r.Uint64(), ReadHash(r)
	copy(o.VRFValue[:], r.Take(len(o.VRFValue)))
	copy(o.VRFProof[:], r.Take(len(o.VRFProof)))
	if d := r.String(); r.Err() == nil && d != optimisticDifferentiator {
		r.Failf("signature differentiator %q of an optimistic block", d)
		return
	}
	o.Signature = ReadSignature(r)
}
