package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// BlockBody is nearcore's BlockBody V2. block_body_hash is the hash of its encoding, including the
// tag.
type BlockBody struct {
	Chunks []*ChunkHeader
	// Challenges is the encoded vector of challenges as its producer wrote it. Challenges are
	// obsolete and not processed. nil: an empty vector.
	Challenges        []byte
	VRFValue          [32]byte
	VRFProof          [64]byte
	ChunkEndorsements [][]Signature // signatures by shard, then by assigned validator; empty: no endorsement
}

// Block is nearcore's Block V4.
type Block struct {
	Header *BlockHeader
	Body   BlockBody
}

// AppendBorsh appends tag 1 and the fields.
func (y *BlockBody) AppendBorsh(b []byte) []byte {
	b = AppendChunkHeaders(append(b, 1), y.Chunks)
	if b = append(b, y.Challenges...); y.Challenges == nil {
		b = borsh.AppendUint32(b, 0)
	}
	b = append(append(b, y.VRFValue[:]...), y.VRFProof[:]...)
	return borsh.AppendSlice(b, y.ChunkEndorsements, func(b []byte, s *[]Signature) []byte { return AppendOptionSignatures(b, *s) })
}

// DecodeBorsh reads what AppendBorsh writes.
func (y *BlockBody) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 1 {
		r.BadTag("BlockBody", tag)
		return
	}
	y.Chunks = ReadChunkHeaders(r)
	y.Challenges = readChallenges(r)
	copy(y.VRFValue[:], r.Take(len(y.VRFValue)))
	copy(y.VRFProof[:], r.Take(len(y.VRFProof)))
	y.ChunkEndorsements = borsh.Slice(r, 4, ReadOptionSignatures)
}

// Hash returns block_body_hash.
func (y *BlockBody) Hash() Hash { return HashBorsh(y) }

// Hash returns the block's hash.
func (k *Block) Hash() Hash { return k.Header.Hash() }

// AppendBorsh appends tag 3, header and body.
func (k *Block) AppendBorsh(b []byte) []byte {
	return k.Body.AppendBorsh(k.Header.AppendBorsh(append(b, 3)))
}

// DecodeBorsh reads what AppendBorsh writes.
func (k *Block) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 3 {
		r.BadTag("Block", tag)
		return
	}
	k.Header = new(BlockHeader)
	k.Header.DecodeBorsh(r)
	k.Body.DecodeBorsh(r)
}
