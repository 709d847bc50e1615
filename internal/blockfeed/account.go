package blockfeed

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/view"
	"github.com/troupe-chain/troupe/storage/trie"
)

// Account is an account in the state after a block, as a feed reports it.
type Account struct {
	primitives.Account
	Proven bool // true: verified against the state root; false: only the feed's claim
}

// Proven returns the value of a key in the state with this root. strings are the trie nodes on the
// path to the key, and the value. A nil value means that the proof shows the key to be absent. An
// incomplete proof, or one that contradicts the root, is an error.
func Proven(root primitives.Hash, key []byte, strings [][]byte) ([]byte, error) {
	p, err := trie.NewPartial(strings, root)
	if err != nil {
		return nil, err
	}
	return p.Get(key, nil)
}

// proofForm is a node's reply: the proof, and the other fields of the account.
type proofForm struct {
	view.AccountMembers
	BlockHash primitives.Hash `json:"block_hash"`
	Proof     *[][]byte       `json:"proof"`
}

// Account requests an account after a block. root is the shard's state root after that block, from
// the header of the shard's next new chunk, which the caller has verified. A troupe sends a proof.
// A neard has proofs only for contract data, so its answer is not proven. If the reply has a proof,
// Account takes the values from the proof, and the fields beside the proof must agree with them.
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
		return nil, lie("the reply is for block %v, not for %v", told.BlockHash, block)
	}
	shown, err := told.Account()
	if err != nil {
		return nil, fmt.Errorf("%w: account %s: %w", blockdoc.ErrForm, id, err)
	}
	if told.Proof == nil {
		return &Account{Account: shown}, nil
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
	// the feed's account has no version, so compare without the version
	if shown.Version = out.Version; shown != out.Account {
		return nil, lie("it says otherwise than its proof")
	}
	return out, nil
}
