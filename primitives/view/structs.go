// Code generated from structs.txt by generate_test.go; DO NOT EDIT.

package view

import "github.com/troupe-chain/troupe/primitives"

// BlockHeader appends BlockHeaderView. Members that headers before V5 lack are null. The additions of
// V7 and V8 are shown in headers of these versions.
func (e *Encoder) BlockHeader(b []byte, h *primitives.BlockHeader) []byte {
	if e.order == StructOrder {
		b = appendUint(append(b, `{"height":`...), h.Height)
		if h.Version < primitives.HeaderV3 {
			b = append(b, `,"prev_height":null`...)
		} else {
			b = appendUint(append(b, `,"prev_height":`...), h.PrevHeight)
		}
		b = e.Hash(append(b, `,"epoch_id":`...), &h.EpochID)
		b = e.Hash(append(b, `,"next_epoch_id":`...), &h.NextEpochID)
		b = e.hashValue(append(b, `,"hash":`...), h.Hash())
		b = e.Hash(append(b, `,"prev_hash":`...), &h.PrevHash)
		b = e.Hash(append(b, `,"prev_state_root":`...), &h.PrevStateRoot)
		if h.Version < primitives.HeaderV4 {
			b = append(b, `,"block_body_hash":null`...)
		} else {
			b = e.Hash(append(b, `,"block_body_hash":`...), &h.BlockBodyHash)
		}
		b = e.Hash(append(b, `,"chunk_receipts_root":`...), &h.PrevChunkOutgoingReceiptsRoot)
		b = e.Hash(append(b, `,"chunk_headers_root":`...), &h.ChunkHeadersRoot)
		b = e.Hash(append(b, `,"chunk_tx_root":`...), &h.ChunkTxRoot)
		b = e.Hash(append(b, `,"outcome_root":`...), &h.PrevOutcomeRoot)
		b = appendUint(append(b, `,"chunks_included":`...), chunksIncluded(h))
		b = appendUint(append(b, `,"challenges_root":"11111111111111111111111111111111","timestamp":`...), h.Timestamp)
		b = appendUintString(append(b, `,"timestamp_nanosec":`...), h.Timestamp)
		b = e.Hash(append(b, `,"random_value":`...), &h.RandomValue)
		b = appendList(append(b, `,"validator_proposals":`...), h.PrevValidatorProposals, e.validatorStake)
		b = appendBools(append(b, `,"chunk_mask":`...), h.ChunkMask)
		b = AppendBalance(append(b, `,"gas_price":`...), h.NextGasPrice)
		if h.Version < primitives.HeaderV3 {
			b = append(b, `,"block_ordinal":null`...)
		} else {
			b = appendUint(append(b, `,"block_ordinal":`...), h.BlockOrdinal)
		}
		b = AppendBalance(append(b, `,"rent_paid":"0","validator_reward":"0","total_supply":`...), h.TotalSupply)
		b = e.Hash(append(b, `,"challenges_result":[],"last_final_block":`...), &h.LastFinalBlock)
		b = e.Hash(append(b, `,"last_ds_final_block":`...), &h.LastDSFinalBlock)
		b = e.Hash(append(b, `,"next_bp_hash":`...), &h.NextBPHash)
		b = e.Hash(append(b, `,"block_merkle_root":`...), &h.BlockMerkleRoot)
		if h.EpochSyncDataHash == nil {
			b = append(b, `,"epoch_sync_data_hash":null`...)
		} else {
			b = e.Hash(append(b, `,"epoch_sync_data_hash":`...), h.EpochSyncDataHash)
		}
		b = appendSignatures(append(b, `,"approvals":`...), h.Approvals)
		b = AppendSignature(append(b, `,"signature":`...), h.Signature)
		b = appendUint(append(b, `,"latest_protocol_version":`...), h.LatestProtocolVersion)
		if h.Version < primitives.HeaderV5 {
			b = append(b, `,"chunk_endorsements":null`...)
		} else {
			b = appendByteLists(append(b, `,"chunk_endorsements":`...), h.ChunkEndorsements)
		}
		if h.ShardSplit == nil {
			b = append(b, `,"shard_split":null`...)
		} else {
			b = appendShardSplit(append(b, `,"shard_split":`...), h.ShardSplit)
		}
		if h.Version >= primitives.HeaderV7 {
			b = e.Hash(append(b, `,"prev_last_certified_block_epoch_id":`...), &h.CertifiedEpochID)
			b = appendList(append(b, `,"spice_chunk_endorsement_stats":`...), h.EndorsementStats, e.endorsementStats)
		}
		if h.Version >= primitives.HeaderV8 {
			b = e.Hash(append(b, `,"chunk_execution_root":`...), &h.ChunkExecutionRoot)
		}
		return append(b, '}')
	}
	b = appendSignatures(append(b, `{"approvals":`...), h.Approvals)
	if h.Version < primitives.HeaderV4 {
		b = append(b, `,"block_body_hash":null`...)
	} else {
		b = e.Hash(append(b, `,"block_body_hash":`...), &h.BlockBodyHash)
	}
	b = e.Hash(append(b, `,"block_merkle_root":`...), &h.BlockMerkleRoot)
	if h.Version < primitives.HeaderV3 {
		b = append(b, `,"block_ordinal":null`...)
	} else {
		b = appendUint(append(b, `,"block_ordinal":`...), h.BlockOrdinal)
	}
	b = append(b, `,"challenges_result":[],"challenges_root":"11111111111111111111111111111111"`...)
	if h.Version < primitives.HeaderV5 {
		b = append(b, `,"chunk_endorsements":null`...)
	} else {
		b = appendByteLists(append(b, `,"chunk_endorsements":`...), h.ChunkEndorsements)
	}
	if h.Version >= primitives.HeaderV8 {
		b = e.Hash(append(b, `,"chunk_execution_root":`...), &h.ChunkExecutionRoot)
	}
	b = e.Hash(append(b, `,"chunk_headers_root":`...), &h.ChunkHeadersRoot)
	b = appendBools(append(b, `,"chunk_mask":`...), h.ChunkMask)
	b = e.Hash(append(b, `,"chunk_receipts_root":`...), &h.PrevChunkOutgoingReceiptsRoot)
	b = e.Hash(append(b, `,"chunk_tx_root":`...), &h.ChunkTxRoot)
	b = appendUint(append(b, `,"chunks_included":`...), chunksIncluded(h))
	b = e.Hash(append(b, `,"epoch_id":`...), &h.EpochID)
	if h.EpochSyncDataHash == nil {
		b = append(b, `,"epoch_sync_data_hash":null`...)
	} else {
		b = e.Hash(append(b, `,"epoch_sync_data_hash":`...), h.EpochSyncDataHash)
	}
	b = AppendBalance(append(b, `,"gas_price":`...), h.NextGasPrice)
	b = e.hashValue(append(b, `,"hash":`...), h.Hash())
	b = appendUint(append(b, `,"height":`...), h.Height)
	b = e.Hash(append(b, `,"last_ds_final_block":`...), &h.LastDSFinalBlock)
	b = e.Hash(append(b, `,"last_final_block":`...), &h.LastFinalBlock)
	b = appendUint(append(b, `,"latest_protocol_version":`...), h.LatestProtocolVersion)
	b = e.Hash(append(b, `,"next_bp_hash":`...), &h.NextBPHash)
	b = e.Hash(append(b, `,"next_epoch_id":`...), &h.NextEpochID)
	b = e.Hash(append(b, `,"outcome_root":`...), &h.PrevOutcomeRoot)
	b = e.Hash(append(b, `,"prev_hash":`...), &h.PrevHash)
	if h.Version < primitives.HeaderV3 {
		b = append(b, `,"prev_height":null`...)
	} else {
		b = appendUint(append(b, `,"prev_height":`...), h.PrevHeight)
	}
	if h.Version >= primitives.HeaderV7 {
		b = e.Hash(append(b, `,"prev_last_certified_block_epoch_id":`...), &h.CertifiedEpochID)
	}
	b = e.Hash(append(b, `,"prev_state_root":`...), &h.PrevStateRoot)
	b = e.Hash(append(b, `,"random_value":`...), &h.RandomValue)
	b = append(b, `,"rent_paid":"0"`...)
	if h.ShardSplit == nil {
		b = append(b, `,"shard_split":null`...)
	} else {
		b = appendShardSplit(append(b, `,"shard_split":`...), h.ShardSplit)
	}
	b = AppendSignature(append(b, `,"signature":`...), h.Signature)
	if h.Version >= primitives.HeaderV7 {
		b = appendList(append(b, `,"spice_chunk_endorsement_stats":`...), h.EndorsementStats, e.endorsementStats)
	}
	b = appendUint(append(b, `,"timestamp":`...), h.Timestamp)
	b = appendUintString(append(b, `,"timestamp_nanosec":`...), h.Timestamp)
	b = AppendBalance(append(b, `,"total_supply":`...), h.TotalSupply)
	b = appendList(append(b, `,"validator_proposals":`...), h.PrevValidatorProposals, e.validatorStake)
	return append(b, `,"validator_reward":"0"}`...)
}

