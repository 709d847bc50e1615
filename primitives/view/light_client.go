package view

import "github.com/troupe-chain/troupe/primitives"

// LightClientProof proves an outcome to a light client that knows the root of BlockProof
// (nearcore chain/jsonrpc-primitives/src/types/light_client.rs).
type LightClientProof struct {
	Outcome          OutcomeProof // the outcome with its proof; its BlockHash is the hash of the block before Header
	OutcomeRootProof primitives.MerklePath
	Header           primitives.LiteHeader // header of the block whose outcome root covers the outcome
	BlockProof       primitives.MerklePath // path from Header to the block Merkle root of the light client's head
}

// AppendLightClientProof appends the reply of light_client_proof.
func AppendLightClientProof(b []byte, p *LightClientProof) []byte {
	b = AppendLightClientBlockProof(b, &p.Header, p.BlockProof)
	// The closing brace is removed, so that more fields can follow.
	b = AppendOutcomeProof(append(b[:len(b)-1], `,"outcome_proof":`...), &p.Outcome)
	return append(AppendMerklePath(append(b, `,"outcome_root_proof":`...), p.OutcomeRootProof), '}')
}

// AppendLightClientBlockProof appends the reply of EXPERIMENTAL_light_client_block_proof.
func AppendLightClientBlockProof(b []byte, h *primitives.LiteHeader, path primitives.MerklePath) []byte {
	b = AppendLiteHeader(append(b, `{"block_header_lite":`...), h)
	return append(AppendMerklePath(append(b, `,"block_proof":`...), path), '}')
}

// AppendLiteHeader appends LightClientBlockLiteView.
func AppendLiteHeader(b []byte, h *primitives.LiteHeader) []byte {
	b = appendInnerLite(append(b, `{"inner_lite":`...), &h.InnerLite)
	b = AppendHash(append(b, `,"inner_rest_hash":`...), &h.InnerRestHash)
	return append(AppendHash(append(b, `,"prev_block_hash":`...), &h.PrevBlockHash), '}')
}

func appendInnerLite(b []byte, l *primitives.BlockHeaderInnerLite) []byte {
	b = AppendHash(append(b, `{"block_merkle_root":`...), &l.BlockMerkleRoot)
	b = AppendHash(append(b, `,"epoch_id":`...), &l.EpochID)
	b = appendUint(append(b, `,"height":`...), l.Height)
	b = AppendHash(append(b, `,"next_bp_hash":`...), &l.NextBPHash)
	b = AppendHash(append(b, `,"next_epoch_id":`...), &l.NextEpochID)
	b = AppendHash(append(b, `,"outcome_root":`...), &l.PrevOutcomeRoot)
	b = AppendHash(append(b, `,"prev_state_root":`...), &l.PrevStateRoot)
	return append(appendTimestamp(b, l.Timestamp), '}')
}

// AppendLightClientBlock appends LightClientBlockView (nearcore views.rs:2686).
func AppendLightClientBlock(b []byte, l *primitives.LightClientBlock) []byte {
	b = appendSignatures(append(b, `{"approvals_after_next":`...), l.ApprovalsAfterNext)
	b = appendInnerLite(append(b, `,"inner_lite":`...), &l.InnerLite)
	b = AppendHash(append(b, `,"inner_rest_hash":`...), &l.InnerRestHash)
	b = AppendHash(append(b, `,"next_block_inner_hash":`...), &l.NextBlockInnerHash)
	b = append(b, `,"next_bps":`...)
	b = appendUnless(b, l.NextBPs == nil, func(b []byte) []byte { return AppendValidatorStakes(b, l.NextBPs) })
	return append(AppendHash(append(b, `,"prev_block_hash":`...), &l.PrevBlockHash), '}')
}
