package view

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// The readers here decode recorded JSON to values, so that encoding them again can be compared with
// the recording, byte for byte.

type chunkHeaderJSON struct {
	BalanceBurnt      primitives.Balance `json:"balance_burnt"`
	BandwidthRequests struct {
		V1 struct {
			Requests []struct {
				Bitmap struct {
					Data []uint16 `json:"data"`
				} `json:"requested_values_bitmap"`
				ToShard uint16 `json:"to_shard"`
			} `json:"requests"`
		}
	} `json:"bandwidth_requests"`
	ChunkHash      primitives.Hash `json:"chunk_hash"`
	CongestionInfo struct {
		AllowedShard uint16             `json:"allowed_shard"`
		Buffered     primitives.Balance `json:"buffered_receipts_gas"`
		Delayed      primitives.Balance `json:"delayed_receipts_gas"`
		Bytes        uint64             `json:"receipt_bytes"`
	} `json:"congestion_info"`
	EncodedLength        uint64            `json:"encoded_length"`
	EncodedMerkleRoot    primitives.Hash   `json:"encoded_merkle_root"`
	GasLimit             primitives.Gas    `json:"gas_limit"`
	GasUsed              primitives.Gas    `json:"gas_used"`
	HeightCreated        primitives.Height `json:"height_created"`
	HeightIncluded       primitives.Height `json:"height_included"`
	OutcomeRoot          primitives.Hash   `json:"outcome_root"`
	OutgoingReceiptsRoot primitives.Hash   `json:"outgoing_receipts_root"`
	PrevBlockHash        primitives.Hash   `json:"prev_block_hash"`
	PrevStateRoot        primitives.Hash   `json:"prev_state_root"`
	ProposedSplit        *struct {
		Boundary primitives.AccountID `json:"boundary_account"`
		Left     uint64               `json:"left_memory"`
		Right    uint64               `json:"right_memory"`
	} `json:"proposed_split"`
	ShardID   primitives.ShardID   `json:"shard_id"`
	Signature primitives.Signature `json:"signature"`
	TxRoot    primitives.Hash      `json:"tx_root"`
	Proposals []stakeJSON          `json:"validator_proposals"`
}

type stakeJSON struct {
	AccountID primitives.AccountID `json:"account_id"`
	PublicKey primitives.PublicKey `json:"public_key"`
	Stake     primitives.Balance   `json:"stake"`
}

func stakes(in []stakeJSON) (out []primitives.ValidatorStake) {
	for _, s := range in {
		out = append(out, primitives.ValidatorStake(s))
	}
	return out
}

func (c *chunkHeaderJSON) value(t *testing.T) *primitives.ChunkHeader {
	return c.valueOf(t, primitives.ChunkInnerV5)
}

// valueOf is the header in a given version.
func (c *chunkHeaderJSON) valueOf(t *testing.T, version primitives.ChunkInnerVersion) *primitives.ChunkHeader {
	t.Helper()
	h := &primitives.ChunkHeader{HeightIncluded: c.HeightIncluded, Signature: c.Signature}
	h.ChunkHeaderInner = primitives.ChunkHeaderInner{
		Version: version, PrevBlockHash: c.PrevBlockHash, PrevStateRoot: c.PrevStateRoot,
		PrevOutcomeRoot: c.OutcomeRoot, EncodedMerkleRoot: c.EncodedMerkleRoot, EncodedLength: c.EncodedLength,
		HeightCreated: c.HeightCreated, ShardID: c.ShardID, PrevGasUsed: c.GasUsed, GasLimit: c.GasLimit,
		PrevBalanceBurnt: c.BalanceBurnt, PrevOutgoingReceiptsRoot: c.OutgoingReceiptsRoot, TxRoot: c.TxRoot,
		PrevValidatorProposals: stakes(c.Proposals),
		CongestionInfo: primitives.CongestionInfo{DelayedReceiptsGas: c.CongestionInfo.Delayed,
			BufferedReceiptsGas: c.CongestionInfo.Buffered, ReceiptBytes: c.CongestionInfo.Bytes, AllowedShard: c.CongestionInfo.AllowedShard},
	}
	for _, r := range c.BandwidthRequests.V1.Requests {
		q := primitives.BandwidthRequest{ToShard: r.ToShard}
		for i, v := range r.Bitmap.Data {
			q.Bitmap[i] = byte(v)
		}
		h.BandwidthRequests = append(h.BandwidthRequests, q)
	}
	if s := c.ProposedSplit; s != nil {
		h.ProposedSplit = &primitives.TrieSplit{Boundary: s.Boundary, LeftMemory: s.Left, RightMemory: s.Right}
	}
	if got := h.ChunkHash(); got != c.ChunkHash {
		t.Errorf("chunk hash = %v, want %v", got, c.ChunkHash)
	}
	return h
}

