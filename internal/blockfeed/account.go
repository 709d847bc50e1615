package blockfeed

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Account is what a feed says of an account in the state after a block.
type Account struct {
	primitives.Account
	Proven bool // by the state root; else nothing says that it is so
}

// Proven is the value under a key of a state with this root, by the nodes on the way to it and the
// value; nil: there is none, which is proven too. What contradicts the root, or lacks something, is
// an error.
func Proven(root primitives.Hash, key []byte, strings [][]byte) ([]byte, error) {
	p, err := trie.NewPartial(strings, root)
	if err != nil {
		return nil, err
	}
	return p.Get(key, nil)
}

// proofForm is what a node answers with: the proof beside whatever else it says of the account.
type proofForm struct {
	Amount    primitives.Balance `json:"amount"`
	Locked    primitives.Balance `json:"locked"`
	CodeHash  primitives.Hash    `json:"code_hash"`
	Usage     uint64             `json:"storage_usage"`
	BlockHash primitives.Hash    `json:"block_hash"`
	Proof     *[][]byte          `json:"proof"`
}

// Account asks for an account after a block. root is the shard's state root there, from the header
// of the shard's next new chunk, which the caller has verified. A troupe proves it; a neard has no
// proofs but of contract data, and what it says is not proven. What the proof says counts, and what
// stands beside it must be the same.
func (j *jsonRPC) Account(ctx context.Context, block, root primitives.Hash, id primitives.AccountID) (*Account, error) {
	text, err := j.call(ctx, "query", map[string]any{"request_type": "view_account", "account_id": id, "block_id": block, "include_proof": true})
	if err != nil {
		return nil, err
	}
	var told proofForm
	if err := json.Unmarshal(text, &told); err != nil {
		return nil, fmt.Errorf("%w: account %s: %w", blockdoc.ErrForm, id, err)
	}
	lie := func(format string, args ...any) error {
		return &blockdoc.MismatchError{Where: "query.view_account", Err: fmt.Errorf("%s: %w", id, fmt.Errorf(format, args...))}
	}
	if told.BlockHash != block {
		return nil, lie("of block %v, and %v was asked for", told.BlockHash, block)
	}
	if told.Proof == nil {
		out := &Account{Account: primitives.Account{Amount: told.Amount, Locked: told.Locked, StorageUsage: told.Usage}}
		if told.CodeHash != (primitives.Hash{}) {
			out.Contract = primitives.AccountContract{Kind: primitives.ContractLocal, Hash: told.CodeHash}
		}
		return out, nil
	}
	value, err := Proven(root, primitives.AppendAccountKey(nil, id), *told.Proof)
	if err != nil {
		return nil, lie("its proof: %w", err)
	}
	if value == nil {
		return nil, lie("its proof says that there is none")
	}
	out := &Account{Proven: true}
	if err := borsh.Unmarshal(value, &out.Account); err != nil {
		return nil, lie("its proof: %w", err)
	}
	if out.Amount != told.Amount || out.Locked != told.Locked || out.StorageUsage != told.Usage || out.LocalCodeHash() != told.CodeHash {
		return nil, lie("it says otherwise than its proof")
	}
	return out, nil
}
