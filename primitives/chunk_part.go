package primitives

import (
	"cmp"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// ChunkPart is one part of a chunk's erasure-coded body, with its proof in encoded_merkle_root
// (nearcore PartialEncodedChunkPart).
type ChunkPart struct {
	Ord   uint64
	Part  []byte // aliases the decoded input
	Proof MerklePath
}

// AppendBorsh appends the fields.
func (p *ChunkPart) AppendBorsh(b []byte) []byte {
	return p.Proof.AppendBorsh(borsh.AppendBytes(borsh.AppendUint64(b, p.Ord), p.Part))
}

// DecodeBorsh reads the fields; the part aliases the input.
func (p *ChunkPart) DecodeBorsh(r *borsh.Reader) {
	p.Ord, p.Part = r.Uint64(), r.Bytes()
	p.Proof.DecodeBorsh(r)
}

// Verify returns whether the part belongs at its index among total parts with this root.
func (p *ChunkPart) Verify(root Hash, total int) bool {
	_, good := p.VerifyLeaf(root, total)
	return good
}

// VerifyLeaf is Verify and also returns the part's leaf.
func (p *ChunkPart) VerifyLeaf(root Hash, total int) (leaf Hash, good bool) {
	leaf = PartLeaf(p.Part)
	return leaf, p.Proof.VerifyAt(root, leaf, p.Ord, uint64(total))
}

// minChunkPart is the size in bytes of the shortest encoding of a ChunkPart.
const minChunkPart = 8 + 4 + 4

// AppendChunkParts appends a vector.
func AppendChunkParts(b []byte, list []ChunkPart) []byte {
	return borsh.AppendSlice(b, list, func(b []byte, p *ChunkPart) []byte { return p.AppendBorsh(b) })
}

// ReadChunkParts reads a vector.
func ReadChunkParts(r *borsh.Reader) []ChunkPart {
	return borsh.Slice(r, minChunkPart, func(r *borsh.Reader) (p ChunkPart) {
		p.DecodeBorsh(r)
		return p
	})
}

// PartialChunk is what a chunk's producer sends to one owner of parts: parts, and proofs of the
// chunk's receipts (nearcore PartialEncodedChunk; V2, with an anchor V3).
type PartialChunk struct {
	Header   ChunkHeader
	Parts    []ChunkPart
	Receipts []ReceiptProof
	Anchor   *PartialChunkAnchor // nil in V2
}

// PartialChunkAnchor has the fields that V3 of PartialChunk adds to V2. These fields allow a
// receiver to determine the chunk's producer before the chunk's parent has arrived (near-primitives
// 0.38.0 src/sharding.rs:947). The fields are not signed: any node that relays the message may have
// changed the fields.
type PartialChunkAnchor struct {
	PrevPrevBlock Hash // parent of the header's PrevBlockHash; zero if PrevBlockHash is the genesis
	EpochID       EpochID
}

// AppendBorsh appends tag 1 for V2 or tag 2 for V3, and the fields.
func (c *PartialChunk) AppendBorsh(b []byte) []byte {
	tag := byte(1)
	if c.Anchor != nil {
		tag = 2
	}
	b = AppendReceiptProofs(AppendChunkParts(c.Header.AppendBorsh(append(b, tag)), c.Parts), c.Receipts)
	if c.Anchor != nil {
		b = append(append(b, c.Anchor.PrevPrevBlock[:]...), c.Anchor.EpochID[:]...)
	}
	return b
}

// DecodeBorsh reads what AppendBorsh writes, in V2 or V3; the parts alias the input.
func (c *PartialChunk) DecodeBorsh(r *borsh.Reader) {
	tag := r.Byte()
	if tag != 1 && tag != 2 {
		r.BadTag("PartialEncodedChunk", tag)
		return
	}
	c.Header.decodeRecent(r)
	c.Parts, c.Receipts, c.Anchor = ReadChunkParts(r), ReadReceiptProofs(r), nil
	if tag == 2 {
		c.Anchor = &PartialChunkAnchor{PrevPrevBlock: ReadHash(r), EpochID: ReadHash(r)}
	}
}

// InnerHash is the hash of a header's inner part. With EncodedMerkleRoot it makes the chunk's hash.
func (h *ChunkHeaderInner) InnerHash() Hash { return hashOf(h.appendInner) }

// ChunkForward is the set of parts that one owner forwards (nearcore
// PartialEncodedChunkForwardMsg). A ChunkForward may arrive before the header: the header fields in
// the ChunkForward suffice to verify the parts and the producer's signature.
type ChunkForward struct {
	ChunkHash     Hash
	InnerHash     Hash
	MerkleRoot    Hash
	Signature     Signature // the chunk producer's signature of ChunkHash
	PrevBlockHash Hash
	HeightCreated Height
	ShardID       ShardID
	Parts         []ChunkPart
}

// NewChunkForward returns a message that forwards parts of a chunk.
func NewChunkForward(h *ChunkHeader, parts []ChunkPart) *ChunkForward {
	inner := h.InnerHash()
	return &ChunkForward{ChunkHash: CombineHash(inner, h.EncodedMerkleRoot), InnerHash: inner,
		MerkleRoot: h.EncodedMerkleRoot, Signature: h.Signature,
		PrevBlockHash: h.PrevBlockHash, HeightCreated: h.HeightCreated, ShardID: h.ShardID, Parts: parts}
}

// Consistent returns whether the chunk's hash matches the header fields.
func (f *ChunkForward) Consistent() bool {
	return CombineHash(f.InnerHash, f.MerkleRoot) == f.ChunkHash
}

// AppendBorsh appends the fields.
func (f *ChunkForward) AppendBorsh(b []byte) []byte {
	b = f.Signature.AppendBorsh(append(append(append(b, f.ChunkHash[:]...), f.InnerHash[:]...), f.MerkleRoot[:]...))
	b = borsh.AppendUint64(append(b, f.PrevBlockHash[:]...), uint64(f.HeightCreated))
	return AppendChunkParts(borsh.AppendUint64(b, uint64(f.ShardID)), f.Parts)
}

// DecodeBorsh reads the fields; parts alias the input.
func (f *ChunkForward) DecodeBorsh(r *borsh.Reader) {
	f.ChunkHash, f.InnerHash, f.MerkleRoot, f.Signature = ReadHash(r), ReadHash(r), ReadHash(r), ReadSignature(r)
	f.PrevBlockHash, f.HeightCreated, f.ShardID = ReadHash(r), Height(r.Uint64()), ShardID(r.Uint64())
	f.Parts = ReadChunkParts(r)
}

// ChunkRequest asks for parts of a chunk, and for its receipts to shards.
type ChunkRequest struct {
	ChunkHash Hash
	Ords      []uint64
	Shards    []ShardID // shards whose receipts are requested, ascending
}

// AppendBorsh appends the fields.
func (q *ChunkRequest) AppendBorsh(b []byte) []byte {
	b = borsh.AppendUint64s(append(b, q.ChunkHash[:]...), q.Ords)
	return borsh.AppendSlice(b, q.Shards, func(b []byte, s *ShardID) []byte { return borsh.AppendUint64(b, uint64(*s)) })
}

// DecodeBorsh reads the fields. Shards may come in any order.
func (q *ChunkRequest) DecodeBorsh(r *borsh.Reader) {
	q.ChunkHash, q.Ords = ReadHash(r), r.Uint64s()
	q.Shards = borsh.Slice(r, 8, func(r *borsh.Reader) ShardID { return ShardID(r.Uint64()) })
	q.Shards = asMap(r, q.Shards, cmp.Compare[ShardID])
}

// ChunkResponse is the answer: as many of the requested parts and receipts as the responder has.
type ChunkResponse struct {
	ChunkHash Hash
	Parts     []ChunkPart
	Receipts  []ReceiptProof
}

// AppendBorsh appends the fields.
func (a *ChunkResponse) AppendBorsh(b []byte) []byte {
	return AppendReceiptProofs(AppendChunkParts(append(b, a.ChunkHash[:]...), a.Parts), a.Receipts)
}

// DecodeBorsh reads the fields; parts alias the input.
func (a *ChunkResponse) DecodeBorsh(r *borsh.Reader) {
	a.ChunkHash, a.Parts, a.Receipts = ReadHash(r), ReadChunkParts(r), ReadReceiptProofs(r)
}
