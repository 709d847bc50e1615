package conformance

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/troupe-chain/troupe/primitives"
)

// A light client as anybody could write it, of what the RPC replies: it has nothing of the node's but the values of package primitives.

// innerLite is the part of a header that a light client knows.
type innerLite struct {
	BlockMerkleRoot primitives.Hash    `json:"block_merkle_root"`
	EpochID         primitives.EpochID `json:"epoch_id"`
	Height          primitives.Height  `json:"height"`
	NextBPHash      primitives.Hash    `json:"next_bp_hash"`
	NextEpochID     primitives.EpochID `json:"next_epoch_id"`
	OutcomeRoot     primitives.Hash    `json:"outcome_root"`
	PrevStateRoot   primitives.Hash    `json:"prev_state_root"`
	Timestamp       json.RawMessage    `json:"timestamp"`
	TimestampNanos  string             `json:"timestamp_nanosec"` // of newer ones; older have a text in timestamp
}

// liteHeader is a header from which the block's hash follows.
type liteHeader struct {
	Inner         innerLite       `json:"inner_lite"`
	InnerRestHash primitives.Hash `json:"inner_rest_hash"`
	PrevBlockHash primitives.Hash `json:"prev_block_hash"`
}

// producer is a block producer with its stake.
type producer struct {
	AccountID primitives.AccountID `json:"account_id"`
	PublicKey primitives.PublicKey `json:"public_key"`
	Stake     primitives.Balance   `json:"stake"`
	Version   string               `json:"validator_stake_struct_version"`
}

// lightBlock is the reply of next_light_client_block.
type lightBlock struct {
	liteHeader
	Approvals          []*primitives.Signature `json:"approvals_after_next"`
	NextBlockInnerHash primitives.Hash         `json:"next_block_inner_hash"`
	NextBPs            []producer              `json:"next_bps"`
}

// lightClient follows a chain by its light client blocks.
type lightClient struct {
	head      liteHeader
	producers map[primitives.EpochID][]producer
}

