package chain

import "github.com/troupe-chain/troupe/primitives"

// GenesisInput is the input of Genesis.
type GenesisInput struct {
	Version        primitives.ProtocolVersion
	Height         primitives.Height
	Time           uint64 // ns since 1970
	GasLimit       primitives.Gas
	MinGasPrice    primitives.Balance
	TotalSupply    primitives.Balance
	ShardIDs       []primitives.ShardID
	StateRoots     []primitives.Hash // state roots by shard index
	Congestion     []primitives.CongestionInfo
	BlockProducers []primitives.ValidatorStake // distinct producers of epoch 0, in settlement order
}

// Genesis returns the genesis block and its chunks (nearcore core/primitives/src/block.rs
// Block::genesis). The signatures are empty. The only error for valid input is
// InvalidProtocolVersion.
func Genesis(in *GenesisInput) (*primitives.Block, []*primitives.Chunk, error) {
	rs, err := primitives.NewReedSolomon(primitives.GenesisPartCounts())
	if err != nil {
		return nil, nil, err
	}
	enc, err := EncodeBody(&primitives.ChunkBody{}, rs)
	if err != nil {
		return nil, nil, err
	}
	version := primitives.ChunkInnerV5
	switch {
	case in.Version == primitives.ProdGenesisProtocolVersion:
		version = primitives.ChunkInnerV1
	case in.Version < 85:
		return nil, nil, invalidf(InvalidProtocolVersion, "no genesis header exists for protocol version %d", in.Version)
	}
	chunks := make([]*primitives.Chunk, len(in.ShardIDs))
	headers := make([]*primitives.ChunkHeader, len(in.ShardIDs))
	for i, id := range in.ShardIDs {
		c := &primitives.Chunk{Header: primitives.ChunkHeader{
			ChunkHeaderInner: primitives.ChunkHeaderInner{
				Version: version, PrevStateRoot: in.StateRoots[i], EncodedMerkleRoot: enc.Root, EncodedLength: enc.Length,
				HeightCreated: in.Height, ShardID: id, GasLimit: in.GasLimit, CongestionInfo: in.Congestion[i],
			},
			HeightIncluded: in.Height,
			Signature:      primitives.ZeroED25519Signature,
		}}
		c.Hash = c.Header.ChunkHash()
		chunks[i], headers[i] = c, &c.Header
	}
	roots := ComputeRoots(headers, in.Height)
	b := &primitives.Block{Body: primitives.BlockBody{Chunks: headers}}
	h := &primitives.BlockHeader{
		Version: primitives.HeaderV6,
		BlockHeaderInnerLite: primitives.BlockHeaderInnerLite{
			Height: in.Height, PrevStateRoot: roots.PrevStateRoot, Timestamp: in.Time,
			NextBPHash: primitives.BlockProducersHash(in.BlockProducers),
		},
		BlockHeaderInnerRest: primitives.BlockHeaderInnerRest{
			BlockBodyHash:                 b.Body.Hash(),
			PrevChunkOutgoingReceiptsRoot: roots.PrevOutgoingReceipts,
			ChunkHeadersRoot:              roots.ChunkHeaders,
			ChunkTxRoot:                   roots.ChunkTx,
			NextGasPrice:                  in.MinGasPrice,
			TotalSupply:                   in.TotalSupply,
			BlockOrdinal:                  1,
			LatestProtocolVersion:         in.Version,
		},
		Signature: primitives.ZeroED25519Signature,
	}
	if in.Height == 0 && version != primitives.ChunkInnerV1 {
		h.ChunkMask = roots.Mask
	}
	if version == primitives.ChunkInnerV1 {
		h.Version, h.BlockBodyHash, h.BlockOrdinal = primitives.HeaderV1, primitives.Hash{}, 0
		h.NextBPHash = primitives.UntaggedBlockProducersHash(in.BlockProducers)
	}
	b.Header = h.Init()
	return b, chunks, nil
}
