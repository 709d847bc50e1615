package view

import "github.com/troupe-chain/troupe/primitives"

// AppendChunk appends ChunkView (nearcore views.rs:1289). Its receipts are the outgoing receipts of
// the shard's previous chunk.
func AppendChunk(b []byte, author primitives.AccountID, c *primitives.Chunk) []byte {
	b = AppendAccountID(append(b, `{"author":`...), author)
	b = AppendChunkHeader(append(b, `,"header":`...), &c.Header)
	b = AppendReceipts(append(b, `,"receipts":`...), c.PrevOutgoingReceipts)
	b = appendList(append(b, `,"transactions":`...), c.Transactions, func(b []byte, t **primitives.SignedTransaction) []byte {
		return AppendSignedTransaction(b, *t)
	})
	return append(b, '}')
}

// AppendChunkHeader appends ChunkHeaderView (nearcore views.rs:1093). In older headers
// bandwidth_requests is null, proposed_split is missing, and congestion_info is all zeros.
func AppendChunkHeader(b []byte, h *primitives.ChunkHeader) []byte {
	hash := h.ChunkHash()
	b = AppendBalance(append(b, `{"balance_burnt":`...), h.PrevBalanceBurnt)
	b = append(b, `,"bandwidth_requests":`...)
	b = appendUnless(b, h.Version < primitives.ChunkInnerV4, func(b []byte) []byte {
		b = appendList(append(b, `{"V1":{"requests":`...), h.BandwidthRequests, appendBandwidthRequest)
		return append(b, "}}"...)
	})
	b = AppendHash(append(b, `,"chunk_hash":`...), &hash)
	c := &h.CongestionInfo
	b = appendUint(append(b, `,"congestion_info":{"allowed_shard":`...), c.AllowedShard)
	b = AppendBalance(append(b, `,"buffered_receipts_gas":`...), c.BufferedReceiptsGas)
	b = AppendBalance(append(b, `,"delayed_receipts_gas":`...), c.DelayedReceiptsGas)
	b = appendUint(append(b, `,"receipt_bytes":`...), c.ReceiptBytes)
	b = appendUint(append(b, `},"encoded_length":`...), h.EncodedLength)
	b = AppendHash(append(b, `,"encoded_merkle_root":`...), &h.EncodedMerkleRoot)
	b = appendUint(append(b, `,"gas_limit":`...), h.GasLimit)
	b = appendUint(append(b, `,"gas_used":`...), h.PrevGasUsed)
	b = appendUint(append(b, `,"height_created":`...), h.HeightCreated)
	b = appendUint(append(b, `,"height_included":`...), h.HeightIncluded)
	b = AppendHash(append(b, `,"outcome_root":`...), &h.PrevOutcomeRoot)
	b = AppendHash(append(b, `,"outgoing_receipts_root":`...), &h.PrevOutgoingReceiptsRoot)
	b = AppendHash(append(b, `,"prev_block_hash":`...), &h.PrevBlockHash)
	b = AppendHash(append(b, `,"prev_state_root":`...), &h.PrevStateRoot)
	if h.Version >= primitives.ChunkInnerV5 {
		b = append(b, `,"proposed_split":`...)
		b = appendUnless(b, h.ProposedSplit == nil, func(b []byte) []byte {
			b = AppendAccountID(append(b, `{"boundary_account":`...), h.ProposedSplit.Boundary)
			b = appendUint(append(b, `,"left_memory":`...), h.ProposedSplit.LeftMemory)
			return append(appendUint(append(b, `,"right_memory":`...), h.ProposedSplit.RightMemory), '}')
		})
	}
	b = appendUint(append(b, `,"rent_paid":"0","shard_id":`...), h.ShardID)
	b = AppendSignature(append(b, `,"signature":`...), h.Signature)
	b = AppendHash(append(b, `,"tx_root":`...), &h.TxRoot)
	b = AppendValidatorStakes(append(b, `,"validator_proposals":`...), h.PrevValidatorProposals)
	return append(b, `,"validator_reward":"0"}`...)
}

func appendBandwidthRequest(b []byte, r *primitives.BandwidthRequest) []byte {
	b = AppendByteNumbers(append(b, `{"requested_values_bitmap":{"data":`...), r.Bitmap[:])
	return append(appendUint(append(b, `},"to_shard":`...), r.ToShard), '}')
}
