package blockdoc

import (
	"encoding/json"

	"github.com/troupe-chain/troupe/primitives"
)

type chunkLayout struct {
	inner primitives.ChunkInnerVersion
	form  primitives.ChunkForm
}

// chunkLayouts are the layouts of the chunk header, the newest first. The layout determines what is
// hashed to the chunk's hash.
var chunkLayouts = [...]chunkLayout{
	{primitives.ChunkInnerV5, 0},
	{primitives.ChunkInnerV4, 0},
	{primitives.ChunkInnerV3, 0},
	{primitives.ChunkInnerV2, 0},
	{primitives.ChunkInnerV1, primitives.ChunkFormV3},
	{primitives.ChunkInnerV1, primitives.ChunkFormV2},
	{primitives.ChunkInnerV1, primitives.ChunkFormV1},
}

// chunkHeaderJSON is nearcore's ChunkHeaderView.
type chunkHeaderJSON struct {
	BalanceBurnt      primitives.Balance `json:"balance_burnt"`
	BandwidthRequests struct {
		V1 struct {
			Requests []struct {
				Bitmap struct {
					Data byteNumbers `json:"data"`
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

// header decodes the view. It finds the header's layout by trying which layout leads to the hash in
// the view.
func (c *chunkHeaderJSON) header() (*primitives.ChunkHeader, error) {
	h := &primitives.ChunkHeader{HeightIncluded: c.HeightIncluded, Signature: c.Signature}
	h.ChunkHeaderInner = primitives.ChunkHeaderInner{
		PrevBlockHash: c.PrevBlockHash, PrevStateRoot: c.PrevStateRoot, PrevOutcomeRoot: c.OutcomeRoot,
		EncodedMerkleRoot: c.EncodedMerkleRoot, EncodedLength: c.EncodedLength, HeightCreated: c.HeightCreated, ShardID: c.ShardID,
		PrevGasUsed: c.GasUsed, GasLimit: c.GasLimit, PrevBalanceBurnt: c.BalanceBurnt, PrevOutgoingReceiptsRoot: c.OutgoingReceiptsRoot,
		TxRoot: c.TxRoot, PrevValidatorProposals: stakesOf(c.Proposals),
		CongestionInfo: primitives.CongestionInfo{DelayedReceiptsGas: c.CongestionInfo.Delayed, BufferedReceiptsGas: c.CongestionInfo.Buffered,
			ReceiptBytes: c.CongestionInfo.Bytes, AllowedShard: c.CongestionInfo.AllowedShard},
	}
	for _, r := range c.BandwidthRequests.V1.Requests {
		q := primitives.BandwidthRequest{ToShard: r.ToShard}
		if copy(q.Bitmap[:], r.Bitmap.Data) != len(q.Bitmap) || len(r.Bitmap.Data) != len(q.Bitmap) {
			return nil, formf("a bandwidth request of %d bytes", len(r.Bitmap.Data))
		}
		h.BandwidthRequests = append(h.BandwidthRequests, q)
	}
	if s := c.ProposedSplit; s != nil {
		h.ProposedSplit = &primitives.TrieSplit{Boundary: s.Boundary, LeftMemory: s.Left, RightMemory: s.Right}
	}
	for _, l := range chunkLayouts {
		if h.Version, h.Form = l.inner, l.form; h.ChunkHash() == c.ChunkHash {
			// The hash does not cover fields that this layout lacks, so clear them.
			if h.Version < primitives.ChunkInnerV5 {
				h.ProposedSplit = nil
			}
			if h.Version < primitives.ChunkInnerV4 {
				h.BandwidthRequests = nil
			}
			if h.Version < primitives.ChunkInnerV3 {
				h.CongestionInfo = primitives.CongestionInfo{}
			}
			return h, nil
		}
	}
	return nil, mismatchf("chunk_hash", "no known layout gives the chunk of shard %d the hash %v", c.ShardID, c.ChunkHash)
}

// parse decodes JSON into a value. Errors: ErrForm.
func parse(in []byte, into any) error {
	if err := json.Unmarshal(in, into); err != nil {
		return formf("%v", err)
	}
	return nil
}
