package fork

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// blockView is a block as the other node shows it.
type blockView struct {
	Chunks []chunkView `json:"chunks"`
	Header headerView  `json:"header"`
}

type chunkView struct {
	ShardID       primitives.ShardID `json:"shard_id"`
	PrevStateRoot primitives.Hash    `json:"prev_state_root"`
	GasLimit      primitives.Gas     `json:"gas_limit"`
}

type headerView struct {
	Hash                  primitives.Hash            `json:"hash"`
	PrevHash              primitives.Hash            `json:"prev_hash"`
	Height                primitives.Height          `json:"height"`
	EpochID               primitives.EpochID         `json:"epoch_id"`
	NextEpochID           primitives.EpochID         `json:"next_epoch_id"`
	PrevStateRoot         primitives.Hash            `json:"prev_state_root"`
	OutcomeRoot           primitives.Hash            `json:"outcome_root"`
	TimestampNanosec      string                     `json:"timestamp_nanosec"`
	NextBPHash            primitives.Hash            `json:"next_bp_hash"`
	BlockMerkleRoot       primitives.Hash            `json:"block_merkle_root"`
	BlockBodyHash         primitives.Hash            `json:"block_body_hash"`
	ChunkReceiptsRoot     primitives.Hash            `json:"chunk_receipts_root"`
	ChunkHeadersRoot      primitives.Hash            `json:"chunk_headers_root"`
	ChunkTxRoot           primitives.Hash            `json:"chunk_tx_root"`
	RandomValue           primitives.Hash            `json:"random_value"`
	ValidatorProposals    []stakeView                `json:"validator_proposals"`
	ChunkMask             []bool                     `json:"chunk_mask"`
	GasPrice              primitives.Balance         `json:"gas_price"`
	TotalSupply           primitives.Balance         `json:"total_supply"`
	LastFinalBlock        primitives.Hash            `json:"last_final_block"`
	LastDSFinalBlock      primitives.Hash            `json:"last_ds_final_block"`
	BlockOrdinal          uint64                     `json:"block_ordinal"`
	PrevHeight            primitives.Height          `json:"prev_height"`
	EpochSyncDataHash     *primitives.Hash           `json:"epoch_sync_data_hash"`
	Approvals             []*primitives.Signature    `json:"approvals"`
	LatestProtocolVersion primitives.ProtocolVersion `json:"latest_protocol_version"`
	ChunkEndorsements     [][]uint16                 `json:"chunk_endorsements"`
	ShardSplit            json.RawMessage            `json:"shard_split"`
	CertifiedEpochID      primitives.EpochID         `json:"prev_last_certified_block_epoch_id"`
	EndorsementStats      []endorsementStats         `json:"spice_chunk_endorsement_stats"`
}

type endorsementStats struct {
	Produced uint32 `json:"produced"`
	Expected uint32 `json:"expected"`
}

type stakeView struct {
	AccountID primitives.AccountID `json:"account_id"`
	PublicKey primitives.PublicKey `json:"public_key"`
	Stake     primitives.Balance   `json:"stake"`
}

// Refusals of blocks.
var (
	errHash  = errors.New("the block that it shows has another hash than it says")
	errRoots = errors.New("the chunks that it shows are not the block's")
)

// parseBlock reads a block and holds it to its hash. A genesis has another form and is not judged.
func parseBlock(in []byte) (*blockView, error) {
	b := new(blockView)
	if err := json.Unmarshal(in, b); err != nil {
		return nil, fmt.Errorf("a block: %w", err)
	}
	h := &b.Header
	header, err := h.header()
	if err != nil {
		return nil, fmt.Errorf("block %d: %w", h.Height, err)
	}
	if got := header.Init().Hash(); got != h.Hash && !ofOtherForm(header, h.Hash) {
		return nil, fmt.Errorf("%w: block %d is %v, not %v", errHash, h.Height, got, h.Hash)
	}
	roots := make([]primitives.Hash, len(b.Chunks))
	for i := range b.Chunks {
		roots[i] = primitives.HashBytes(b.Chunks[i].PrevStateRoot[:])
	}
	if len(roots) != len(h.ChunkMask) || primitives.MerkleRoot(roots) != h.PrevStateRoot {
		return nil, fmt.Errorf("%w: of block %v", errRoots, h.Hash)
	}
	return b, nil
}

