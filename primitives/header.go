package primitives

import "github.com/troupe-chain/troupe/primitives/borsh"

// HeaderVersion is the borsh tag of a block header.
type HeaderVersion byte

// V6 is the version of protocols 85 to 88, and V1 to V5 are the versions of protocols below 85. V1
// is also the version of the genesis of mainnet and testnet. No node writes V7; up to protocol 86
// it is valid like V6. V8 belongs to the feature Spice, which no protocol version has. All versions
// are decoded, because an epoch sync proof has headers of every epoch since the genesis.
// chain/validate.go has the rules for new blocks.
const (
	HeaderV1 HeaderVersion = iota
	HeaderV2
	HeaderV3
	HeaderV4
	HeaderV5
	HeaderV6
	HeaderV7
	HeaderV8
)

// EndorsementStats is a validator's endorsement record in a header of V7 or V8. Protocols 85 to 88
// do not use it.
type EndorsementStats struct{ Produced, Expected uint32 }

// BlockHeaderInnerLite is the part of a header that light clients store (nearcore
// core/primitives/src/block_header.rs).
type BlockHeaderInnerLite struct {
	Height          Height
	EpochID         EpochID
	NextEpochID     EpochID
	PrevStateRoot   Hash
	PrevOutcomeRoot Hash
	Timestamp       uint64 // ns since 1970
	NextBPHash      Hash   // hash of the block producers of NextEpochID
	BlockMerkleRoot Hash   // Merkle root of the hashes of all ancestors
}

// ShardSplit is a shard that is to be split, and the first account of its right half.
type ShardSplit struct {
	ShardID  ShardID
	Boundary AccountID
}

// BlockHeaderInnerRest is the part of a header that light clients only have as a hash. The struct
// has the layout of V6. A field that a header's version lacks is zero.
type BlockHeaderInnerRest struct {
	BlockBodyHash                 Hash // since V4
	PrevChunkOutgoingReceiptsRoot Hash
	ChunkHeadersRoot              Hash
	ChunkTxRoot                   Hash
	ChunksIncluded                uint64 // V1 only
	RandomValue                   Hash
	PrevValidatorProposals        []ValidatorStake
	ChunkMask                     []bool
	NextGasPrice                  Balance
	TotalSupply                   Balance
	LastFinalBlock                Hash
	LastDSFinalBlock              Hash
	BlockOrdinal                  uint64      // since V3
	PrevHeight                    Height      // since V3
	EpochSyncDataHash             *Hash       // since V3; set in the first block of an epoch
	Approvals                     []Signature // signatures by approver; empty: the approver has not approved
	LatestProtocolVersion         ProtocolVersion
	// ChunkEndorsements has one bit per assigned validator, low bit first, by shard. Since V5.
	ChunkEndorsements [][]byte
	ShardSplit        *ShardSplit        // since V6
	CertifiedEpochID  EpochID            // since V7: epoch of the last block whose execution is certified
	EndorsementStats  []EndorsementStats // since V7
}

// BlockHeader is a header with its hash, which Init or decoding computes.
type BlockHeader struct {
	Version  HeaderVersion
	PrevHash Hash
	BlockHeaderInnerLite
	ChunkExecutionRoot Hash // since V8; encoded as the last field of inner_lite
	BlockHeaderInnerRest
	Signature Signature
	hash      Hash
}

// AppendBorsh appends the eight fields.
func (l *BlockHeaderInnerLite) AppendBorsh(b []byte) []byte {
	b = borsh.AppendUint64(b, uint64(l.Height))
	for _, h := range [...]*Hash{&l.EpochID, &l.NextEpochID, &l.PrevStateRoot, &l.PrevOutcomeRoot} {
		b = append(b, h[:]...)
	}
	b = borsh.AppendUint64(b, l.Timestamp)
	return append(append(b, l.NextBPHash[:]...), l.BlockMerkleRoot[:]...)
}

// DecodeBorsh reads the eight fields.
func (l *BlockHeaderInnerLite) DecodeBorsh(r *borsh.Reader) {
	l.Height = Height(r.Uint64())
	for _, h := range [...]*Hash{&l.EpochID, &l.NextEpochID, &l.PrevStateRoot, &l.PrevOutcomeRoot} {
		h.DecodeBorsh(r)
	}
	l.Timestamp, l.NextBPHash, l.BlockMerkleRoot = r.Uint64(), ReadHash(r), ReadHash(r)
}