// endorsementStats appends the struct of that name.
func (e *Encoder) endorsementStats(b []byte, s *primitives.EndorsementStats) []byte {
	if e.order == StructOrder {
		b = appendUint(append(b, `{"produced":`...), s.Produced)
		b = appendUint(append(b, `,"expected":`...), s.Expected)
		return append(b, '}')
	}
	b = appendUint(append(b, `{"expected":`...), s.Expected)
	b = appendUint(append(b, `,"produced":`...), s.Produced)
	return append(b, '}')
}

// validatorStake appends ValidatorStakeView (nearcore validator_stake_view.rs).
func (e *Encoder) validatorStake(b []byte, v *primitives.ValidatorStake) []byte {
	if e.order == StructOrder {
		b = AppendAccountID(append(b, `{"validator_stake_struct_version":"V1","account_id":`...), v.AccountID)
		b = e.key(append(b, `,"public_key":`...), v.PublicKey)
		b = AppendBalance(append(b, `,"stake":`...), v.Stake)
		return append(b, '}')
	}
	b = AppendAccountID(append(b, `{"account_id":`...), v.AccountID)
	b = e.key(append(b, `,"public_key":`...), v.PublicKey)
	b = AppendBalance(append(b, `,"stake":`...), v.Stake)
	return append(b, `,"validator_stake_struct_version":"V1"}`...)
}

