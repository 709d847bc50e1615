package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// CongestionInfo describes the load of a shard, in the header of its chunk (nearcore
// congestion_info.rs, V1).
type CongestionInfo struct {
	DelayedReceiptsGas  Balance // an amount of gas, encoded as u128
	BufferedReceiptsGas Balance // an amount of gas, encoded as u128
	ReceiptBytes        uint64
	AllowedShard        uint16
}

// AppendBorsh appends tag 0 and the fields.
func (c *CongestionInfo) AppendBorsh(b []byte) []byte {
	b = c.BufferedReceiptsGas.AppendBorsh(c.DelayedReceiptsGas.AppendBorsh(append(b, 0)))
	return borsh.AppendUint16(borsh.AppendUint64(b, c.ReceiptBytes), c.AllowedShard)
}

// DecodeBorsh reads what AppendBorsh writes.
func (c *CongestionInfo) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 0 {
		r.BadTag("CongestionInfo", tag)
		return
	}
	c.DelayedReceiptsGas, c.BufferedReceiptsGas = ReadBalance(r), ReadBalance(r)
	c.ReceiptBytes, c.AllowedShard = r.Uint64(), r.Uint16()
}

// BandwidthRequest asks for permission to send receipts to a shard. Each bit of Bitmap selects one
// of 40 sizes, low bit first.
type BandwidthRequest struct {
	ToShard uint16
	Bitmap  [5]byte
}

// AppendBandwidthRequests appends tag 0 and the vector.
func AppendBandwidthRequests(b []byte, rs []BandwidthRequest) []byte {
	return borsh.AppendSlice(append(b, 0), rs, func(b []byte, q *BandwidthRequest) []byte {
		return append(borsh.AppendUint16(b, q.ToShard), q.Bitmap[:]...)
	})
}

// ReadBandwidthRequests reads tag 0 and the vector.
func ReadBandwidthRequests(r *borsh.Reader) []BandwidthRequest {
	if tag := r.Byte(); tag != 0 {
		r.BadTag("BandwidthRequests", tag)
		return nil
	}
	return borsh.Slice(r, 7, func(r *borsh.Reader) (q BandwidthRequest) {
		q.ToShard = r.Uint16()
		copy(q.Bitmap[:], r.Take(5))
		return q
	})
}

// TrieSplit proposes where to split a shard: the first account of the right half, and the memory
// usage of each half.
type TrieSplit struct {
	Boundary    AccountID
	LeftMemory  uint64
	RightMemory uint64
}

// AppendBorsh appends the fields.
func (s *TrieSplit) AppendBorsh(b []byte) []byte {
	return borsh.AppendUint64(borsh.AppendUint64(s.Boundary.AppendBorsh(b), s.LeftMemory), s.RightMemory)
}

// DecodeBorsh reads the fields.
func (s *TrieSplit) DecodeBorsh(r *borsh.Reader) {
	s.Boundary, s.LeftMemory, s.RightMemory = ReadAccountID(r), r.Uint64(), r.Uint64()
}

// ChunkInnerVersion is the tag of a chunk header's inner part.
type ChunkInnerVersion byte

// Versions of the inner part. Protocols 85 and 86 have V5. V4 belongs to 84 and is still decoded. V1
// is the version in the genesis of mainnet and testnet. Other headers of V1, and those of V2 and V3,
// are known from JSON only: they can be hashed, and decoding refuses them.
const (
	ChunkInnerV1 ChunkInnerVersion = iota
	ChunkInnerV2                   // adds tags to the validator proposals
	ChunkInnerV3                   // adds CongestionInfo
	ChunkInnerV4                   // adds BandwidthRequests
	ChunkInnerV5                   // adds ProposedSplit
)

// ChunkForm is the version of the header around an inner part of V1. It decides what is hashed.
type ChunkForm byte

// The versions of nearcore's ShardChunkHeader.
const (
	ChunkFormV1 ChunkForm = iota // the hash covers only the inner part
	ChunkFormV2                  // the hash also covers EncodedMerkleRoot
	ChunkFormV3                  // as V2, and the inner part begins with its tag
)

