package blockdoc

import (
	"encoding/json"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// headerForm is a layout of the block header: one of nearcore's header versions 1 to 8. The layout
// determines what is hashed to the block's hash.
type headerForm int

const (
	headerV1 headerForm = 1 + iota
	headerV2            // V1 without the number of chunks
	headerV3            // adds the ordinal and the previous height; validator proposals have a version
	headerV4            // adds the hash of the body
	headerV5            // adds endorsement bitmaps
	headerV6            // adds the shard split, removes challenges
	headerV7            // adds endorsement statistics of an epoch
	headerV8            // adds the root of executed chunks (Spice)
)

// headerJSON is nearcore's BlockHeaderView.
type headerJSON struct {
	Approvals             []*primitives.Signature    `json:"approvals"`
	BlockBodyHash         primitives.Hash            `json:"block_body_hash"`
	BlockMerkleRoot       primitives.Hash            `json:"block_merkle_root"`
	BlockOrdinal          uint64                     `json:"block_ordinal"`
	ChunkEndorsements     []byteNumbers              `json:"chunk_endorsements"`
	ChunkExecutionRoot    primitives.Hash            `json:"chunk_execution_root"`
	ChunkHeadersRoot      primitives.Hash            `json:"chunk_headers_root"`
	ChunkMask             []bool                     `json:"chunk_mask"`
	ChunkReceiptsRoot     primitives.Hash            `json:"chunk_receipts_root"`
	ChunkTxRoot           primitives.Hash            `json:"chunk_tx_root"`
	ChunksIncluded        uint64                     `json:"chunks_included"`
	EpochID               primitives.Hash            `json:"epoch_id"`
	EpochSyncDataHash     *primitives.Hash           `json:"epoch_sync_data_hash"`
	GasPrice              primitives.Balance         `json:"gas_price"`
	Hash                  primitives.Hash            `json:"hash"`
	Height                primitives.Height          `json:"height"`
	LastDSFinalBlock      primitives.Hash            `json:"last_ds_final_block"`
	LastFinalBlock        primitives.Hash            `json:"last_final_block"`
	LatestProtocolVersion primitives.ProtocolVersion `json:"latest_protocol_version"`
	NextBPHash            primitives.Hash            `json:"next_bp_hash"`
	NextEpochID           primitives.Hash            `json:"next_epoch_id"`
	OutcomeRoot           primitives.Hash            `json:"outcome_root"`
	PrevHash              primitives.Hash            `json:"prev_hash"`
	PrevHeight            primitives.Height          `json:"prev_height"`
	CertifiedEpochID      primitives.Hash            `json:"prev_last_certified_block_epoch_id"`
	PrevStateRoot         primitives.Hash            `json:"prev_state_root"`
	RandomValue           primitives.Hash            `json:"random_value"`
	ShardSplit            *[2]json.RawMessage        `json:"shard_split"`
	Signature             primitives.Signature       `json:"signature"`
	EndorsementStats      []endorsementStatsJSON     `json:"spice_chunk_endorsement_stats"`
	Timestamp             json.Number                `json:"timestamp"`
	TimestampNanosec      string                     `json:"timestamp_nanosec"`
	TotalSupply           primitives.Balance         `json:"total_supply"`
	Proposals             []stakeJSON                `json:"validator_proposals"`
}

// byteNumbers are bytes that the JSON contains as a list of numbers.
type byteNumbers []byte

// UnmarshalJSON decodes the list.
func (b *byteNumbers) UnmarshalJSON(in []byte) error {
	var list []uint8Number
	if err := json.Unmarshal(in, &list); err != nil {
		return err
	}
	*b = make([]byte, len(list))
	for i, x := range list {
		(*b)[i] = byte(x)
	}
	return nil
}

// uint8Number is a byte in a list. encoding/json uses base64 for []byte, but not for []uint8Number.
type uint8Number byte

// UnmarshalJSON decodes a number.
func (n *uint8Number) UnmarshalJSON(in []byte) error {
	v, err := strconv.ParseUint(string(in), 10, 8)
	*n = uint8Number(v)
	return err
}

type endorsementStatsJSON struct {
	Produced uint32 `json:"produced"`
	Expected uint32 `json:"expected"`
}

type stakeJSON struct {
	AccountID primitives.AccountID `json:"account_id"`
	PublicKey primitives.PublicKey `json:"public_key"`
	Stake     primitives.Balance   `json:"stake"`
}

func stakesOf(in []stakeJSON) (out []primitives.ValidatorStake) {
	for _, s := range in {
		out = append(out, primitives.ValidatorStake(s))
	}
	return out
}

// header decodes the view. It finds the layout by trying which one leads to the hash in the view.
func (j *headerJSON) header() (*primitives.BlockHeader, headerForm, error) {
	text := j.TimestampNanosec
	if text == "" { // older nodes omit it
		text = j.Timestamp.String()
	}
	at, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, 0, formf("timestamp %q", text)
	}
	h := &primitives.BlockHeader{
		Version: primitives.HeaderV6, PrevHash: j.PrevHash, Signature: j.Signature, ChunkExecutionRoot: j.ChunkExecutionRoot,
	}
	h.BlockHeaderInnerLite = primitives.BlockHeaderInnerLite{Height: j.Height, EpochID: j.EpochID, NextEpochID: j.NextEpochID,
		PrevStateRoot: j.PrevStateRoot, PrevOutcomeRoot: j.OutcomeRoot, Timestamp: at, NextBPHash: j.NextBPHash, BlockMerkleRoot: j.BlockMerkleRoot}
	h.BlockHeaderInnerRest = primitives.BlockHeaderInnerRest{BlockBodyHash: j.BlockBodyHash,
		PrevChunkOutgoingReceiptsRoot: j.ChunkReceiptsRoot, ChunkHeadersRoot: j.ChunkHeadersRoot, ChunkTxRoot: j.ChunkTxRoot,
		RandomValue: j.RandomValue, PrevValidatorProposals: stakesOf(j.Proposals), ChunkMask: j.ChunkMask, NextGasPrice: j.GasPrice,
		TotalSupply: j.TotalSupply, LastFinalBlock: j.LastFinalBlock, LastDSFinalBlock: j.LastDSFinalBlock, BlockOrdinal: j.BlockOrdinal,
		PrevHeight: j.PrevHeight, EpochSyncDataHash: j.EpochSyncDataHash, LatestProtocolVersion: j.LatestProtocolVersion, ChunksIncluded: j.ChunksIncluded,
		CertifiedEpochID: j.CertifiedEpochID}
	for _, a := range j.Approvals {
		sig := primitives.Signature("")
		if a != nil {
			sig = *a
		}
		h.Approvals = append(h.Approvals, sig)
	}
	for _, bits := range j.ChunkEndorsements {
		h.ChunkEndorsements = append(h.ChunkEndorsements, bits)
	}
	for _, s := range j.EndorsementStats {
		h.EndorsementStats = append(h.EndorsementStats, primitives.EndorsementStats(s))
	}
	if j.ShardSplit != nil {
		h.ShardSplit = new(primitives.ShardSplit)
		if err := json.Unmarshal(j.ShardSplit[0], &h.ShardSplit.ShardID); err != nil {
			return nil, 0, formf("shard_split: %v", err)
		}
		if err := json.Unmarshal(j.ShardSplit[1], &h.ShardSplit.Boundary); err != nil {
			return nil, 0, formf("shard_split: %v", err)
		}
	}
	for form := headerV8; form >= headerV1; form-- {
		if hashHeader(h, form) == j.Hash {
			trimHeader(h, form)
			return h.Init(), form, nil
		}
	}
	return nil, 0, mismatchf("block.header", "no known layout gives block %d the hash %v", j.Height, j.Hash)
}