// ChunkHeader appends ChunkHeaderView (nearcore views.rs:1093). In headers of versions without
// these fields, bandwidth_requests is null, proposed_split is missing, and congestion_info is all
// zeros.
func (e *Encoder) ChunkHeader(b []byte, h *primitives.ChunkHeader) []byte {
	if e.order == StructOrder {
		b = e.hashValue(append(b, `{"chunk_hash":`...), h.ChunkHash())
		b = e.Hash(append(b, `,"prev_block_hash":`...), &h.PrevBlockHash)
		b = e.Hash(append(b, `,"outcome_root":`...), &h.PrevOutcomeRoot)
		b = e.Hash(append(b, `,"prev_state_root":`...), &h.PrevStateRoot)
		b = e.Hash(append(b, `,"encoded_merkle_root":`...), &h.EncodedMerkleRoot)
		b = appendUint(append(b, `,"encoded_length":`...), h.EncodedLength)
		b = appendUint(append(b, `,"height_created":`...), h.HeightCreated)
		b = appendUint(append(b, `,"height_included":`...), h.HeightIncluded)
		b = appendUint(append(b, `,"shard_id":`...), h.ShardID)
		b = appendUint(append(b, `,"gas_used":`...), h.PrevGasUsed)
		b = appendUint(append(b, `,"gas_limit":`...), h.GasLimit)
		b = AppendBalance(append(b, `,"rent_paid":"0","validator_reward":"0","balance_burnt":`...), h.PrevBalanceBurnt)
		b = e.Hash(append(b, `,"outgoing_receipts_root":`...), &h.PrevOutgoingReceiptsRoot)
		b = e.Hash(append(b, `,"tx_root":`...), &h.TxRoot)
		b = appendList(append(b, `,"validator_proposals":`...), h.PrevValidatorProposals, e.validatorStake)
		b = e.congestionInfo(append(b, `,"congestion_info":`...), &h.CongestionInfo)
		if h.Version < primitives.ChunkInnerV4 {
			b = append(b, `,"bandwidth_requests":null`...)
		} else {
			b = e.bandwidthRequests(append(b, `,"bandwidth_requests":`...), h.BandwidthRequests)
		}
		if h.Version >= primitives.ChunkInnerV5 {
			b = e.trieSplit(append(b, `,"proposed_split":`...), h.ProposedSplit)
		}
		b = AppendSignature(append(b, `,"signature":`...), h.Signature)
		return append(b, '}')
	}
	b = AppendBalance(append(b, `{"balance_burnt":`...), h.PrevBalanceBurnt)
	if h.Version < primitives.ChunkInnerV4 {
		b = append(b, `,"bandwidth_requests":null`...)
	} else {
		b = e.bandwidthRequests(append(b, `,"bandwidth_requests":`...), h.BandwidthRequests)
	}
	b = e.hashValue(append(b, `,"chunk_hash":`...), h.ChunkHash())
	b = e.congestionInfo(append(b, `,"congestion_info":`...), &h.CongestionInfo)
	b = appendUint(append(b, `,"encoded_length":`...), h.EncodedLength)
	b = e.Hash(append(b, `,"encoded_merkle_root":`...), &h.EncodedMerkleRoot)
	b = appendUint(append(b, `,"gas_limit":`...), h.GasLimit)
	b = appendUint(append(b, `,"gas_used":`...), h.PrevGasUsed)
	b = appendUint(append(b, `,"height_created":`...), h.HeightCreated)
	b = appendUint(append(b, `,"height_included":`...), h.HeightIncluded)
	b = e.Hash(append(b, `,"outcome_root":`...), &h.PrevOutcomeRoot)
	b = e.Hash(append(b, `,"outgoing_receipts_root":`...), &h.PrevOutgoingReceiptsRoot)
	b = e.Hash(append(b, `,"prev_block_hash":`...), &h.PrevBlockHash)
	b = e.Hash(append(b, `,"prev_state_root":`...), &h.PrevStateRoot)
	if h.Version >= primitives.ChunkInnerV5 {
		b = e.trieSplit(append(b, `,"proposed_split":`...), h.ProposedSplit)
	}
	b = appendUint(append(b, `,"rent_paid":"0","shard_id":`...), h.ShardID)
	b = AppendSignature(append(b, `,"signature":`...), h.Signature)
	b = e.Hash(append(b, `,"tx_root":`...), &h.TxRoot)
	b = appendList(append(b, `,"validator_proposals":`...), h.PrevValidatorProposals, e.validatorStake)
	return append(b, `,"validator_reward":"0"}`...)
}

// congestionInfo appends the struct of that name.
func (e *Encoder) congestionInfo(b []byte, c *primitives.CongestionInfo) []byte {
	if e.order == StructOrder {
		b = AppendBalance(append(b, `{"delayed_receipts_gas":`...), c.DelayedReceiptsGas)
		b = AppendBalance(append(b, `,"buffered_receipts_gas":`...), c.BufferedReceiptsGas)
		b = appendUint(append(b, `,"receipt_bytes":`...), c.ReceiptBytes)
		b = appendUint(append(b, `,"allowed_shard":`...), c.AllowedShard)
		return append(b, '}')
	}
	b = appendUint(append(b, `{"allowed_shard":`...), c.AllowedShard)
	b = AppendBalance(append(b, `,"buffered_receipts_gas":`...), c.BufferedReceiptsGas)
	b = AppendBalance(append(b, `,"delayed_receipts_gas":`...), c.DelayedReceiptsGas)
	b = appendUint(append(b, `,"receipt_bytes":`...), c.ReceiptBytes)
	return append(b, '}')
}

// bandwidthRequest appends the struct of that name.
func (e *Encoder) bandwidthRequest(b []byte, r *primitives.BandwidthRequest) []byte {
	if e.order == StructOrder {
		b = appendUint(append(b, `{"to_shard":`...), r.ToShard)
		b = appendBitmap(append(b, `,"requested_values_bitmap":`...), r.Bitmap[:])
		return append(b, '}')
	}
	b = appendBitmap(append(b, `{"requested_values_bitmap":`...), r.Bitmap[:])
	b = appendUint(append(b, `,"to_shard":`...), r.ToShard)
	return append(b, '}')
}

// proposedSplit appends the struct of that name.
func (e *Encoder) proposedSplit(b []byte, s *primitives.TrieSplit) []byte {
	b = AppendAccountID(append(b, `{"boundary_account":`...), s.Boundary)
	b = appendUint(append(b, `,"left_memory":`...), s.LeftMemory)
	b = appendUint(append(b, `,"right_memory":`...), s.RightMemory)
	return append(b, '}')
}

