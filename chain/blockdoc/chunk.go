package blockdoc

import (
	"encoding/json"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// chunkForm is a layout of the chunk header: a version of the inner part, or, before
// ShardChunkHeaderV3, a version of the whole header. The layout determines what is hashed to the
// chunk's hash.
type chunkForm int

const (
	chunkBare     chunkForm = iota // ShardChunkHeaderV1: the hash covers only the inner part
	chunkCombined                  // V2: the hash also covers the root of the encoded parts
	chunkInner1                    // ShardChunkHeaderV3 from here on; the tag of the inner part is form - chunkInner1
	chunkInner2                    // adds: versioned validator proposals
	chunkInner3                    // adds: congestion info
	chunkInner4                    // adds: bandwidth requests
	chunkInner5                    // adds: proposed split
)

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
func (c *chunkHeaderJSON) header() (*primitives.ChunkHeader, chunkForm, error) {
	h := &primitives.ChunkHeader{HeightIncluded: c.HeightIncluded, Signature: c.Signature}
	h.ChunkHeaderInner = primitives.ChunkHeaderInner{
		Version: primitives.ChunkInnerV5, PrevBlockHash: c.PrevBlockHash, PrevStateRoot: c.PrevStateRoot, PrevOutcomeRoot: c.OutcomeRoot,
		EncodedMerkleRoot: c.EncodedMerkleRoot, EncodedLength: c.EncodedLength, HeightCreated: c.HeightCreated, ShardID: c.ShardID,
		PrevGasUsed: c.GasUsed, GasLimit: c.GasLimit, PrevBalanceBurnt: c.BalanceBurnt, PrevOutgoingReceiptsRoot: c.OutgoingReceiptsRoot,
		TxRoot: c.TxRoot, PrevValidatorProposals: stakesOf(c.Proposals),
		CongestionInfo: primitives.CongestionInfo{DelayedReceiptsGas: c.CongestionInfo.Delayed, BufferedReceiptsGas: c.CongestionInfo.Buffered,
			ReceiptBytes: c.CongestionInfo.Bytes, AllowedShard: c.CongestionInfo.AllowedShard},
	}
	for _, r := range c.BandwidthRequests.V1.Requests {
		q := primitives.BandwidthRequest{ToShard: r.ToShard}
		if copy(q.Bitmap[:], r.Bitmap.Data) != len(q.Bitmap) || len(r.Bitmap.Data) != len(q.Bitmap) {
			return nil, 0, formf("a bandwidth request of %d bytes", len(r.Bitmap.Data))
		}
		h.BandwidthRequests = append(h.BandwidthRequests, q)
	}
	if s := c.ProposedSplit; s != nil {
		h.ProposedSplit = &primitives.TrieSplit{Boundary: s.Boundary, LeftMemory: s.Left, RightMemory: s.Right}
	}
	for form := chunkInner5; form >= chunkBare; form-- {
		if hashChunk(h, form) == c.ChunkHash {
			// The hash does not cover fields that this layout lacks, so clear them.
			if form < chunkInner5 {
				h.ProposedSplit = nil
			}
			if form < chunkInner4 {
				h.BandwidthRequests = nil
			}
			if form < chunkInner3 {
				h.CongestionInfo = primitives.CongestionInfo{}
			}
			return h, form, nil
		}
	}
	return nil, 0, mismatchf("chunk_hash", "no known layout gives the chunk of shard %d the hash %v", c.ShardID, c.ChunkHash)
}

// hashChunk returns the chunk hash in a layout. It sets h.Version to the layout's version, or to V4
// if package primitives does not support the layout.
func hashChunk(h *primitives.ChunkHeader, form chunkForm) primitives.Hash {
	switch form {
	case chunkInner5:
		h.Version = primitives.ChunkInnerV5
		return h.ChunkHash()
	case chunkInner4:
		h.Version = primitives.ChunkInnerV4
		return h.ChunkHash()
	}
	h.Version = primitives.ChunkInnerV4
	inner := primitives.HashBytes(appendOldInner(nil, &h.ChunkHeaderInner, form))
	if form == chunkBare {
		return inner
	}
	return primitives.CombineHash(inner, h.EncodedMerkleRoot)
}

// appendOldInner appends the inner part in a layout without bandwidth requests (nearcore
// core/primitives/src/sharding/shard_chunk_header_inner.rs).
func appendOldInner(b []byte, h *primitives.ChunkHeaderInner, form chunkForm) []byte {
	if form >= chunkInner1 {
		b = append(b, byte(form-chunkInner1))
	}
	for _, x := range [...]*primitives.Hash{&h.PrevBlockHash, &h.PrevStateRoot, &h.PrevOutcomeRoot, &h.EncodedMerkleRoot} {
		b = append(b, x[:]...)
	}
	for _, v := range [...]uint64{h.EncodedLength, uint64(h.HeightCreated), uint64(h.ShardID), uint64(h.PrevGasUsed), uint64(h.GasLimit)} {
		b = borsh.AppendUint64(b, v)
	}
	b = h.PrevBalanceBurnt.AppendBorsh(b)
	b = append(append(b, h.PrevOutgoingReceiptsRoot[:]...), h.TxRoot[:]...)
	if form < chunkInner2 {
		return borsh.AppendSlice(b, h.PrevValidatorProposals, func(b []byte, v *primitives.ValidatorStake) []byte { return v.AppendUntagged(b) })
	}
	b = primitives.AppendValidatorStakes(b, h.PrevValidatorProposals)
	if form >= chunkInner3 {
		b = h.CongestionInfo.AppendBorsh(b)
	}
	return b
}

// parse decodes JSON into a value. Errors: ErrForm.
func parse(in []byte, into any) error {
	if err := json.Unmarshal(in, into); err != nil {
		return formf("%v", err)
	}
	return nil
}
