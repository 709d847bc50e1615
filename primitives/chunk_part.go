package primitives

import (
	"cmp"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// ChunkPart is one part of a chunk's coded body, with what proves it in encoded_merkle_root
// (nearcore PartialEncodedChunkPart).
type ChunkPart struct {
	Ord   uint64
	Part  []byte // aliases what was decoded
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

// Verify tells whether the part is that of its number among total ones with this root.
func (p *ChunkPart) Verify(root Hash, total int) bool {
	_, good := p.VerifyLeaf(root, total)
	return good
}

// VerifyLeaf is Verify, and gives the part's leaf.
func (p *ChunkPart) VerifyLeaf(root Hash, total int) (leaf Hash, good bool) {
	leaf = PartLeaf(p.Part)
	return leaf, p.Proof.VerifyAt(root, leaf, p.Ord, uint64(total))
}

// minChunkPart is the least a part takes.
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

// PartialChunk is what a chunk's producer sends of it: parts, and proofs of the receipts that it
// brings (nearcore PartialEncodedChunk V2).
type PartialChunk struct {
	Header   ChunkHeader
	Parts    []ChunkPart
	Receipts []ReceiptProof
}

// AppendBorsh appends tag 1 and the fields.
func (c *PartialChunk) AppendBorsh(b []byte) []byte {
	return AppendReceiptProofs(AppendChunkParts(c.Header.AppendBorsh(append(b, 1)), c.Parts), c.Receipts)
}

// DecodeBorsh reads it; parts alias the input.
func (c *PartialChunk) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 1 {
		r.BadTag("PartialEncodedChunk", tag)
		return
	}
	c.Header.DecodeBorsh(r)
	c.Parts, c.Receipts = ReadChunkParts(r), ReadReceiptProofs(r)
}

// InnerHash is the hash of a header's inner part, which makes the chunk's hash with
// EncodedMerkleRoot.
func (h *ChunkHeaderInner) InnerHash() Hash { return hashOf(h.appendInner) }

// ChunkForward are the parts that one owner passes on (nearcore PartialEncodedChunkForwardMsg). It
// may come before the header: what is in it of that suffices to check the parts, and who has made
// them.
type ChunkForward struct {
	ChunkHash     Hash
	InnerHash     Hash
	MerkleRoot    Hash
	Signature     Signature // of the chunk's producer over ChunkHash
	PrevBlockHash Hash
	HeightCreated Height
	ShardID       ShardID
	Parts         []ChunkPart
}

// NewChunkForward passes on parts of a chunk.
func NewChunkForward(h *ChunkHeader, parts []ChunkPart) *ChunkForward {
	inner := h.InnerHash()
	return &ChunkForward{ChunkHash: CombineHash(inner, h.EncodedMerkleRoot), InnerHash: inner, MerkleRoot: h.EncodedMerkleRoot, Signature: h.Signature,
		PrevBlockHash: h.PrevBlockHash, HeightCreated: h.HeightCreated, ShardID: h.ShardID, Parts: parts}
}

// Consistent tells whether the chunk's hash is that of what is told of its header.
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

// ChunkRequest asks for parts of a chunk, and for the receipts that it brings to shards.
type ChunkRequest struct {
	ChunkHash Hash
	Ords      []uint64
	Shards    []ShardID // ascending
}

// AppendBorsh appends the fields.
func (q *ChunkRequest) AppendBorsh(b []byte) []byte {
	b = borsh.AppendUint64s(append(b, q.ChunkHash[:]...), q.Ords)
	return borsh.AppendSlice(b, q.Shards, func(b []byte, s *ShardID) []byte { return borsh.AppendUint64(b, uint64(*s)) })
}

// DecodeBorsh reads the fields; shards come in any order.
func (q *ChunkRequest) DecodeBorsh(r *borsh.Reader) {
	q.ChunkHash, q.Ords = ReadHash(r), r.Uint64s()
	q.Shards = borsh.Slice(r, 8, func(r *borsh.Reader) ShardID { return ShardID(r.Uint64()) })
	q.Shards = asMap(r, q.Shards, cmp.Compare[ShardID])
}

// ChunkResponse is the answer, with as much as the other has.
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