// Transaction appends SignedTransactionView (nearcore views.rs:1698). nonce_index is only present if
// the transaction has a nonce index, nonce_mode only if the mode is strict.
func (e *Encoder) Transaction(b []byte, t *primitives.SignedTransaction) []byte {
	if e.order == StructOrder {
		b = AppendAccountID(append(b, `{"signer_id":`...), t.SignerID)
		b = e.key(append(b, `,"public_key":`...), t.PublicKey)
		b = appendUint(append(b, `,"nonce":`...), t.Nonce.Nonce)
		b = AppendAccountID(append(b, `,"receiver_id":`...), t.ReceiverID)
		b = e.Actions(append(b, `,"actions":`...), t.Actions)
		b = AppendSignature(append(b, `,"priority_fee":0,"signature":`...), t.Signature)
		b = e.hashValue(append(b, `,"hash":`...), t.Hash())
		if t.Nonce.HasIndex {
			b = appendUint(append(b, `,"nonce_index":`...), t.Nonce.Index)
		}
		if t.NonceMode == primitives.NonceStrict {
			b = append(b, `,"nonce_mode":"strict"`...)
		}
		return append(b, '}')
	}
	b = e.Actions(append(b, `{"actions":`...), t.Actions)
	b = e.hashValue(append(b, `,"hash":`...), t.Hash())
	b = appendUint(append(b, `,"nonce":`...), t.Nonce.Nonce)
	if t.Nonce.HasIndex {
		b = appendUint(append(b, `,"nonce_index":`...), t.Nonce.Index)
	}
	if t.NonceMode == primitives.NonceStrict {
		b = append(b, `,"nonce_mode":"strict"`...)
	}
	b = e.key(append(b, `,"priority_fee":0,"public_key":`...), t.PublicKey)
	b = AppendAccountID(append(b, `,"receiver_id":`...), t.ReceiverID)
	b = AppendSignature(append(b, `,"signature":`...), t.Signature)
	b = AppendAccountID(append(b, `,"signer_id":`...), t.SignerID)
	return append(b, '}')
}

// addKey appends the struct of that name.
func (e *Encoder) addKey(b []byte, a *primitives.AddKey) []byte {
	if e.order == StructOrder {
		b = e.key(append(b, `{"public_key":`...), a.PublicKey)
		b = e.accessKey(append(b, `,"access_key":`...), &a.AccessKey)
		return append(b, '}')
	}
	b = e.accessKey(append(b, `{"access_key":`...), &a.AccessKey)
	b = e.key(append(b, `,"public_key":`...), a.PublicKey)
	return append(b, '}')
}

// rawAddKey appends the struct of that name.
func (e *Encoder) rawAddKey(b []byte, a *primitives.AddKey) []byte {
	if e.order == StructOrder {
		b = e.key(append(b, `{"public_key":`...), a.PublicKey)
		b = e.rawAccessKey(append(b, `,"access_key":`...), &a.AccessKey)
		return append(b, '}')
	}
	b = e.rawAccessKey(append(b, `{"access_key":`...), &a.AccessKey)
	b = e.key(append(b, `,"public_key":`...), a.PublicKey)
	return append(b, '}')
}

// functionCall appends the struct of that name.
func (e *Encoder) functionCall(b []byte, a *primitives.FunctionCall) []byte {
	if e.order == StructOrder {
		b = AppendString(append(b, `{"method_name":`...), a.Method)
		b = AppendBase64(append(b, `,"args":`...), a.Args)
		b = appendUint(append(b, `,"gas":`...), a.Gas)
		b = AppendBalance(append(b, `,"deposit":`...), a.Deposit)
		return append(b, '}')
	}
	b = AppendBase64(append(b, `{"args":`...), a.Args)
	b = AppendBalance(append(b, `,"deposit":`...), a.Deposit)
	b = appendUint(append(b, `,"gas":`...), a.Gas)
	b = AppendString(append(b, `,"method_name":`...), a.Method)
	return append(b, '}')
}

// stake appends the struct of that name.
func (e *Encoder) stake(b []byte, a *primitives.Stake) []byte {
	if e.order == StructOrder {
		b = AppendBalance(append(b, `{"stake":`...), a.Stake)
		b = e.key(append(b, `,"public_key":`...), a.PublicKey)
		return append(b, '}')
	}
	b = e.key(append(b, `{"public_key":`...), a.PublicKey)
	b = AppendBalance(append(b, `,"stake":`...), a.Stake)
	return append(b, '}')
}

// transferToGasKey appends the struct of that name.
func (e *Encoder) transferToGasKey(b []byte, a *primitives.TransferToGasKey) []byte {
	if e.order == StructOrder {
		b = e.key(append(b, `{"public_key":`...), a.PublicKey)
		b = AppendBalance(append(b, `,"deposit":`...), a.Deposit)
		return append(b, '}')
	}
	b = AppendBalance(append(b, `{"deposit":`...), a.Deposit)
	b = e.key(append(b, `,"public_key":`...), a.PublicKey)
	return append(b, '}')
}

// withdrawFromGasKey appends the struct of that name.
func (e *Encoder) withdrawFromGasKey(b []byte, a *primitives.WithdrawFromGasKey) []byte {
	if e.order == StructOrder {
		b = e.key(append(b, `{"public_key":`...), a.PublicKey)
		b = AppendBalance(append(b, `,"amount":`...), a.Amount)
		return append(b, '}')
	}
	b = AppendBalance(append(b, `{"amount":`...), a.Amount)
	b = e.key(append(b, `,"public_key":`...), a.PublicKey)
	return append(b, '}')
}

// universalStateInit appends the struct of that name.
func (e *Encoder) universalStateInit(b []byte, a *primitives.UniversalStateInit) []byte {
	if e.order == StructOrder {
		b = AppendBase64(append(b, `{"state_init":`...), a.Init)
		b = AppendBalance(append(b, `,"deposit":`...), a.Deposit)
		return append(b, '}')
	}
	b = AppendBalance(append(b, `{"deposit":`...), a.Deposit)
	b = AppendBase64(append(b, `,"state_init":`...), a.Init)
	return append(b, '}')
}

// deterministicStateInit appends the struct of that name.
func (e *Encoder) deterministicStateInit(b []byte, a *primitives.DeterministicStateInit) []byte {
	b = appendIdentifier(append(b, `{"code":`...), &a.Init.Code)
	b = e.stateData(append(b, `,"data":`...), a.Init.Data)
	b = AppendBalance(append(b, `,"deposit":`...), a.Deposit)
	return append(b, '}')
}

