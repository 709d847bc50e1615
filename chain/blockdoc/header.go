package blockdoc

import (
	"encoding/json"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
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

// header decodes the view. It finds the header's version by trying which version leads to the hash
// in the view.
func (j *headerJSON) header() (*primitives.BlockHeader, error) {
	text := j.TimestampNanosec
	if text == "" { // older nodes omit it
		text = j.Timestamp.String()
	}
	at, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return nil, formf("timestamp %q", text)
	}
	h := &primitives.BlockHeader{PrevHash: j.PrevHash, Signature: j.Signature, ChunkExecutionRoot: j.ChunkExecutionRoot}
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
			return nil, formf("shard_split: %v", err)
		}
		if err := json.Unmarshal(j.ShardSplit[1], &h.ShardSplit.Boundary); err != nil {
			return nil, formf("shard_split: %v", err)
		}
	}
	for v := int(primitives.HeaderV8); v >= int(primitives.HeaderV1); v-- {
		if h.Version = primitives.HeaderVersion(v); h.Init().Hash() == j.Hash {
			trimHeader(h)
			return h, nil
		}
	}
	return nil, mismatchf("block.header", "no known layout gives block %d the hash %v", j.Height, j.Hash)
}

// trimHeader clears the fields that the header's version lacks, because the block's hash does not
// cover them.
func trimHeader(h *primitives.BlockHeader) {
	if h.Version < primitives.HeaderV8 {
		h.ChunkExecutionRoot = primitives.Hash{}
	}
	if h.Version < primitives.HeaderV7 {
		h.CertifiedEpochID, h.EndorsementStats = primitives.Hash{}, nil
	}
	if h.Version < primitives.HeaderV6 {
		h.ShardSplit = nil
	}
	if h.Version < primitives.HeaderV5 {
		h.ChunkEndorsements = nil
	}
	if h.Version < primitives.HeaderV4 {
		h.BlockBodyHash = primitives.Hash{}
	}
	if h.Version < primitives.HeaderV3 {
		h.BlockOrdinal, h.PrevHeight, h.EpochSyncDataHash = 0, 0, nil
	}
}