type blockJSON struct {
	Author primitives.AccountID `json:"author"`
	Chunks []chunkHeaderJSON    `json:"chunks"`
	Header struct {
		Approvals             []*primitives.Signature    `json:"approvals"`
		BlockBodyHash         primitives.Hash            `json:"block_body_hash"`
		BlockMerkleRoot       primitives.Hash            `json:"block_merkle_root"`
		BlockOrdinal          uint64                     `json:"block_ordinal"`
		ChunkEndorsements     [][]uint16                 `json:"chunk_endorsements"`
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
		PrevStateRoot         primitives.Hash            `json:"prev_state_root"`
		RandomValue           primitives.Hash            `json:"random_value"`
		ShardSplit            *[2]json.RawMessage        `json:"shard_split"`
		Signature             primitives.Signature       `json:"signature"`
		Timestamp             uint64                     `json:"timestamp"`
		TotalSupply           primitives.Balance         `json:"total_supply"`
		Proposals             []stakeJSON                `json:"validator_proposals"`
	} `json:"header"`
}

func (y *blockJSON) value(t *testing.T) *primitives.Block {
	return y.valueOf(t, primitives.HeaderV6, primitives.ChunkInnerV5)
}

// valueOf is the block with given versions of its header and its chunks'.
func (y *blockJSON) valueOf(t *testing.T, version primitives.HeaderVersion, chunks primitives.ChunkInnerVersion) *primitives.Block {
	t.Helper()
	j := &y.Header
	h := &primitives.BlockHeader{Version: version, PrevHash: j.PrevHash, Signature: j.Signature}
	h.BlockHeaderInnerLite = primitives.BlockHeaderInnerLite{Height: j.Height, EpochID: j.EpochID, NextEpochID: j.NextEpochID,
		PrevStateRoot: j.PrevStateRoot, PrevOutcomeRoot: j.OutcomeRoot, Timestamp: j.Timestamp, NextBPHash: j.NextBPHash,
		BlockMerkleRoot: j.BlockMerkleRoot}
	h.BlockHeaderInnerRest = primitives.BlockHeaderInnerRest{BlockBodyHash: j.BlockBodyHash,
		PrevChunkOutgoingReceiptsRoot: j.ChunkReceiptsRoot, ChunkHeadersRoot: j.ChunkHeadersRoot, ChunkTxRoot: j.ChunkTxRoot,
		RandomValue: j.RandomValue, PrevValidatorProposals: stakes(j.Proposals), ChunkMask: j.ChunkMask, NextGasPrice: j.GasPrice,
		TotalSupply: j.TotalSupply, LastFinalBlock: j.LastFinalBlock, LastDSFinalBlock: j.LastDSFinalBlock,
		BlockOrdinal: j.BlockOrdinal, PrevHeight: j.PrevHeight, EpochSyncDataHash: j.EpochSyncDataHash,
		LatestProtocolVersion: j.LatestProtocolVersion, ChunksIncluded: j.ChunksIncluded}
	for _, a := range j.Approvals {
		sig := primitives.Signature("")
		if a != nil {
			sig = *a
		}
		h.Approvals = append(h.Approvals, sig)
	}
	for _, e := range j.ChunkEndorsements {
		bits := make([]byte, len(e))
		for i, v := range e {
			bits[i] = byte(v)
		}
		h.ChunkEndorsements = append(h.ChunkEndorsements, bits)
	}
	if j.ShardSplit != nil {
		h.ShardSplit = new(primitives.ShardSplit)
		parse(t, j.ShardSplit[0], &h.ShardSplit.ShardID)
		parse(t, j.ShardSplit[1], &h.ShardSplit.Boundary)
	}
	block := &primitives.Block{Header: h.Init()}
	if h.Hash() != j.Hash {
		t.Errorf("hash of block %d = %v, want %v", j.Height, h.Hash(), j.Hash)
	}
	for i := range y.Chunks {
		block.Body.Chunks = append(block.Body.Chunks, y.Chunks[i].valueOf(t, chunks))
	}
	return block
}