// rawDeterministicStateInit appends the struct of that name.
func (e *Encoder) rawDeterministicStateInit(b []byte, a *primitives.DeterministicStateInit) []byte {
	if e.order == StructOrder {
		b = e.rawStateInit(append(b, `{"state_init":`...), &a.Init)
		b = AppendBalance(append(b, `,"deposit":`...), a.Deposit)
		return append(b, '}')
	}
	b = AppendBalance(append(b, `{"deposit":`...), a.Deposit)
	b = e.rawStateInit(append(b, `,"state_init":`...), &a.Init)
	return append(b, '}')
}

// delegateAction appends the struct of that name.
func (e *Encoder) delegateAction(b []byte, d *primitives.DelegateAction) []byte {
	if e.order == StructOrder {
		b = AppendAccountID(append(b, `{"sender_id":`...), d.SenderID)
		b = AppendAccountID(append(b, `,"receiver_id":`...), d.ReceiverID)
		b = e.rawActions(append(b, `,"actions":`...), d.Actions)
		b = appendUint(append(b, `,"nonce":`...), d.Nonce)
		b = appendUint(append(b, `,"max_block_height":`...), d.MaxBlockHeight)
		b = e.key(append(b, `,"public_key":`...), d.PublicKey)
		return append(b, '}')
	}
	b = e.rawActions(append(b, `{"actions":`...), d.Actions)
	b = appendUint(append(b, `,"max_block_height":`...), d.MaxBlockHeight)
	b = appendUint(append(b, `,"nonce":`...), d.Nonce)
	b = e.key(append(b, `,"public_key":`...), d.PublicKey)
	b = AppendAccountID(append(b, `,"receiver_id":`...), d.ReceiverID)
	b = AppendAccountID(append(b, `,"sender_id":`...), d.SenderID)
	return append(b, '}')
}

// delegateActionV2 appends the struct of that name.
func (e *Encoder) delegateActionV2(b []byte, d *primitives.DelegateActionV2) []byte {
	if e.order == StructOrder {
		b = AppendAccountID(append(b, `{"sender_id":`...), d.SenderID)
		b = AppendAccountID(append(b, `,"receiver_id":`...), d.ReceiverID)
		b = e.rawActions(append(b, `,"actions":`...), d.Actions)
		b = appendNonce(append(b, `,"nonce":`...), &d.Nonce)
		b = appendUint(append(b, `,"max_block_height":`...), d.MaxBlockHeight)
		b = e.key(append(b, `,"public_key":`...), d.PublicKey)
		return append(b, '}')
	}
	b = e.rawActions(append(b, `{"actions":`...), d.Actions)
	b = appendUint(append(b, `,"max_block_height":`...), d.MaxBlockHeight)
	b = appendNonce(append(b, `,"nonce":`...), &d.Nonce)
	b = e.key(append(b, `,"public_key":`...), d.PublicKey)
	b = AppendAccountID(append(b, `,"receiver_id":`...), d.ReceiverID)
	b = AppendAccountID(append(b, `,"sender_id":`...), d.SenderID)
	return append(b, '}')
}

// Receipt appends ReceiptView (nearcore views.rs:2335).
func (e *Encoder) Receipt(b []byte, r *primitives.Receipt) []byte {
	if e.order == StructOrder {
		b = AppendAccountID(append(b, `{"predecessor_id":`...), r.PredecessorID)
		b = AppendAccountID(append(b, `,"receiver_id":`...), r.ReceiverID)
		b = e.Hash(append(b, `,"receipt_id":`...), &r.ID)
		b = e.receiptBody(append(b, `,"receipt":`...), r.Body)
		return append(b, `,"priority":0}`...)
	}
	b = AppendAccountID(append(b, `{"predecessor_id":`...), r.PredecessorID)
	b = e.receiptBody(append(b, `,"priority":0,"receipt":`...), r.Body)
	b = e.Hash(append(b, `,"receipt_id":`...), &r.ID)
	b = AppendAccountID(append(b, `,"receiver_id":`...), r.ReceiverID)
	return append(b, '}')
}

// actionReceipt appends the struct of that name.
func (e *Encoder) actionReceipt(b []byte, a *primitives.ActionReceipt) []byte {
	if e.order == StructOrder {
		b = AppendAccountID(append(b, `{"signer_id":`...), a.SignerID)
		b = e.key(append(b, `,"signer_public_key":`...), a.SignerPublicKey)
		b = AppendBalance(append(b, `,"gas_price":`...), a.GasPrice)
		b = appendList(append(b, `,"output_data_receivers":`...), a.OutputDataReceivers, e.dataReceiver)
		b = e.hashes(append(b, `,"input_data_ids":`...), a.InputDataIDs)
		b = e.Actions(append(b, `,"actions":`...), a.Actions)
		b = appendBool(append(b, `,"is_promise_yield":`...), a.Yield)
		if a.RefundTo != "" {
			b = AppendAccountID(append(b, `,"refund_to":`...), a.RefundTo)
		}
		return append(b, '}')
	}
	b = e.Actions(append(b, `{"actions":`...), a.Actions)
	b = AppendBalance(append(b, `,"gas_price":`...), a.GasPrice)
	b = e.hashes(append(b, `,"input_data_ids":`...), a.InputDataIDs)
	b = appendBool(append(b, `,"is_promise_yield":`...), a.Yield)
	b = appendList(append(b, `,"output_data_receivers":`...), a.OutputDataReceivers, e.dataReceiver)
	if a.RefundTo != "" {
		b = AppendAccountID(append(b, `,"refund_to":`...), a.RefundTo)
	}
	b = AppendAccountID(append(b, `,"signer_id":`...), a.SignerID)
	b = e.key(append(b, `,"signer_public_key":`...), a.SignerPublicKey)
	return append(b, '}')
}

// dataReceiver appends the struct of that name.
func (e *Encoder) dataReceiver(b []byte, d *primitives.DataReceiver) []byte {
	b = e.Hash(append(b, `{"data_id":`...), &d.DataID)
	b = AppendAccountID(append(b, `,"receiver_id":`...), d.ReceiverID)
	return append(b, '}')
}