func appendBools(b []byte, v []bool) []byte {
	return borsh.AppendSlice(b, v, func(b []byte, x *bool) []byte { return borsh.AppendBool(b, *x) })
}

func readBools(r *borsh.Reader) []bool { return borsh.Slice(r, 1, (*borsh.Reader).Bool) }

// AppendOptionSignatures appends a vector of Option<Signature>; an empty signature is None.
func AppendOptionSignatures(b []byte, sigs []Signature) []byte {
	return borsh.AppendSlice(b, sigs, func(b []byte, s *Signature) []byte {
		if *s == "" {
			return append(b, 0)
		}
		return s.AppendBorsh(append(b, 1))
	})
}

// ReadOptionSignatures reads a vector of Option<Signature>.
func ReadOptionSignatures(r *borsh.Reader) []Signature {
	return borsh.Slice(r, 1, func(r *borsh.Reader) Signature {
		if !r.Option() {
			return ""
		}
		return ReadSignature(r)
	})
}

// AppendByteStrings appends a vector of byte strings.
func AppendByteStrings(b []byte, v [][]byte) []byte {
	return borsh.AppendSlice(b, v, func(b []byte, x *[]byte) []byte { return borsh.AppendBytes(b, *x) })
}

// ReadByteStrings reads a vector of byte strings.
func ReadByteStrings(r *borsh.Reader) [][]byte { return borsh.Slice(r, 4, (*borsh.Reader).BytesCopy) }

// AppendOptionShardSplit appends Option<(u64, AccountId)>.
func AppendOptionShardSplit(b []byte, s *ShardSplit) []byte {
	if s == nil {
		return append(b, 0)
	}
	return s.Boundary.AppendBorsh(borsh.AppendUint64(append(b, 1), uint64(s.ShardID)))
}

// ReadOptionShardSplit reads Option<(u64, AccountId)>.
func ReadOptionShardSplit(r *borsh.Reader) *ShardSplit {
	if !r.Option() {
		return nil
	}
	return &ShardSplit{ShardID: ShardID(r.Uint64()), Boundary: ReadAccountID(r)}
}

func (x *BlockHeaderInnerRest) appendVersion(b []byte, v HeaderVersion) []byte {
	if v >= HeaderV4 {
		b = append(b, x.BlockBodyHash[:]...)
	}
	b = append(append(append(b, x.PrevChunkOutgoingReceiptsRoot[:]...), x.ChunkHeadersRoot[:]...), x.ChunkTxRoot[:]...)
	if v == HeaderV1 {
		b = borsh.AppendUint64(b, x.ChunksIncluded)
	}
	if v < HeaderV6 {
		b = append(b, zero32...) // challenges_root
	}
	b = append(b, x.RandomValue[:]...)
	if v < HeaderV3 {
		b = borsh.AppendSlice(b, x.PrevValidatorProposals, func(b []byte, p *ValidatorStake) []byte { return p.AppendUntagged(b) })
	} else {
		b = AppendValidatorStakes(b, x.PrevValidatorProposals)
	}
	b = x.TotalSupply.AppendBorsh(x.NextGasPrice.AppendBorsh(appendBools(b, x.ChunkMask)))
	if v < HeaderV6 {
		b = borsh.AppendUint32(b, 0) // challenges_result
	}
	b = append(append(b, x.LastFinalBlock[:]...), x.LastDSFinalBlock[:]...)
	if v >= HeaderV3 {
		b = borsh.AppendUint64(borsh.AppendUint64(b, x.BlockOrdinal), uint64(x.PrevHeight))
		b = appendOptionHash(b, x.EpochSyncDataHash)
	}
	b = borsh.AppendUint32(AppendOptionSignatures(b, x.Approvals), uint32(x.LatestProtocolVersion))
	if v >= HeaderV5 {
		b = AppendByteStrings(b, x.ChunkEndorsements)
	}
	if v >= HeaderV6 {
		b = AppendOptionShardSplit(b, x.ShardSplit)
	}
	if v >= HeaderV7 {
		b = borsh.AppendSlice(append(b, x.CertifiedEpochID[:]...), x.EndorsementStats, func(b []byte, s *EndorsementStats) []byte {
			return borsh.AppendUint32(borsh.AppendUint32(b, s.Produced), s.Expected)
		})
	}
	return b
}

