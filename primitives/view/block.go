package view

import "github.com/troupe-chain/troupe/primitives"

// AppendBlock appends BlockView (nearcore views.rs:1270): author, chunk headers by shard index,
// header.
func AppendBlock(b []byte, author primitives.AccountID, block *primitives.Block) []byte {
	b = AppendAccountID(append(b, `{"author":`...), author)
	b = appendList(append(b, `,"chunks":`...), block.Body.Chunks, func(b []byte, h **primitives.ChunkHeader) []byte {
		return AppendChunkHeader(b, *h)
	})
	return append(AppendBlockHeader(append(b, `,"header":`...), block.Header), '}')
}

const zeroHashText = `"11111111111111111111111111111111"`

// AppendBlockHeader appends BlockHeaderView. Members that headers before V5 lack are null. The
// additions of V7 and V8 are shown in headers of these versions.
func AppendBlockHeader(b []byte, h *primitives.BlockHeader) []byte {
	before := func(v primitives.HeaderVersion) bool { return h.Version < v }
	hash := h.Hash()
	b = appendSignatures(append(b, `{"approvals":`...), h.Approvals)
	b = appendUnless(append(b, `,"block_body_hash":`...), before(primitives.HeaderV4), func(b []byte) []byte { return AppendHash(b, &h.BlockBodyHash) })
	b = AppendHash(append(b, `,"block_merkle_root":`...), &h.BlockMerkleRoot)
	b = appendUnless(append(b, `,"block_ordinal":`...), before(primitives.HeaderV3), func(b []byte) []byte { return appendUint(b, h.BlockOrdinal) })
	b = append(b, `,"challenges_result":[],"challenges_root":`+zeroHashText+`,"chunk_endorsements":`...)
	b = appendUnless(b, before(primitives.HeaderV5), func(b []byte) []byte {
		return appendList(b, h.ChunkEndorsements, func(b []byte, bits *[]byte) []byte { return AppendByteNumbers(b, *bits) })
	})
	if h.Version >= primitives.HeaderV8 {
		b = AppendHash(append(b, `,"chunk_execution_root":`...), &h.ChunkExecutionRoot)
	}
	b = AppendHash(append(b, `,"chunk_headers_root":`...), &h.ChunkHeadersRoot)
	b = appendList(append(b, `,"chunk_mask":`...), h.ChunkMask, func(b []byte, v *bool) []byte { return appendBool(b, *v) })
	b = AppendHash(append(b, `,"chunk_receipts_root":`...), &h.PrevChunkOutgoingReceiptsRoot)
	b = AppendHash(append(b, `,"chunk_tx_root":`...), &h.ChunkTxRoot)
	b = appendUint(append(b, `,"chunks_included":`...), chunksIncluded(h))
	b = AppendHash(append(b, `,"epoch_id":`...), &h.EpochID)
	b = append(b, `,"epoch_sync_data_hash":`...)
	b = appendUnless(b, h.EpochSyncDataHash == nil, func(b []byte) []byte { return AppendHash(b, h.EpochSyncDataHash) })
	b = AppendBalance(append(b, `,"gas_price":`...), h.NextGasPrice)
	b = AppendHash(append(b, `,"hash":`...), &hash)
	b = appendUint(append(b, `,"height":`...), h.Height)
	b = AppendHash(append(b, `,"last_ds_final_block":`...), &h.LastDSFinalBlock)
	b = AppendHash(append(b, `,"last_final_block":`...), &h.LastFinalBlock)
	b = appendUint(append(b, `,"latest_protocol_version":`...), h.LatestProtocolVersion)
	b = AppendHash(append(b, `,"next_bp_hash":`...), &h.NextBPHash)
	b = AppendHash(append(b, `,"next_epoch_id":`...), &h.NextEpochID)
	b = AppendHash(append(b, `,"outcome_root":`...), &h.PrevOutcomeRoot)
	b = AppendHash(append(b, `,"prev_hash":`...), &h.PrevHash)
	b = appendUnless(append(b, `,"prev_height":`...), before(primitives.HeaderV3), func(b []byte) []byte { return appendUint(b, h.PrevHeight) })
	if h.Version >= primitives.HeaderV7 {
		b = AppendHash(append(b, `,"prev_last_certified_block_epoch_id":`...), &h.CertifiedEpochID)
	}
	b = AppendHash(append(b, `,"prev_state_root":`...), &h.PrevStateRoot)
	b = AppendHash(append(b, `,"random_value":`...), &h.RandomValue)
	b = append(b, `,"rent_paid":"0","shard_split":`...)
	b = appendUnless(b, h.ShardSplit == nil, func(b []byte) []byte {
		b = appendUint(append(b, '['), h.ShardSplit.ShardID)
		return append(AppendAccountID(append(b, ','), h.ShardSplit.Boundary), ']')
	})
	b = AppendSignature(append(b, `,"signature":`...), h.Signature)
	if h.Version >= primitives.HeaderV7 {
		b = appendList(append(b, `,"spice_chunk_endorsement_stats":`...), h.EndorsementStats, func(b []byte, s *primitives.EndorsementStats) []byte {
			return append(appendUint(append(appendUint(append(b, `{"expected":`...), s.Expected), `,"produced":`...), s.Produced), '}')
		})
	}
	b = appendTimestamp(b, h.Timestamp)
	b = AppendBalance(append(b, `,"total_supply":`...), h.TotalSupply)
	b = AppendValidatorStakes(append(b, `,"validator_proposals":`...), h.PrevValidatorProposals)
	return append(b, `,"validator_reward":"0"}`...)
}

// appendUnless appends null if absent is set, else what the function one appends.
func appendUnless(b []byte, absent bool, one func([]byte) []byte) []byte {
	if absent {
		return append(b, "null"...)
	}
	return one(b)
}

// appendTimestamp appends both members of a time in ns.
func appendTimestamp(b []byte, ns uint64) []byte {
	b = appendUint(append(b, `,"timestamp":`...), ns)
	return appendUintString(append(b, `,"timestamp_nanosec":`...), ns)
}

// chunksIncluded counts the new chunks. V1 headers contain the number.
func chunksIncluded(h *primitives.BlockHeader) uint64 {
	if h.Version == primitives.HeaderV1 {
		return h.ChunksIncluded
	}
	n := uint64(0)
	for _, included := range h.ChunkMask {
		if included {
			n++
		}
	}
	return n
}

// AppendByteNumbers appends bytes as a list of numbers, as in call results and endorsement bits.
func AppendByteNumbers(b, raw []byte) []byte {
	return appendList(b, raw, func(b []byte, v *byte) []byte { return appendUint(b, uint16(*v)) })
}

// AppendValidatorStakes appends a list of ValidatorStakeView.
func AppendValidatorStakes(b []byte, vs []primitives.ValidatorStake) []byte {
	return appendList(b, vs, AppendValidatorStake)
}

// AppendValidatorStake appends ValidatorStakeView (nearcore validator_stake_view.rs).
func AppendValidatorStake(b []byte, v *primitives.ValidatorStake) []byte {
	b = AppendAccountID(append(b, `{"account_id":`...), v.AccountID)
	b = AppendKey(append(b, `,"public_key":`...), v.PublicKey)
	b = AppendBalance(append(b, `,"stake":`...), v.Stake)
	return append(b, `,"validator_stake_struct_version":"V1"}`...)
}