// dataReceipt appends the struct of that name.
func (e *Encoder) dataReceipt(b []byte, d *primitives.DataReceipt) []byte {
	if e.order == StructOrder {
		b = e.Hash(append(b, `{"data_id":`...), &d.DataID)
		if d.Data == nil {
			b = append(b, `,"data":null`...)
		} else {
			b = AppendBase64(append(b, `,"data":`...), d.Data)
		}
		b = appendBool(append(b, `,"is_promise_resume":`...), d.Resume)
		return append(b, '}')
	}
	if d.Data == nil {
		b = append(b, `{"data":null`...)
	} else {
		b = AppendBase64(append(b, `{"data":`...), d.Data)
	}
	b = e.Hash(append(b, `,"data_id":`...), &d.DataID)
	b = appendBool(append(b, `,"is_promise_resume":`...), d.Resume)
	return append(b, '}')
}

// globalContractDistribution appends the struct of that name.
func (e *Encoder) globalContractDistribution(b []byte, g *primitives.GlobalContractDistribution) []byte {
	if e.order == StructOrder {
		b = appendIdentifier(append(b, `{"id":`...), &g.ID)
		b = appendUint(append(b, `,"target_shard":`...), g.TargetShard)
		b = appendUints(append(b, `,"already_delivered_shards":`...), g.AlreadyDelivered)
		b = appendCodeHash(append(b, `,"code":`...), g.Code, g.CodeHash)
		if g.V2 {
			b = appendUint(append(b, `,"nonce":`...), g.Nonce)
		}
		return append(b, '}')
	}
	b = appendUints(append(b, `{"already_delivered_shards":`...), g.AlreadyDelivered)
	b = appendCodeHash(append(b, `,"code":`...), g.Code, g.CodeHash)
	b = appendIdentifier(append(b, `,"id":`...), &g.ID)
	if g.V2 {
		b = appendUint(append(b, `,"nonce":`...), g.Nonce)
	}
	b = appendUint(append(b, `,"target_shard":`...), g.TargetShard)
	return append(b, '}')
}

// OutcomeProof appends ExecutionOutcomeWithIdView.
func (e *Encoder) OutcomeProof(b []byte, o *OutcomeProof) []byte {
	if e.order == StructOrder {
		b = appendList(append(b, `{"proof":`...), o.Proof, e.merklePathItem)
		b = e.Hash(append(b, `,"block_hash":`...), &o.BlockHash)
		b = e.Hash(append(b, `,"id":`...), &o.ID)
		b = e.outcome(append(b, `,"outcome":`...), &o.Outcome)
		return append(b, '}')
	}
	b = e.Hash(append(b, `{"block_hash":`...), &o.BlockHash)
	b = e.Hash(append(b, `,"id":`...), &o.ID)
	b = e.outcome(append(b, `,"outcome":`...), &o.Outcome)
	b = appendList(append(b, `,"proof":`...), o.Proof, e.merklePathItem)
	return append(b, '}')
}

// merklePathItem appends the struct of that name.
func (e *Encoder) merklePathItem(b []byte, m *primitives.MerklePathItem) []byte {
	if e.order == StructOrder {
		b = e.Hash(append(b, `{"hash":`...), &m.Hash)
		b = appendDirection(append(b, `,"direction":`...), m.Direction)
		return append(b, '}')
	}
	b = appendDirection(append(b, `{"direction":`...), m.Direction)
	b = e.Hash(append(b, `,"hash":`...), &m.Hash)
	return append(b, '}')
}

// outcome appends ExecutionOutcomeView (nearcore views.rs:2019).
func (e *Encoder) outcome(b []byte, o *primitives.Outcome) []byte {
	if e.order == StructOrder {
		b = appendStrings(append(b, `{"logs":`...), o.Logs)
		b = e.hashes(append(b, `,"receipt_ids":`...), o.ReceiptIDs)
		b = appendUint(append(b, `,"gas_burnt":`...), o.GasBurnt)
		b = AppendBalance(append(b, `,"tokens_burnt":`...), o.TokensBurnt)
		b = AppendAccountID(append(b, `,"executor_id":`...), o.ExecutorID)
		b = e.status(append(b, `,"status":`...), &o.Status)
		b = e.metadata(append(b, `,"metadata":`...), &o.Metadata)
		return append(b, '}')
	}
	b = AppendAccountID(append(b, `{"executor_id":`...), o.ExecutorID)
	b = appendUint(append(b, `,"gas_burnt":`...), o.GasBurnt)
	b = appendStrings(append(b, `,"logs":`...), o.Logs)
	b = e.metadata(append(b, `,"metadata":`...), &o.Metadata)
	b = e.hashes(append(b, `,"receipt_ids":`...), o.ReceiptIDs)
	b = e.status(append(b, `,"status":`...), &o.Status)
	b = AppendBalance(append(b, `,"tokens_burnt":`...), o.TokensBurnt)
	return append(b, '}')
}

// metadata appends ExecutionMetadataView. An outcome without metadata has version 0, which is shown
// as version 1. Releases of nearcore before 2023 wrote version 1 with a profile: a profile that was read
// from their views is shown.
func (e *Encoder) metadata(b []byte, m *primitives.ExecutionMetadata) []byte {
	if e.order == StructOrder {
		b = appendUint(append(b, `{"version":`...), max(m.Version, 1))
		if m.Version < FirstProfileVersion && m.Profile == nil {
			b = append(b, `,"gas_profile":null`...)
		} else {
			b = appendList(append(b, `,"gas_profile":`...), m.Profile, e.costEntry)
		}
		if m.Version >= FirstContractsVersion {
			b = appendList(append(b, `,"contracts":`...), m.Contracts, e.contract)
		}
		return append(b, '}')
	}
	start := len(b)
	if m.Version >= FirstContractsVersion {
		b = appendList(append(b, `,"contracts":`...), m.Contracts, e.contract)
	}
	if m.Version < FirstProfileVersion && m.Profile == nil {
		b = append(b, `,"gas_profile":null`...)
	} else {
		b = appendList(append(b, `,"gas_profile":`...), m.Profile, e.costEntry)
	}
	b = appendUint(append(b, `,"version":`...), max(m.Version, 1))
	b[start] = '{'
	return append(b, '}')
}