// trimHeader clears the fields that a layout lacks, because the block's hash does not cover them.
func trimHeader(h *primitives.BlockHeader, form headerForm) {
	if form < headerV8 {
		h.ChunkExecutionRoot = primitives.Hash{}
	}
	if form < headerV7 {
		h.CertifiedEpochID, h.EndorsementStats = primitives.Hash{}, nil
	}
	if form < headerV6 {
		h.ShardSplit = nil
	}
	if form < headerV5 {
		h.ChunkEndorsements = nil
	}
	if form < headerV4 {
		h.BlockBodyHash = primitives.Hash{}
	}
	if form < headerV3 {
		h.BlockOrdinal, h.PrevHeight, h.EpochSyncDataHash = 0, 0, nil
	}
}

// hashHeader returns the block hash in a layout. It sets h.Version to the layout's version, or to
// V5 for V2, V3 and V4.
func hashHeader(h *primitives.BlockHeader, form headerForm) primitives.Hash {
	switch form {
	case headerV8:
		h.Version = primitives.HeaderV8
	case headerV7:
		h.Version = primitives.HeaderV7
	case headerV6:
		h.Version = primitives.HeaderV6
	case headerV5:
		h.Version = primitives.HeaderV5
	case headerV1:
		h.Version = primitives.HeaderV1
	default:
		h.Version = primitives.HeaderV5
		inner := primitives.CombineHash(primitives.HashBorsh(&h.BlockHeaderInnerLite), primitives.HashBytes(appendOldRest(nil, &h.BlockHeaderInnerRest, form)))
		return primitives.CombineHash(inner, h.PrevHash)
	}
	return h.Init().Hash()
}

// appendOldRest appends the inner rest in the layout of versions 2 to 4 (nearcore
// core/primitives/src/block_header.rs).
func appendOldRest(b []byte, x *primitives.BlockHeaderInnerRest, form headerForm) []byte {
	var zero primitives.Hash
	if form >= headerV4 {
		b = append(b, x.BlockBodyHash[:]...)
	}
	for _, h := range [...]*primitives.Hash{&x.PrevChunkOutgoingReceiptsRoot, &x.ChunkHeadersRoot, &x.ChunkTxRoot, &zero, &x.RandomValue} {
		b = append(b, h[:]...)
	}
	if form >= headerV3 {
		b = primitives.AppendValidatorStakes(b, x.PrevValidatorProposals)
	} else {
		b = borsh.AppendSlice(b, x.PrevValidatorProposals, func(b []byte, p *primitives.ValidatorStake) []byte { return p.AppendUntagged(b) })
	}
	b = borsh.AppendSlice(b, x.ChunkMask, func(b []byte, v *bool) []byte { return borsh.AppendBool(b, *v) })
	b = x.TotalSupply.AppendBorsh(x.NextGasPrice.AppendBorsh(b))
	b = borsh.AppendUint32(b, 0) // challenges_result
	b = append(append(b, x.LastFinalBlock[:]...), x.LastDSFinalBlock[:]...)
	if form >= headerV3 {
		b = borsh.AppendUint64(borsh.AppendUint64(b, x.BlockOrdinal), uint64(x.PrevHeight))
		if x.EpochSyncDataHash == nil {
			b = append(b, 0)
		} else {
			b = append(append(b, 1), x.EpochSyncDataHash[:]...)
		}
	}
	return borsh.AppendUint32(primitives.AppendOptionSignatures(b, x.Approvals), uint32(x.LatestProtocolVersion))
}