// ChunkHeaderInner is the part that a chunk's hash covers. The "prev" fields describe the result of
// the previous chunk, applied in PrevBlockHash.
type ChunkHeaderInner struct {
	Version                  ChunkInnerVersion
	Form                     ChunkForm // used if Version is ChunkInnerV1; the header of a later version has V3
	PrevBlockHash            Hash
	PrevStateRoot            Hash
	PrevOutcomeRoot          Hash
	EncodedMerkleRoot        Hash
	EncodedLength            uint64
	HeightCreated            Height
	ShardID                  ShardID
	PrevGasUsed              Gas
	GasLimit                 Gas
	PrevBalanceBurnt         Balance
	PrevOutgoingReceiptsRoot Hash
	TxRoot                   Hash
	PrevValidatorProposals   []ValidatorStake
	CongestionInfo           CongestionInfo
	BandwidthRequests        []BandwidthRequest
	ProposedSplit            *TrieSplit // V5 only
}

// ChunkHeader is nearcore's ShardChunkHeader V3, or that of Form if its inner part is V1. The hash
// does not cover HeightIncluded.
type ChunkHeader struct {
	ChunkHeaderInner
	HeightIncluded Height
	Signature      Signature
}

// appendInner appends the inner part with its tag. Forms V1 and V2 have no tag, and the validator
// stakes in an inner part of V1 have no tags.
func (h *ChunkHeaderInner) appendInner(b []byte) []byte {
	if h.Version != ChunkInnerV1 || h.Form == ChunkFormV3 {
		b = append(b, byte(h.Version))
	}
	for _, x := range [...]*Hash{&h.PrevBlockHash, &h.PrevStateRoot, &h.PrevOutcomeRoot, &h.EncodedMerkleRoot} {
		b = append(b, x[:]...)
	}
	b = borsh.AppendUint64(borsh.AppendUint64(b, h.EncodedLength), uint64(h.HeightCreated))
	b = borsh.AppendUint64(borsh.AppendUint64(b, uint64(h.ShardID)), uint64(h.PrevGasUsed))
	b = h.PrevBalanceBurnt.AppendBorsh(borsh.AppendUint64(b, uint64(h.GasLimit)))
	b = append(append(b, h.PrevOutgoingReceiptsRoot[:]...), h.TxRoot[:]...)
	if h.Version == ChunkInnerV1 {
		return borsh.AppendSlice(b, h.PrevValidatorProposals, func(b []byte, v *ValidatorStake) []byte { return v.AppendUntagged(b) })
	}
	b = AppendValidatorStakes(b, h.PrevValidatorProposals)
	if h.Version >= ChunkInnerV3 {
		b = h.CongestionInfo.AppendBorsh(b)
	}
	if h.Version >= ChunkInnerV4 {
		b = AppendBandwidthRequests(b, h.BandwidthRequests)
	}
	if h.Version >= ChunkInnerV5 {
		if h.ProposedSplit == nil {
			return append(b, 0)
		}
		b = h.ProposedSplit.AppendBorsh(append(b, 1))
	}
	return b
}

// ChunkHash returns H(H(inner) ‖ encoded_merkle_root), or H(inner) for the form V1, which mainnet's
// genesis has.
func (h *ChunkHeaderInner) ChunkHash() Hash {
	inner := h.InnerHash()
	if h.Version == ChunkInnerV1 && h.Form == ChunkFormV1 {
		return inner
	}
	return CombineHash(inner, h.EncodedMerkleRoot)
}

// AppendBorsh appends the tag of the form, inner, height_included and signature.
func (h *ChunkHeader) AppendBorsh(b []byte) []byte {
	tag := byte(ChunkFormV3)
	if h.Version == ChunkInnerV1 {
		tag = byte(h.Form)
	}
	b = borsh.AppendUint64(h.appendInner(append(b, tag)), uint64(h.HeightIncluded))
	return h.Signature.AppendBorsh(b)
}

// decodeRecent reads a V3 header with inner V4 or V5: no message about a chunk may have another
// (nearcore core/primitives/src/sharding.rs validate_version).
func (h *ChunkHeader) decodeRecent(r *borsh.Reader) {
	if h.DecodeBorsh(r); h.Version == ChunkInnerV1 {
		r.Failf("chunk header of version 1 outside of a genesis block")
	}
}

