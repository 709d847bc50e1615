package epoch

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// blockInfoV4 is the borsh tag of BlockInfo V4, the version that nodes write from protocol version
// 85 on. This package writes no other version.
const blockInfoV4 = 3

// BlockInfo contains the data of a block that epochs depend on (nearcore BlockInfo V4,
// core/primitives/src/epoch_block_info.rs). EpochFirstBlock, EpochID and ChunkProducers are set by
// RecordBlockInfo. All other fields come from the header.
type BlockInfo struct {
	Hash                  primitives.Hash
	Height                primitives.Height
	LastFinalizedHeight   primitives.Height // height of LastFinalBlockHash; for the genesis, its own height
	LastFinalBlockHash    primitives.Hash
	PrevHash              primitives.Hash
	EpochFirstBlock       primitives.Hash
	EpochID               primitives.EpochID
	Proposals             []primitives.ValidatorStake
	ChunkMask             []bool // by shard index: true if the block has a new chunk of the shard
	LatestProtocolVersion primitives.ProtocolVersion
	TotalSupply           primitives.Balance
	Timestamp             uint64 // nanoseconds since 1970
	// ChunkEndorsements has a bitmap for each shard index. Bit i, from the lowest, is for validator i
	// of the chunk's assignment.
	ChunkEndorsements [][]byte
	ShardSplit        *primitives.ShardSplit
	// ChunkProducers contains the producers of the chunks whose anchor is this block, by shard
	// index of the block's epoch: the rows of nearcore's column ChunkProducers (see package
	// earlykickout). ChunkProducers is nil before protocol version 87, or if the producers are
	// unknown. AppendBorsh, whose result is hashed, leaves ChunkProducers out. StoredBlockInfo
	// includes ChunkProducers.
	ChunkProducers []ValidatorID
}

// IsGenesis returns whether the block has no parent. IsGenesis also returns true for the
// placeholder that stands for the genesis's parent.
func (b *BlockInfo) IsGenesis() bool { return b.PrevHash.IsZero() }

// AppendBorsh appends the tag and the fields.
func (b *BlockInfo) AppendBorsh(buf []byte) []byte {
	buf = append(buf, blockInfoV4)
	buf = b.Hash.AppendBorsh(buf)
	buf = borsh.AppendUint64(buf, uint64(b.Height))
	buf = borsh.AppendUint64(buf, uint64(b.LastFinalizedHeight))
	buf = b.LastFinalBlockHash.AppendBorsh(buf)
	buf = b.PrevHash.AppendBorsh(buf)
	buf = b.EpochFirstBlock.AppendBorsh(buf)
	buf = b.EpochID.AppendBorsh(buf)
	buf = primitives.AppendValidatorStakes(buf, b.Proposals)
	buf = borsh.AppendSlice(buf, b.ChunkMask, func(buf []byte, v *bool) []byte { return borsh.AppendBool(buf, *v) })
	buf = borsh.AppendUint32(buf, uint32(b.LatestProtocolVersion))
	buf = b.TotalSupply.AppendBorsh(buf)
	buf = borsh.AppendUint64(buf, b.Timestamp)
	return primitives.AppendOptionShardSplit(primitives.AppendByteStrings(buf, b.ChunkEndorsements), b.ShardSplit)
}

// DecodeBorsh reads the tag and the fields. Only V4 is known.
func (b *BlockInfo) DecodeBorsh(r *borsh.Reader) {
	if tag := r.Byte(); tag != blockInfoV4 {
		r.BadTag("BlockInfo", tag)
		return
	}
	b.Hash = primitives.ReadHash(r)
	b.Height = primitives.Height(r.Uint64())
	b.LastFinalizedHeight = primitives.Height(r.Uint64())
	b.LastFinalBlockHash = primitives.ReadHash(r)
	b.PrevHash = primitives.ReadHash(r)
	b.EpochFirstBlock = primitives.ReadHash(r)
	b.EpochID = primitives.ReadHash(r)
	b.Proposals = primitives.ReadValidatorStakes(r)
	b.ChunkMask = borsh.Slice(r, 1, (*borsh.Reader).Bool)
	b.LatestProtocolVersion = primitives.ProtocolVersion(r.Uint32())
	b.TotalSupply = primitives.ReadBalance(r)
	b.Timestamp = r.Uint64()
	b.ChunkEndorsements = primitives.ReadByteStrings(r)
	b.ShardSplit = primitives.ReadOptionShardSplit(r)
}
