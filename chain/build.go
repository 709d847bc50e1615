package chain

import (
	"fmt"

	"github.com/troupe-chain/troupe/chain/epoch"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// BlockFacts are header fields that the parent's header and the chunks do not determine. The caller
// computes them with package epoch and the block Merkle tree.
type BlockFacts struct {
	EpochID           primitives.EpochID
	NextEpochID       primitives.EpochID
	NextBPHash        primitives.Hash
	BlockMerkleRoot   primitives.Hash // root of the tree over the hashes of all blocks up to the parent
	BlockOrdinal      uint64          // number of leaves of that tree + 1
	EpochSyncDataHash *primitives.Hash
	// tokens minted for the epoch that the block begins; 0 if the block begins no epoch
	Minted     primitives.Balance
	ShardSplit *primitives.ShardSplit
	Pricing    epoch.GasPriceRules
	Version    primitives.ProtocolVersion // protocol version of the block's epoch
}

// BlockInput is the input of BuildBlock.
type BlockInput struct {
	BlockFacts
	Parent            *primitives.BlockHeader
	Height            primitives.Height
	Timestamp         uint64                    // ns since 1970; must exceed the parent's
	Chunks            []*primitives.ChunkHeader // by shard index, with HeightIncluded set
	ChunkEndorsements [][]primitives.Signature  // by shard index; empty for a chunk that is not new
	// by approver; an element is empty if the producer has no approval of the approver
	Approvals []primitives.Signature
	VRFValue  [32]byte
	VRFProof  [64]byte
	Vote      primitives.ProtocolVersion // latest_protocol_version: the version for which the producer votes
}

// BuildBlock returns a block without its signature. The only possible error is ArithmeticOverflow:
// the sum of gas or the supply overflows.
func BuildBlock(in *BlockInput) (*primitives.Block, error) {
	roots := ComputeRoots(in.Chunks, in.Height)
	price, supply, err := nextEconomics(&in.BlockFacts, in.Parent, in.Chunks, in.Height)
	if err != nil {
		return nil, err
	}
	b := &primitives.Block{Body: primitives.BlockBody{
		Chunks: in.Chunks, VRFValue: in.VRFValue, VRFProof: in.VRFProof, ChunkEndorsements: in.ChunkEndorsements,
	}}
	b.Header = &primitives.BlockHeader{
		Version:  primitives.HeaderV6,
		PrevHash: in.Parent.Hash(),
		BlockHeaderInnerLite: primitives.BlockHeaderInnerLite{
			Height: in.Height, EpochID: in.EpochID, NextEpochID: in.NextEpochID,
			PrevStateRoot: roots.PrevStateRoot, PrevOutcomeRoot: roots.PrevOutcomeRoot,
			Timestamp: in.Timestamp, NextBPHash: in.NextBPHash, BlockMerkleRoot: in.BlockMerkleRoot,
		},
		BlockHeaderInnerRest: primitives.BlockHeaderInnerRest{
			BlockBodyHash:                 b.Body.Hash(),
			PrevChunkOutgoingReceiptsRoot: roots.PrevOutgoingReceipts,
			ChunkHeadersRoot:              roots.ChunkHeaders,
			ChunkTxRoot:                   roots.ChunkTx,
			RandomValue:                   primitives.HashBytes(in.VRFValue[:]),
			PrevValidatorProposals:        roots.PrevValidatorProposal,
			ChunkMask:                     roots.Mask,
			NextGasPrice:                  price,
			TotalSupply:                   supply,
			LastFinalBlock:                LastFinal(in.Parent, in.Height),
			LastDSFinalBlock:              LastDSFinal(in.Parent, in.Height),
			BlockOrdinal:                  in.BlockOrdinal,
			PrevHeight:                    in.Parent.Height,
			EpochSyncDataHash:             in.EpochSyncDataHash,
			Approvals:                     in.Approvals,
			LatestProtocolVersion:         in.Vote,
			ChunkEndorsements:             EndorsementBitmaps(in.ChunkEndorsements),
			ShardSplit:                    in.ShardSplit,
		},
		Signature: primitives.ZeroED25519Signature,
	}
	b.Header.Init()
	return b, nil
}

// SignBlock signs the block's hash and sets the header's Signature.
func SignBlock(b *primitives.Block, key primitives.SecretKey) {
	h := b.Hash()
	b.Header.Signature = key.Sign(h[:])
}

// ChunkExtra contains those results of applying a chunk that the header of the shard's next chunk
// contains (nearcore ChunkExtra V5).
type ChunkExtra struct {
	StateRoot         primitives.Hash
	OutcomeRoot       primitives.Hash
	Proposals         []primitives.ValidatorStake
	GasUsed           primitives.Gas
	GasLimit          primitives.Gas
	BalanceBurnt      primitives.Balance
	CongestionInfo    primitives.CongestionInfo
	BandwidthRequests []primitives.BandwidthRequest
	ProposedSplit     *primitives.TrieSplit
}

// ChunkInput is the input of BuildChunk.
type ChunkInput struct {
	PrevBlock    primitives.Hash
	Height       primitives.Height // height_created: 1 + the height of PrevBlock
	ShardID      primitives.ShardID
	Extra        *ChunkExtra           // results of the shard's last chunk before this one
	Outgoing     []*primitives.Receipt // receipts that the shard's previous chunk sent
	Transactions []*primitives.SignedTransaction
	Layout       primitives.ShardLayout
	Coding       *primitives.ReedSolomon // the chain's erasure code
}

// EncodedBody is an erasure-coded chunk body: the parts, their Merkle root, and the length of the
// body in bytes before coding.
type EncodedBody struct {
	Parts  [][]byte
	Root   primitives.Hash
	Length uint64
	// Tree is the Merkle tree over the parts. Receipts are the body's receipts, by target shard,
	// with proofs. Distributing the chunk needs both. EncodeBody leaves Receipts nil.
	Tree     primitives.MerkleTree
	Receipts []primitives.ReceiptProof
}

// EncodeBody returns the erasure-coded form of a body.
func EncodeBody(body *primitives.ChunkBody, rs *primitives.ReedSolomon) (*EncodedBody, error) {
	x := new(EncodedBody)
	var err error
	primitives.Encoded(body, func(raw []byte) {
		x.Length = uint64(len(raw))
		x.Parts, err = rs.Encode(raw)
	})
	if err != nil {
		return nil, fmt.Errorf("chain: encode chunk body: %w", err)
	}
	x.Tree = primitives.PartsTree(x.Parts)
	x.Root = x.Tree.Root()
	return x, nil
}

// BuildChunk returns a chunk signed with key, and its erasure-coded body.
func BuildChunk(in *ChunkInput, key primitives.SecretKey) (*primitives.Chunk, *EncodedBody, error) {
	body := primitives.ChunkBody{Transactions: in.Transactions, PrevOutgoingReceipts: in.Outgoing}
	enc, err := EncodeBody(&body, in.Coding)
	if err != nil {
		return nil, nil, fmt.Errorf("shard %d at height %d: %w", in.ShardID, in.Height, err)
	}
	outgoing, proofs := ProveOutgoing(in.ShardID, in.Outgoing, in.Layout)
	enc.Receipts = proofs
	x := in.Extra
	c := &primitives.Chunk{ChunkBody: body, Header: primitives.ChunkHeader{ChunkHeaderInner: primitives.ChunkHeaderInner{
		Version: primitives.ChunkInnerV5, PrevBlockHash: in.PrevBlock,
		PrevStateRoot: x.StateRoot, PrevOutcomeRoot: x.OutcomeRoot,
		EncodedMerkleRoot: enc.Root, EncodedLength: enc.Length,
		HeightCreated: in.Height, ShardID: in.ShardID,
		PrevGasUsed: x.GasUsed, GasLimit: x.GasLimit, PrevBalanceBurnt: x.BalanceBurnt,
		PrevOutgoingReceiptsRoot: outgoing, TxRoot: TxRoot(in.Transactions),
		PrevValidatorProposals: x.Proposals, CongestionInfo: x.CongestionInfo,
		BandwidthRequests: x.BandwidthRequests, ProposedSplit: x.ProposedSplit,
	}}}
	c.Hash = c.Header.ChunkHash()
	c.Whole = c.Hash
	c.Header.Signature = key.Sign(c.Hash[:])
	return c, enc, nil
}

// AppendBorsh appends the form in which x is stored. nearcore has no such encoding.
func (x *ChunkExtra) AppendBorsh(b []byte) []byte {
	b = primitives.AppendValidatorStakes(append(append(b, x.StateRoot[:]...), x.OutcomeRoot[:]...), x.Proposals)
	b = borsh.AppendUint64(borsh.AppendUint64(b, uint64(x.GasUsed)), uint64(x.GasLimit))
	b = x.CongestionInfo.AppendBorsh(x.BalanceBurnt.AppendBorsh(b))
	b = primitives.AppendBandwidthRequests(b, x.BandwidthRequests)
	if x.ProposedSplit == nil {
		return append(b, 0)
	}
	return x.ProposedSplit.AppendBorsh(append(b, 1))
}

// DecodeBorsh reads the form that AppendBorsh wrote.
func (x *ChunkExtra) DecodeBorsh(r *borsh.Reader) {
	*x = ChunkExtra{StateRoot: primitives.ReadHash(r), OutcomeRoot: primitives.ReadHash(r),
		Proposals: primitives.ReadValidatorStakes(r)}
	x.GasUsed, x.GasLimit = primitives.Gas(r.Uint64()), primitives.Gas(r.Uint64())
	x.BalanceBurnt = primitives.ReadBalance(r)
	x.CongestionInfo.DecodeBorsh(r)
	x.BandwidthRequests = primitives.ReadBandwidthRequests(r)
	if r.Option() {
		x.ProposedSplit = new(primitives.TrieSplit)
		x.ProposedSplit.DecodeBorsh(r)
	}
}