// costEntry appends the struct of that name.
func (e *Encoder) costEntry(b []byte, c *primitives.CostEntry) []byte {
	if e.order == StructOrder {
		b = AppendString(append(b, `{"cost_category":`...), c.Category)
		b = AppendString(append(b, `,"cost":`...), c.Cost)
		b = appendUintString(append(b, `,"gas_used":`...), c.Gas)
		return append(b, '}')
	}
	b = AppendString(append(b, `{"cost":`...), c.Cost)
	b = AppendString(append(b, `,"cost_category":`...), c.Category)
	b = appendUintString(append(b, `,"gas_used":`...), c.Gas)
	return append(b, '}')
}

// Change appends StateChangeWithCauseView.
func (e *Encoder) Change(b []byte, c *Change) []byte {
	if e.order == StructOrder {
		b = e.cause(append(b, `{"cause":`...), &c.Cause)
		b = appendChangeType(append(b, `,"type":`...), c)
		b = e.changed(append(b, `,"change":`...), c)
		return append(b, '}')
	}
	b = e.cause(append(b, `{"cause":`...), &c.Cause)
	b = e.changed(append(b, `,"change":`...), c)
	b = appendChangeType(append(b, `,"type":`...), c)
	return append(b, '}')
}

// cause appends StateChangeCauseView.
func (e *Encoder) cause(b []byte, c *primitives.StateChangeCause) []byte {
	if e.order == StructOrder {
		b = AppendString(append(b, `{"type":`...), causeNames[c.Kind])
		if c.Kind == primitives.CauseTransactionProcessing {
			b = e.Hash(append(b, `,"tx_hash":`...), &c.Hash)
		}
		if c.HasHash() && c.Kind != primitives.CauseTransactionProcessing {
			b = e.Hash(append(b, `,"receipt_hash":`...), &c.Hash)
		}
		return append(b, '}')
	}
	start := len(b)
	if c.HasHash() && c.Kind != primitives.CauseTransactionProcessing {
		b = e.Hash(append(b, `,"receipt_hash":`...), &c.Hash)
	}
	if c.Kind == primitives.CauseTransactionProcessing {
		b = e.Hash(append(b, `,"tx_hash":`...), &c.Hash)
	}
	b = AppendString(append(b, `,"type":`...), causeNames[c.Kind])
	b[start] = '{'
	return append(b, '}')
}

// codeChange appends the struct of that name.
func (e *Encoder) codeChange(b []byte, c *Change) []byte {
	b = AppendAccountID(append(b, `{"account_id":`...), c.AccountID)
	if !c.Deletion {
		b = AppendBase64(append(b, `,"code_base64":`...), c.Value)
	}
	return append(b, '}')
}

// accessKeyChange appends the struct of that name.
func (e *Encoder) accessKeyChange(b []byte, c *Change) []byte {
	if e.order == StructOrder {
		b = AppendAccountID(append(b, `{"account_id":`...), c.AccountID)
		b = e.handle(append(b, `,"public_key":`...), c.Handle)
		if !c.Deletion {
			b = e.accessKey(append(b, `,"access_key":`...), &c.AccessKey)
		}
		return append(b, '}')
	}
	start := len(b)
	if !c.Deletion {
		b = e.accessKey(append(b, `,"access_key":`...), &c.AccessKey)
	}
	b = AppendAccountID(append(b, `,"account_id":`...), c.AccountID)
	b = e.handle(append(b, `,"public_key":`...), c.Handle)
	b[start] = '{'
	return append(b, '}')
}

// gasKeyNonceChange appends the struct of that name.
func (e *Encoder) gasKeyNonceChange(b []byte, c *Change) []byte {
	if e.order == StructOrder {
		b = AppendAccountID(append(b, `{"account_id":`...), c.AccountID)
		b = e.handle(append(b, `,"public_key":`...), c.Handle)
		b = appendUint(append(b, `,"index":`...), c.Index)
		b = appendUint(append(b, `,"nonce":`...), c.Nonce)
		return append(b, '}')
	}
	b = AppendAccountID(append(b, `{"account_id":`...), c.AccountID)
	b = appendUint(append(b, `,"index":`...), c.Index)
	b = appendUint(append(b, `,"nonce":`...), c.Nonce)
	b = e.handle(append(b, `,"public_key":`...), c.Handle)
	return append(b, '}')
}

// dataChange appends the struct of that name.
func (e *Encoder) dataChange(b []byte, c *Change) []byte {
	b = AppendAccountID(append(b, `{"account_id":`...), c.AccountID)
	b = AppendBase64(append(b, `,"key_base64":`...), c.Key)
	if !c.Deletion {
		b = AppendBase64(append(b, `,"value_base64":`...), c.Value)
	}
	return append(b, '}')
}