type outcomeJSON struct {
	BlockHash primitives.Hash       `json:"block_hash"`
	ID        primitives.Hash       `json:"id"`
	Proof     primitives.MerklePath `json:"proof"`
	Outcome   struct {
		ExecutorID primitives.AccountID `json:"executor_id"`
		GasBurnt   primitives.Gas       `json:"gas_burnt"`
		Logs       []string             `json:"logs"`
		Metadata   struct {
			Contracts  []map[string]string `json:"contracts"`
			GasProfile []struct {
				Cost     string         `json:"cost"`
				Category string         `json:"cost_category"`
				GasUsed  primitives.Gas `json:"gas_used,string"`
			} `json:"gas_profile"`
			Version uint32 `json:"version"`
		} `json:"metadata"`
		ReceiptIDs  []primitives.Hash  `json:"receipt_ids"`
		Status      json.RawMessage    `json:"status"`
		TokensBurnt primitives.Balance `json:"tokens_burnt"`
	} `json:"outcome"`
}

func (j *outcomeJSON) value(t *testing.T) *OutcomeProof {
	o := &OutcomeProof{BlockHash: j.BlockHash, Proof: j.Proof}
	x := &j.Outcome
	o.OutcomeWithID = primitives.OutcomeWithID{ID: j.ID, Outcome: primitives.Outcome{Logs: x.Logs, ReceiptIDs: x.ReceiptIDs,
		GasBurnt: x.GasBurnt, TokensBurnt: x.TokensBurnt, ExecutorID: x.ExecutorID, Status: status(t, x.Status)}}
	o.Metadata.Version = x.Metadata.Version
	for _, p := range x.Metadata.GasProfile {
		o.Metadata.Profile = append(o.Metadata.Profile, primitives.CostEntry{Category: p.Category, Cost: p.Cost, Gas: p.GasUsed})
	}
	for _, c := range x.Metadata.Contracts {
		o.Metadata.Contracts = append(o.Metadata.Contracts, contract(t, c))
	}
	return o
}

func contract(t *testing.T, c map[string]string) (out primitives.AccountContract) {
	for k, v := range c {
		switch k {
		case "local":
			out = primitives.AccountContract{Kind: primitives.ContractLocal, Hash: hash(t, v)}
		case "global_hash":
			out = primitives.AccountContract{Kind: primitives.ContractGlobalHash, Hash: hash(t, v)}
		case "global_account_id":
			out = primitives.AccountContract{Kind: primitives.ContractGlobalAccount, Account: primitives.AccountID(v)}
		default:
			t.Errorf("contract of an unknown kind %s", k)
		}
	}
	return out
}

func status(t *testing.T, in json.RawMessage) (s primitives.ExecutionStatus) {
	if string(in) == `"Unknown"` {
		return s
	}
	var one map[string]json.RawMessage
	parse(t, in, &one)
	for k, v := range one {
		switch k {
		case "Failure":
			var e primitives.TxExecutionError
			parse(t, v, &e)
			s = primitives.ExecutionStatus{Kind: primitives.StatusFailure, Failure: e.AppendJSON(nil)}
		case "SuccessValue":
			s.Kind = primitives.StatusSuccessValue
			parse(t, v, &s.Value)
		case "SuccessReceiptId":
			s.Kind = primitives.StatusSuccessReceiptID
			parse(t, v, &s.ReceiptID)
		}
	}
	return s
}

func parse(t *testing.T, in []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(in, into); err != nil {
		t.Fatalf("%.100s: %v", in, err)
	}
}