// DecodeBorsh reads a V3 header with inner V4 or V5, or a V1 header.
func (h *ChunkHeader) DecodeBorsh(r *borsh.Reader) {
	h.Form = ChunkFormV1
	switch tag := r.Byte(); tag {
	case 0:
		h.Version = ChunkInnerV1
	case 2:
		h.Version = ChunkInnerVersion(r.Byte())
		if h.Version != ChunkInnerV4 && h.Version != ChunkInnerV5 {
			r.BadTag("ShardChunkHeaderInner", byte(h.Version))
			return
		}
	default:
		r.BadTag("ShardChunkHeader", tag)
		return
	}
	for _, x := range [...]*Hash{&h.PrevBlockHash, &h.PrevStateRoot, &h.PrevOutcomeRoot, &h.EncodedMerkleRoot} {
		x.DecodeBorsh(r)
	}
	h.EncodedLength, h.HeightCreated = r.Uint64(), Height(r.Uint64())
	h.ShardID, h.PrevGasUsed, h.GasLimit = ShardID(r.Uint64()), Gas(r.Uint64()), Gas(r.Uint64())
	h.PrevBalanceBurnt = ReadBalance(r)
	h.PrevOutgoingReceiptsRoot, h.TxRoot = ReadHash(r), ReadHash(r)
	h.ProposedSplit = nil
	if h.Version == ChunkInnerV1 {
		h.PrevValidatorProposals = readUntaggedStakes(r)
		h.CongestionInfo, h.BandwidthRequests = CongestionInfo{}, nil
	} else {
		h.PrevValidatorProposals = ReadValidatorStakes(r)
		h.CongestionInfo.DecodeBorsh(r)
		h.BandwidthRequests = ReadBandwidthRequests(r)
	}
	if h.Version >= ChunkInnerV5 && r.Option() {
		h.ProposedSplit = new(TrieSplit)
		h.ProposedSplit.DecodeBorsh(r)
	}
	h.HeightIncluded, h.Signature = Height(r.Uint64()), ReadSignature(r)
}

// minChunkHeader is the size in bytes of the shortest encoding of a header, which has V1.
const minChunkHeader = 1 + 4*32 + 5*8 + 16 + 64 + 4 + 8 + 65

// AppendChunkHeaders appends a vector of headers.
func AppendChunkHeaders(b []byte, hs []*ChunkHeader) []byte {
	b = borsh.AppendLen(b, len(hs))
	for _, h := range hs {
		b = h.AppendBorsh(b)
	}
	return b
}

// ReadChunkHeaders reads a vector of headers.
func ReadChunkHeaders(r *borsh.Reader) []*ChunkHeader {
	return borsh.Slice(r, minChunkHeader, func(r *borsh.Reader) *ChunkHeader {
		h := new(ChunkHeader)
		h.DecodeBorsh(r)
		return h
	})
}

// ChunkBody is the content of the Reed–Solomon parts: transactions, and the outgoing receipts of
// the previous chunk.
type ChunkBody struct {
	Transactions         []*SignedTransaction
	PrevOutgoingReceipts []*Receipt
}

// AppendBorsh appends both vectors.
func (c *ChunkBody) AppendBorsh(b []byte) []byte {
	return AppendReceipts(AppendTransactions(b, c.Transactions), c.PrevOutgoingReceipts)
}

// DecodeBorsh reads both vectors.
func (c *ChunkBody) DecodeBorsh(r *borsh.Reader) {
	c.Transactions, c.PrevOutgoingReceipts = ReadTransactions(r), ReadReceipts(r)
}

// Chunk is a header with its body (nearcore ShardChunk V2).
type Chunk struct {
	Hash   Hash
	Header ChunkHeader
	ChunkBody
	// Proofs replace the body on a node that does not track the shard: the receipts from the chunk
	// to the shards that the node tracks. They are not part of the encoding.
	Proofs []ReceiptProof
	// Whole is the header's hash if this node has checked the body against that header, when it
	// encoded or reassembled the body. Zero means not checked. Whole is not part of the encoding.
	Whole Hash
}

// AppendBorsh appends tag 1 and the fields.
func (c *Chunk) AppendBorsh(b []byte) []byte {
	b = c.Header.AppendBorsh(append(append(b, 1), c.Hash[:]...))
	return c.ChunkBody.AppendBorsh(b)
}

// DecodeBorsh reads what AppendBorsh writes.
func (c *Chunk) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != 1 {
		r.BadTag("ShardChunk", tag)
		return
	}
	c.Hash = ReadHash(r)
	c.Header.decodeRecent(r)
	c.ChunkBody.DecodeBorsh(r)
}