func (h *liteHeader) hash() (primitives.Hash, error) {
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

func producersHash(ps []producer) (h primitives.Hash, err error) {
	var stakes []primitives.ValidatorStake
	for i := range ps {
		if ps[i].Version != "V1" {
			err = fmt.Errorf("a stake of version %q", ps[i].Version)
		}
		stakes = append(stakes, primitives.ValidatorStake{AccountID: ps[i].AccountID, PublicKey: ps[i].PublicKey, Stake: ps[i].Stake})
	}
	return primitives.BlockProducersHash(stakes), err
}

// advance takes a light client block if it is proven to be final (nearcore docs, NEP light client), else says why not.
func (c *lightClient) advance(reply []byte) error {
	var b lightBlock
	if err := json.Unmarshal(reply, &b); err != nil {
		return err
	}
	now, next := c.head.Inner.EpochID, c.head.Inner.NextEpochID
	epoch := b.Inner.EpochID
	switch {
	case b.Inner.Height <= c.head.Inner.Height:
		return fmt.Errorf("height %d is not above %d", b.Inner.Height, c.head.Inner.Height)
	case epoch != now && epoch != next:
		return fmt.Errorf("epoch %v is neither the head's nor the next", epoch)
	case epoch == next && epoch != now && b.NextBPs == nil:
		return errors.New("a new epoch without the producers of the next")
	}
	hash, err := b.hash()
	if err != nil {
		return err
	}
	after := primitives.ApprovalInner{Endorsement: primitives.CombineHash(b.NextBlockInnerHash, hash)}
	message := after.SignedBytes(b.Inner.Height + 2)
	var total, approved primitives.Balance
	for i, p := range c.producers[epoch] {
		total = total.SaturatingAdd(p.Stake)
		if i >= len(b.Approvals) || b.Approvals[i] == nil {
			continue
		}
		if !b.Approvals[i].Verify(message, p.PublicKey) {
			return fmt.Errorf("the approval of %s is not of this block", p.AccountID)
		}
		approved = approved.SaturatingAdd(p.Stake)
	}
	if !more(approved, total) {
		return fmt.Errorf("%v of %v have approved it", approved, total)
	}
	if b.NextBPs != nil {
		if h, err := producersHash(b.NextBPs); err != nil || h != b.Inner.NextBPHash {
			return fmt.Errorf("producers of the next epoch hash to %v, %v", h, err)
		}
		c.producers[b.Inner.NextEpochID] = b.NextBPs
	}
	c.head = b.liteHeader
	return nil
}

// more tells whether x is more than two thirds of all.
func more(x, all primitives.Balance) bool {
	three, fits1 := x.Mul64(3)
	two, fits2 := all.Mul64(2)
	return fits1 && fits2 && three.Cmp(two) > 0
}

// outcomeProof is the reply of light_client_proof.
type outcomeProof struct {
	Header  liteHeader            `json:"block_header_lite"`
	Block   primitives.MerklePath `json:"block_proof"`
	Outcome struct {
		BlockHash primitives.Hash       `json:"block_hash"`
		ID        primitives.Hash       `json:"id"`
		Proof     primitives.MerklePath `json:"proof"`
		Outcome   struct {
			ExecutorID  primitives.AccountID `json:"executor_id"`
			GasBurnt    primitives.Gas       `json:"gas_burnt"`
			Logs        []string             `json:"logs"`
			ReceiptIDs  []primitives.Hash    `json:"receipt_ids"`
			Status      json.RawMessage      `json:"status"`
			TokensBurnt primitives.Balance   `json:"tokens_burnt"`
		} `json:"outcome"`
	} `json:"outcome_proof"`
	Root primitives.MerklePath `json:"outcome_root_proof"`
}

// provenBlock verifies that a block is in the chain of a head by its merkle root, and returns its hash.
func provenBlock(root primitives.Hash, h *liteHeader, path primitives.MerklePath) (primitives.Hash, error) {
	hash, err := h.hash()
	if err == nil && !path.Verify(root, hash) {
		err = fmt.Errorf("block %v is not below %v", hash, root)
	}
	return hash, err
}

// provenOutcome verifies that an outcome is in the chain of a head.
func provenOutcome(root primitives.Hash, reply []byte, strict bool) (*outcomeProof, error) {
	p := new(outcomeProof)
	if err := json.Unmarshal(reply, p); err != nil {
		return nil, err
	}
	o := &p.Outcome.Outcome
	out := primitives.OutcomeWithID{ID: p.Outcome.ID, Outcome: primitives.Outcome{
		Logs: o.Logs, ReceiptIDs: o.ReceiptIDs, GasBurnt: o.GasBurnt, TokensBurnt: o.TokensBurnt, ExecutorID: o.ExecutorID,
	}}
	var status struct {
		SuccessValue     *[]byte
		SuccessReceiptID *primitives.Hash `json:"SuccessReceiptId"`
		Failure          json.RawMessage
	}
	if err := json.Unmarshal(o.Status, &status); err != nil {
		return nil, err
	}
	switch s := &out.Status; {
	case status.SuccessValue != nil:
		s.Kind, s.Value = primitives.StatusSuccessValue, *status.SuccessValue
	case status.SuccessReceiptID != nil:
		s.Kind, s.ReceiptID = primitives.StatusSuccessReceiptID, *status.SuccessReceiptID
	case status.Failure != nil:
		s.Kind = primitives.StatusFailure
	}
	chunk := p.Outcome.Proof.Root(out.LeafHash())
	if !p.Root.Verify(p.Header.Inner.OutcomeRoot, primitives.HashBytes(chunk[:])) {
		return nil, errors.New("the outcome is not in the block's root")
	}
	hash, err := provenBlock(root, &p.Header, p.Block)
	if err == nil && strict && hash != p.Outcome.BlockHash { // older nodes named the block that the outcome is of
		err = fmt.Errorf("the outcome is said to be of block %v", p.Outcome.BlockHash)
	}
	return p, err
}

// provenValue finds the value of a trie key by nodes below a state root; nil: it is proven that there is none.
func provenValue(root primitives.Hash, nodes []string, key, value []byte) ([]byte, error) {
	known := map[primitives.Hash][]byte{primitives.HashBytes(value): value}
	for _, text := range nodes {
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, err
		}
		known[primitives.HashBytes(raw)] = raw
	}
	var nibbles []byte
	for _, b := range key {
		nibbles = append(nibbles, b>>4, b&15)
	}
	for at := root; ; {
		n := known[at]
		if n == nil {
			return nil, fmt.Errorf("node %v is not in the proof", at)
		}
		kind, n := n[0], n[1:]
		var ref []byte // of the value: length, hash
		switch kind {
		case 0, 3: // leaf, extension: a piece of the key
			size := binary.LittleEndian.Uint32(n)
			piece, rest := n[4:4+size], n[4+size:]
			path := trieNibbles(piece)
			if !bytes.HasPrefix(nibbles, path) || kind == 0 && len(path) != len(nibbles) {
				return nil, nil
			}
			nibbles = nibbles[len(path):]
			if kind == 3 {
				at = primitives.Hash(rest[:32])
				continue
			}
			ref = rest[:36]
		case 1, 2: // branch, without and with a value
			if kind == 2 {
				ref, n = n[:36], n[36:]
			}
			if len(nibbles) > 0 {
				mask, children := binary.LittleEndian.Uint16(n), n[2:]
				if mask&(1<<nibbles[0]) == 0 {
					return nil, nil
				}
				for i := range nibbles[0] {
					if mask&(1<<i) != 0 {
						children = children[32:]
					}
				}
				at, nibbles = primitives.Hash(children[:32]), nibbles[1:]
				continue
			}
			if kind == 1 {
				return nil, nil
			}
		}
		v := known[primitives.Hash(ref[4:])]
		if v == nil || len(v) != int(binary.LittleEndian.Uint32(ref)) {
			return nil, errors.New("the value is another")
		}
		return v, nil
	}
}

// trieNibbles reads a piece of a key: a first byte that says whether their number is odd, with the first of them if it is.
func trieNibbles(piece []byte) (out []byte) {
	if piece[0]&0x10 != 0 {
		out = append(out, piece[0]&15)
	}
	for _, b := range piece[1:] {
		out = append(out, b>>4, b&15)
	}
	return out
}
