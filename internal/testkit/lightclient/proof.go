package lightclient

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// OutcomeProof is the reply of light_client_proof.
type OutcomeProof struct {
	Header  Header                `json:"block_header_lite"`
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

// ProvenBlock verifies that a block is under root, the block Merkle root of a head, and returns the
// block's hash.
func ProvenBlock(root primitives.Hash, h *Header, path primitives.MerklePath) (primitives.Hash, error) {
	hash, err := h.Hash()
	if err == nil && !path.Verify(root, hash) {
		err = fmt.Errorf("block %v is not under block Merkle root %v: its path does not verify", hash, root)
	}
	return hash, err
}

// ProvenOutcome verifies that an outcome is in the chain of a head. root is the head's block Merkle
// root. strict requires that the reply names the block that proves the outcome, as current nodes
// do.
func ProvenOutcome(root primitives.Hash, reply []byte, strict bool) (*OutcomeProof, error) {
	p := new(OutcomeProof)
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
		return nil, fmt.Errorf("outcome %v is not under outcome root %v of its block: its path does not verify",
			p.Outcome.ID, p.Header.Inner.OutcomeRoot)
	}
	hash, err := ProvenBlock(root, &p.Header, p.Block)
	if err == nil && strict && hash != p.Outcome.BlockHash { // older nodes name the block that contains the outcome
		err = fmt.Errorf("outcome %v: the reply names block %v, but the proof is of block %v", p.Outcome.ID, p.Outcome.BlockHash, hash)
	}
	return p, err
}

// ProvenValue looks up the value of a trie key in the given nodes below a state root. Nil: the
// nodes prove that the key has no value.
func ProvenValue(root primitives.Hash, nodes []string, key, value []byte) ([]byte, error) {
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
			return nil, fmt.Errorf("trie node %v is not in the proof", at)
		}
		kind, n := n[0], n[1:]
		var ref []byte // reference to the value: length in bytes, hash
		switch kind {
		case 0, 3: // leaf or extension: a piece of the key
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
		case 1, 2: // branch without and with a value
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
			return nil, fmt.Errorf("the value does not match the hash and length in its trie node: %x", ref)
		}
		return v, nil
	}
}

// trieNibbles decodes a piece of a key in hex-prefix encoding. The first byte says whether the
// number of nibbles is odd. If so, it also contains the first nibble.
func trieNibbles(piece []byte) (out []byte) {
	if piece[0]&0x10 != 0 {
		out = append(out, piece[0]&15)
	}
	for _, b := range piece[1:] {
		out = append(out, b>>4, b&15)
	}
	return out
}