// account appends AccountView (nearcore views.rs:76) with the account's id, if that is not empty, and
// the block whose state it is from, if that is not nil.
func (e *Encoder) account(b []byte, a *primitives.Account, id primitives.AccountID, at *At) []byte {
	if e.order == StructOrder {
		start := len(b)
		if id != "" {
			b = AppendAccountID(append(b, `,"account_id":`...), id)
		}
		b = AppendBalance(append(b, `,"amount":`...), a.Amount)
		b = AppendBalance(append(b, `,"locked":`...), a.Locked)
		b = e.hashValue(append(b, `,"code_hash":`...), a.LocalCodeHash())
		b = appendUint(append(b, `,"storage_usage":`...), a.StorageUsage)
		b = append(b, `,"storage_paid_at":0`...)
		if hasContract(a, primitives.ContractGlobalHash) {
			b = e.Hash(append(b, `,"global_contract_hash":`...), &a.Contract.Hash)
		}
		if hasContract(a, primitives.ContractGlobalAccount) {
			b = AppendAccountID(append(b, `,"global_contract_account_id":`...), a.Contract.Account)
		}
		if !a.IsInitialized() {
			b = append(b, `,"state":"uninitialized"`...)
			b = appendUint(append(b, `,"bootstrap_nonce":`...), a.BootstrapNonce)
		}
		if at != nil {
			b = e.Hash(append(b, `,"block_hash":`...), &at.Hash)
			b = appendUint(append(b, `,"block_height":`...), at.Height)
		}
		b[start] = '{'
		return append(b, '}')
	}
	start := len(b)
	if id != "" {
		b = AppendAccountID(append(b, `,"account_id":`...), id)
	}
	b = AppendBalance(append(b, `,"amount":`...), a.Amount)
	if at != nil {
		b = e.Hash(append(b, `,"block_hash":`...), &at.Hash)
		b = appendUint(append(b, `,"block_height":`...), at.Height)
	}
	if !a.IsInitialized() {
		b = appendUint(append(b, `,"bootstrap_nonce":`...), a.BootstrapNonce)
	}
	b = e.hashValue(append(b, `,"code_hash":`...), a.LocalCodeHash())
	if hasContract(a, primitives.ContractGlobalAccount) {
		b = AppendAccountID(append(b, `,"global_contract_account_id":`...), a.Contract.Account)
	}
	if hasContract(a, primitives.ContractGlobalHash) {
		b = e.Hash(append(b, `,"global_contract_hash":`...), &a.Contract.Hash)
	}
	b = AppendBalance(append(b, `,"locked":`...), a.Locked)
	if !a.IsInitialized() {
		b = append(b, `,"state":"uninitialized"`...)
	}
	b = appendUint(append(b, `,"storage_paid_at":0,"storage_usage":`...), a.StorageUsage)
	b[start] = '{'
	return append(b, '}')
}

// accessKey appends AccessKeyView.
func (e *Encoder) accessKey(b []byte, k *primitives.AccessKey) []byte {
	b = appendUint(append(b, `{"nonce":`...), k.Nonce)
	b = e.permission(append(b, `,"permission":`...), k)
	return append(b, '}')
}

// rawAccessKey appends a key in inner actions of delegates: like the view, but a gas key limited to
// calls is a pair.
func (e *Encoder) rawAccessKey(b []byte, k *primitives.AccessKey) []byte {
	b = appendUint(append(b, `{"nonce":`...), k.Nonce)
	b = e.rawPermission(append(b, `,"permission":`...), k)
	return append(b, '}')
}

// gasKeyInfo appends the struct of that name.
func (e *Encoder) gasKeyInfo(b []byte, g *primitives.GasKeyInfo) []byte {
	b = AppendBalance(append(b, `{"balance":`...), g.Balance)
	b = appendUint(append(b, `,"num_nonces":`...), g.NumNonces)
	return append(b, '}')
}

// callPermission appends the struct of that name.
func (e *Encoder) callPermission(b []byte, p *primitives.FunctionCallPermission) []byte {
	if e.order == StructOrder {
		if p.Allowance == nil {
			b = append(b, `{"allowance":null`...)
		} else {
			b = AppendBalance(append(b, `{"allowance":`...), *p.Allowance)
		}
		b = AppendString(append(b, `,"receiver_id":`...), p.ReceiverID)
		b = appendStrings(append(b, `,"method_names":`...), p.MethodNames)
		return append(b, '}')
	}
	if p.Allowance == nil {
		b = append(b, `{"allowance":null`...)
	} else {
		b = AppendBalance(append(b, `{"allowance":`...), *p.Allowance)
	}
	b = appendStrings(append(b, `,"method_names":`...), p.MethodNames)
	b = AppendString(append(b, `,"receiver_id":`...), p.ReceiverID)
	return append(b, '}')
}

// gasKeyCallPermission appends the members of gasKeyInfo and then those of callPermission.
func (e *Encoder) gasKeyCallPermission(b []byte, g *primitives.GasKeyInfo, p *primitives.FunctionCallPermission) []byte {
	if e.order == StructOrder {
		b = AppendBalance(append(b, `{"balance":`...), g.Balance)
		b = appendUint(append(b, `,"num_nonces":`...), g.NumNonces)
		if p.Allowance == nil {
			b = append(b, `,"allowance":null`...)
		} else {
			b = AppendBalance(append(b, `,"allowance":`...), *p.Allowance)
		}
		b = AppendString(append(b, `,"receiver_id":`...), p.ReceiverID)
		b = appendStrings(append(b, `,"method_names":`...), p.MethodNames)
		return append(b, '}')
	}
	if p.Allowance == nil {
		b = append(b, `{"allowance":null`...)
	} else {
		b = AppendBalance(append(b, `{"allowance":`...), *p.Allowance)
	}
	b = AppendBalance(append(b, `,"balance":`...), g.Balance)
	b = appendStrings(append(b, `,"method_names":`...), p.MethodNames)
	b = appendUint(append(b, `,"num_nonces":`...), g.NumNonces)
	b = AppendString(append(b, `,"receiver_id":`...), p.ReceiverID)
	return append(b, '}')
}

// queryAccessKey appends AccessKeyView with the block whose state it is from.
func (e *Encoder) queryAccessKey(b []byte, k *primitives.AccessKey, at *At) []byte {
	if e.order == StructOrder {
		b = appendUint(append(b, `{"nonce":`...), k.Nonce)
		b = e.permission(append(b, `,"permission":`...), k)
		b = appendUint(append(b, `,"block_height":`...), at.Height)
		b = e.Hash(append(b, `,"block_hash":`...), &at.Hash)
		return append(b, '}')
	}
	b = e.Hash(append(b, `{"block_hash":`...), &at.Hash)
	b = appendUint(append(b, `,"block_height":`...), at.Height)
	b = appendUint(append(b, `,"nonce":`...), k.Nonce)
	b = e.permission(append(b, `,"permission":`...), k)
	return append(b, '}')
}