// decodeVersion reads the layout of a version. A header with challenges is never valid (nearcore
// chain.rs:871).
func (x *BlockHeaderInnerRest) decodeVersion(r *borsh.Reader, v HeaderVersion) {
	if v >= HeaderV4 {
		x.BlockBodyHash = ReadHash(r)
	}
	x.PrevChunkOutgoingReceiptsRoot, x.ChunkHeadersRoot, x.ChunkTxRoot = ReadHash(r), ReadHash(r), ReadHash(r)
	if v == HeaderV1 {
		x.ChunksIncluded = r.Uint64()
	}
	if v < HeaderV6 && !ReadHash(r).IsZero() {
		r.Failf("block header with a root of challenges")
	}
	x.RandomValue = ReadHash(r)
	if v < HeaderV3 {
		x.PrevValidatorProposals = readUntaggedStakes(r)
	} else {
		x.PrevValidatorProposals = ReadValidatorStakes(r)
	}
	x.ChunkMask = readBools(r)
	x.NextGasPrice, x.TotalSupply = ReadBalance(r), ReadBalance(r)
	if v < HeaderV6 && r.Uint32() != 0 {
		r.Failf("block header with results of challenges")
	}
	x.LastFinalBlock, x.LastDSFinalBlock = ReadHash(r), ReadHash(r)
	if v >= HeaderV3 {
		x.BlockOrdinal, x.PrevHeight = r.Uint64(), Height(r.Uint64())
		x.EpochSyncDataHash = readOptionHash(r)
	}
	x.Approvals = ReadOptionSignatures(r)
	x.LatestProtocolVersion = ProtocolVersion(r.Uint32())
	if v >= HeaderV5 {
		x.ChunkEndorsements = ReadByteStrings(r)
	}
	if v >= HeaderV6 {
		x.ShardSplit = ReadOptionShardSplit(r)
	}
	if v >= HeaderV7 {
		x.CertifiedEpochID = ReadHash(r)
		x.EndorsementStats = borsh.Slice(r, 8, func(r *borsh.Reader) EndorsementStats { return EndorsementStats{r.Uint32(), r.Uint32()} })
	}
}

// Hash returns the block's hash: H(H(H(lite) ‖ H(rest)) ‖ prev_hash). Init must have run.
func (h *BlockHeader) Hash() Hash { return h.hash }

// InnerRestHash returns H(inner_rest).
func (h *BlockHeader) InnerRestHash() Hash {
	return HashBytes(h.BlockHeaderInnerRest.appendVersion(nil, h.Version))
}

// appendLite appends inner_lite.
func (h *BlockHeader) appendLite(b []byte) []byte {
	if b = h.BlockHeaderInnerLite.AppendBorsh(b); h.Version >= HeaderV8 {
		b = append(b, h.ChunkExecutionRoot[:]...)
	}
	return b
}

// InnerHash returns H(H(lite) ‖ H(rest)), the next_block_inner_hash of a light client view.
func (h *BlockHeader) InnerHash() Hash {
	return CombineHash(HashBytes(h.appendLite(nil)), h.InnerRestHash())
}

// Init computes the hash. All fields but the signature must be set.
func (h *BlockHeader) Init() *BlockHeader {
	h.hash = CombineHash(h.InnerHash(), h.PrevHash)
	return h
}

// IsGenesis returns whether the header has no parent.
func (h *BlockHeader) IsGenesis() bool { return h.PrevHash.IsZero() }

// AppendBorsh appends tag, prev_hash, lite, rest, signature.
func (h *BlockHeader) AppendBorsh(b []byte) []byte {
	b = append(append(b, byte(h.Version)), h.PrevHash[:]...)
	b = h.BlockHeaderInnerRest.appendVersion(h.appendLite(b), h.Version)
	return h.Signature.AppendBorsh(b)
}

// DecodeBorsh reads a header of any version and computes its hash.
func (h *BlockHeader) DecodeBorsh(r *borsh.Reader) {
	if h.Version = HeaderVersion(r.Byte()); h.Version > HeaderV8 {
		r.BadTag("BlockHeader", byte(h.Version))
		return
	}
	h.PrevHash = ReadHash(r)
	h.BlockHeaderInnerLite.DecodeBorsh(r)
	if h.Version >= HeaderV8 {
		h.ChunkExecutionRoot = ReadHash(r)
	}
	h.BlockHeaderInnerRest.decodeVersion(r, h.Version)
	h.Signature = ReadSignature(r)
	if r.Err() == nil {
		h.Init()
	}
}