// ofOtherForm tells whether a header has a hash in one of the forms that nobody has to write, and that are valid all the same, and leaves it in that.
func ofOtherForm(h *primitives.BlockHeader, hash primitives.Hash) bool {
	for _, v := range [...]primitives.HeaderVersion{primitives.HeaderV7, primitives.HeaderV5} {
		if h.Version = v; h.Init().Hash() == hash {
			return v == primitives.HeaderV7 || h.ShardSplit == nil // what the hash does not cover
		}
	}
	return false
}

// header is what the view shows, in the form that protocol 85 and 86 write.
func (h *headerView) header() (*primitives.BlockHeader, error) {
	at, err := strconv.ParseUint(h.TimestampNanosec, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("timestamp_nanosec: %w", err)
	}
	out := &primitives.BlockHeader{Version: primitives.HeaderV6, PrevHash: h.PrevHash}
	out.BlockHeaderInnerLite = primitives.BlockHeaderInnerLite{
		Height: h.Height, EpochID: h.EpochID, NextEpochID: h.NextEpochID, PrevStateRoot: h.PrevStateRoot, PrevOutcomeRoot: h.OutcomeRoot,
		Timestamp: at, NextBPHash: h.NextBPHash, BlockMerkleRoot: h.BlockMerkleRoot,
	}
	rest := &out.BlockHeaderInnerRest
	*rest = primitives.BlockHeaderInnerRest{
		BlockBodyHash: h.BlockBodyHash, PrevChunkOutgoingReceiptsRoot: h.ChunkReceiptsRoot, ChunkHeadersRoot: h.ChunkHeadersRoot,
		ChunkTxRoot: h.ChunkTxRoot, RandomValue: h.RandomValue, ChunkMask: h.ChunkMask, NextGasPrice: h.GasPrice, TotalSupply: h.TotalSupply,
		LastFinalBlock: h.LastFinalBlock, LastDSFinalBlock: h.LastDSFinalBlock, BlockOrdinal: h.BlockOrdinal, PrevHeight: h.PrevHeight,
		EpochSyncDataHash: h.EpochSyncDataHash, LatestProtocolVersion: h.LatestProtocolVersion, CertifiedEpochID: h.CertifiedEpochID,
	}
	for _, s := range h.EndorsementStats {
		rest.EndorsementStats = append(rest.EndorsementStats, primitives.EndorsementStats(s))
	}
	for _, p := range h.ValidatorProposals {
		rest.PrevValidatorProposals = append(rest.PrevValidatorProposals, primitives.ValidatorStake(p))
	}
	for _, s := range h.Approvals {
		if s == nil {
			rest.Approvals = append(rest.Approvals, "")
		} else {
			rest.Approvals = append(rest.Approvals, *s)
		}
	}
	for _, bits := range h.ChunkEndorsements {
		var b []byte
		for _, x := range bits {
			if x > 255 {
				return nil, fmt.Errorf("chunk_endorsements: %d is no byte", x)
			}
			b = append(b, byte(x))
		}
		rest.ChunkEndorsements = append(rest.ChunkEndorsements, b)
	}
	if len(h.ShardSplit) > 0 && string(h.ShardSplit) != "null" {
		rest.ShardSplit = new(primitives.ShardSplit)
		pair := []any{&rest.ShardSplit.ShardID, &rest.ShardSplit.Boundary}
		if err := json.Unmarshal(h.ShardSplit, &pair); err != nil || len(pair) != 2 {
			return nil, fmt.Errorf("shard_split: %w", err)
		}
	}
	return out, nil
}