func hash(t *testing.T, text string) primitives.Hash {
	t.Helper()
	h, err := primitives.ParseHash(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

type accessKeyJSON struct {
	Nonce      primitives.Nonce `json:"nonce"`
	Permission json.RawMessage  `json:"permission"`
}

func (k *accessKeyJSON) value(t *testing.T) (out primitives.AccessKey) {
	out.Nonce = k.Nonce
	if string(k.Permission) == `"FullAccess"` {
		return out
	}
	var one map[string]struct {
		Allowance   *primitives.Balance `json:"allowance"`
		ReceiverID  string              `json:"receiver_id"`
		MethodNames []string            `json:"method_names"`
		Balance     primitives.Balance  `json:"balance"`
		NumNonces   uint16              `json:"num_nonces"`
	}
	parse(t, k.Permission, &one)
	for kind, p := range one {
		if kind != "GasKeyFullAccess" {
			out.FunctionCall = &primitives.FunctionCallPermission{Allowance: p.Allowance, ReceiverID: p.ReceiverID, MethodNames: p.MethodNames}
		}
		if kind != "FunctionCall" {
			out.GasKey = &primitives.GasKeyInfo{Balance: p.Balance, NumNonces: p.NumNonces}
		}
	}
	return out
}

type changeJSON struct {
	Cause struct {
		Type        string           `json:"type"`
		TxHash      *primitives.Hash `json:"tx_hash"`
		ReceiptHash *primitives.Hash `json:"receipt_hash"`
	} `json:"cause"`
	Change struct {
		AccountID    primitives.AccountID       `json:"account_id"`
		Amount       primitives.Balance         `json:"amount"`
		Locked       primitives.Balance         `json:"locked"`
		CodeHash     primitives.Hash            `json:"code_hash"`
		GlobalHash   *primitives.Hash           `json:"global_contract_hash"`
		GlobalID     primitives.AccountID       `json:"global_contract_account_id"`
		StorageUsage uint64                     `json:"storage_usage"`
		PublicKey    primitives.PublicKeyHandle `json:"public_key"`
		AccessKey    accessKeyJSON              `json:"access_key"`
		Index        uint16                     `json:"index"`
		Nonce        primitives.Nonce           `json:"nonce"`
		Key          []byte                     `json:"key_base64"`
		Value        []byte                     `json:"value_base64"`
		Code         []byte                     `json:"code_base64"`
	} `json:"change"`
	Type string `json:"type"`
}

func (j *changeJSON) value(t *testing.T) *Change {
	x := &j.Change
	c := &Change{AccountID: x.AccountID, Handle: x.PublicKey, Index: x.Index, Nonce: x.Nonce, Key: x.Key, Value: x.Value}
	for i, name := range causeNames {
		if name == j.Cause.Type && i != 10 {
			c.Cause.Kind = primitives.CauseKind(i)
		}
	}
	for _, h := range []*primitives.Hash{j.Cause.TxHash, j.Cause.ReceiptHash} {
		if h != nil {
			c.Cause.Hash = *h
		}
	}
	switch j.Type {
	case "account_update", "account_deletion":
		c.Kind = AccountChange
		c.Account = primitives.Account{Amount: x.Amount, Locked: x.Locked, StorageUsage: x.StorageUsage}
		switch {
		case x.GlobalHash != nil:
			c.Account.Contract = primitives.AccountContract{Kind: primitives.ContractGlobalHash, Hash: *x.GlobalHash}
		case x.GlobalID != "":
			c.Account.Contract = primitives.AccountContract{Kind: primitives.ContractGlobalAccount, Account: x.GlobalID}
		case !x.CodeHash.IsZero():
			c.Account.Contract = primitives.AccountContract{Kind: primitives.ContractLocal, Hash: x.CodeHash}
		}
	case "access_key_update":
		c.Kind, c.AccessKey = AccessKeyChange, x.AccessKey.value(t)
	case "access_key_deletion":
		c.Kind = AccessKeyChange
	case "gas_key_nonce_update":
		c.Kind = GasKeyNonceChange
	case "data_update", "data_deletion":
		c.Kind = DataChange
	case "contract_code_update", "contract_code_deletion":
		c.Kind, c.Value = ContractCodeChange, x.Code
	default:
		t.Errorf("change of unknown type %s", j.Type)
	}
	c.Deletion = j.Type == c.Kind.String()+"_deletion"
	return c
}

func decodeTx(t *testing.T, text string) []byte {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// firstDifference returns an excerpt of two texts around the first difference.
func firstDifference(got, want []byte) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := max(i-60, 0)
	return fmt.Sprintf("at byte %d:\n got ...%s\nwant ...%s", i, got[from:min(i+100, len(got))], want[from:min(i+100, len(want))])
}
