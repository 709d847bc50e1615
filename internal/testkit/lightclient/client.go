// Package lightclient is a light client for RPC replies that is independent of the node's code. It
// shares only package primitives with the node.
//
//	in      replies of next_light_client_block and of light client proofs; a value of view_state
//	        with its proof
//	out     whether what the client already knows proves them
//	state   Client: a header, and the block producers of the epochs seen so far
//	units   stake in yoctoNEAR, height in blocks
//	bound   one reply at a time; each proof is read once
//	errors  which part of a reply is not proven, and why
//	source  nearcore docs, NEP light client
package lightclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// Inner is the part of a header that a light client gets in full.
type Inner struct {
	BlockMerkleRoot primitives.Hash    `json:"block_merkle_root"`
	EpochID         primitives.EpochID `json:"epoch_id"`
	Height          primitives.Height  `json:"height"`
	NextBPHash      primitives.Hash    `json:"next_bp_hash"`
	NextEpochID     primitives.EpochID `json:"next_epoch_id"`
	OutcomeRoot     primitives.Hash    `json:"outcome_root"`
	PrevStateRoot   primitives.Hash    `json:"prev_state_root"`
	Timestamp       json.RawMessage    `json:"timestamp"`
	// time in ns as text; empty in old replies, whose Timestamp is a text
	TimestampNanos string `json:"timestamp_nanosec"`
}

// Header is the part of a block header from which a light client computes the block's hash.
type Header struct {
	Inner         Inner           `json:"inner_lite"`
	InnerRestHash primitives.Hash `json:"inner_rest_hash"`
	PrevBlockHash primitives.Hash `json:"prev_block_hash"`
}

// Producer is a block producer with its stake.
type Producer struct {
	AccountID primitives.AccountID `json:"account_id"`
	PublicKey primitives.PublicKey `json:"public_key"`
	Stake     primitives.Balance   `json:"stake"`
	Version   string               `json:"validator_stake_struct_version"`
}

// Block is the reply of next_light_client_block.
type Block struct {
	Header
	Approvals          []*primitives.Signature `json:"approvals_after_next"`
	NextBlockInnerHash primitives.Hash         `json:"next_block_inner_hash"`
	NextBPs            []Producer              `json:"next_bps"`
}

// Client follows a chain through light client blocks.
type Client struct {
	Head      Header
	Producers map[primitives.EpochID][]Producer
}

// Hash returns the hash of the block.
func (h *Header) Hash() (primitives.Hash, error) {
	text := h.Inner.TimestampNanos
	if text == "" {
		text = string(bytes.Trim(h.Inner.Timestamp, `"`))
	}
	nanos, err := strconv.ParseUint(text, 10, 64)
	i := &h.Inner
	inner := primitives.HashBorsh(&primitives.BlockHeaderInnerLite{
		Height: i.Height, EpochID: i.EpochID, NextEpochID: i.NextEpochID, PrevStateRoot: i.PrevStateRoot, PrevOutcomeRoot: i.OutcomeRoot,
		Timestamp: nanos, NextBPHash: i.NextBPHash, BlockMerkleRoot: i.BlockMerkleRoot,
	})
	return primitives.CombineHash(primitives.CombineHash(inner, h.InnerRestHash), h.PrevBlockHash), err
}

func producersHash(ps []Producer) (h primitives.Hash, err error) {
	var stakes []primitives.ValidatorStake
	for i := range ps {
		if ps[i].Version != "V1" {
			err = fmt.Errorf("validator stake %d has version %q, want V1", i, ps[i].Version)
		}
		stakes = append(stakes, primitives.ValidatorStake{AccountID: ps[i].AccountID, PublicKey: ps[i].PublicKey, Stake: ps[i].Stake})
	}
	return primitives.BlockProducersHash(stakes), err
}

// Advance makes a light client block the head if the reply proves that the block is final (nearcore
// docs, NEP light client). Otherwise the error says what is not proven.
func (c *Client) Advance(reply []byte) error {
	var b Block
	if err := json.Unmarshal(reply, &b); err != nil {
		return err
	}
	now, next := c.Head.Inner.EpochID, c.Head.Inner.NextEpochID
	epoch := b.Inner.EpochID
	switch {
	case b.Inner.Height <= c.Head.Inner.Height:
		return fmt.Errorf("light client block: height %d is not above the head's %d", b.Inner.Height, c.Head.Inner.Height)
	case epoch != now && epoch != next:
		return fmt.Errorf("light client block: epoch %v is neither the head's nor the one after", epoch)
	case epoch == next && epoch != now && b.NextBPs == nil:
		return fmt.Errorf("light client block: it is in the new epoch %v, but next_bps is missing", epoch)
	}
	hash, err := b.Hash()
	if err != nil {
		return err
	}
	after := primitives.ApprovalInner{Endorsement: primitives.CombineHash(b.NextBlockInnerHash, hash)}
	message := after.SignedBytes(b.Inner.Height + 2)
	var total, approved primitives.Balance
	for i, p := range c.Producers[epoch] {
		total = total.SaturatingAdd(p.Stake)
		if i >= len(b.Approvals) || b.Approvals[i] == nil {
			continue
		}
		if !b.Approvals[i].Verify(message, p.PublicKey) {
			return fmt.Errorf("light client block: the approval signature of %s does not verify", p.AccountID)
		}
		approved = approved.SaturatingAdd(p.Stake)
	}
	if !more(approved, total) {
		return fmt.Errorf("light client block: approvals have stake %v of %v, not more than two thirds", approved, total)
	}
	if b.NextBPs != nil {
		h, err := producersHash(b.NextBPs)
		if err != nil {
			return fmt.Errorf("light client block: next_bps: %w", err)
		}
		if h != b.Inner.NextBPHash {
			return fmt.Errorf("light client block: next_bps hash to %v, but next_bp_hash is %v", h, b.Inner.NextBPHash)
		}
		c.Producers[b.Inner.NextEpochID] = b.NextBPs
	}
	c.Head = b.Header
	return nil
}

// more returns whether x is more than two thirds of the total stake all.
func more(x, all primitives.Balance) bool {
	three, fits1 := x.Mul64(3)
	two, fits2 := all.Mul64(2)
	return fits1 && fits2 && three.Cmp(two) > 0
}
