package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/genesis"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/state"
)

// ErrDeal means that the balance of a fungible token cannot be set.
var ErrDeal = errors.New("engine: the token balance cannot be set")

// dealGas is the gas limit of one ft_balance_of call.
const dealGas primitives.Gas = 100_000_000_000_000

// maxDealKeys is the number of storage values that Deal tries. Deal calls ft_balance_of once for
// each value.
const maxDealKeys = 64

// Deal finds the storage value of a NEP-141 token contract that contains an account's balance. The
// candidates are the values that ft_balance_of reads on the head's state. Deal replaces one
// candidate at a time by amount, until ft_balance_of returns amount. Deal returns that candidate's
// key with amount as a record, and does not change the state. Errors: ErrDeal; ctx's error. Safe
// for concurrent use.
func (e *Engine) Deal(
	ctx context.Context,
	token, account primitives.AccountID,
	amount primitives.Balance,
) (*genesis.DataRecord, error) {
	at, err := e.StateUntil(ctx.Err, e.Head().Hash)
	if err != nil {
		return nil, err
	}
	defer at.Release()
	i, err := at.Layout.Index(at.Layout.ShardOf(token))
	if err != nil {
		return nil, err
	}
	read := &readKeys{Trie: at.Trie(i), of: primitives.AppendContractDataKey(nil, token, nil)}
	if _, err := e.balanceOf(ctx, at, i, read, token, account); err != nil {
		return nil, err
	}
	if len(read.keys) > maxDealKeys {
		return nil, fmt.Errorf("%w: ft_balance_of of %s reads more than %d storage values, too many to test which one is the balance",
			ErrDeal, token, maxDealKeys)
	}
	value := amount.AppendBorsh(nil)
	for _, key := range slices.Backward(read.keys) {
		changed := overBase(
			&historicalTrie{base: e.valuesOf(ctx.Err, at.BlockNode, i), over: []state.Change{{Key: key, Value: value}}},
			e.o.Base,
		)
		got, err := e.balanceOf(ctx, at, i, changed, token, account)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err == nil && got == amount {
			return &genesis.DataRecord{AccountID: token, Key: key[len(read.of):], Value: value}, nil
		}
	}
	return nil, fmt.Errorf(
		"%w: none of the %d storage values that ft_balance_of of %s reads for %s is the balance as a 16-byte "+
			"number; patch the contract's storage instead",
		ErrDeal,
		len(read.keys),
		token,
		account,
	)
}

// balanceOf returns the result of ft_balance_of. The call runs on t as the state of shard i.
func (e *Engine) balanceOf(
	ctx context.Context,
	at *State,
	i primitives.ShardIndex,
	t state.Trie,
	token, account primitives.AccountID,
) (sum primitives.Balance, err error) {
	on := &State{BlockNode: at.BlockNode, historical: make([]state.Trie, len(at.Shards))}
	on.historical[i] = t
	args, err := json.Marshal(map[string]string{"account_id": string(account)})
	if err != nil {
		return sum, err
	}
	out, found, err := e.CallView(
		on,
		&action.View{Account: token, Method: "ft_balance_of", Args: args, Gas: dealGas, Interrupt: ctx.Err},
	)
	switch {
	case err != nil:
		return sum, err
	case !found:
		return sum, fmt.Errorf("%w: the token's account %s does not exist", ErrDeal, token)
	case out.Err != nil:
		return sum, fmt.Errorf("%w: calling ft_balance_of of %s failed: %v", ErrDeal, token, failure(&out))
	}
	var text string
	if err := json.Unmarshal(out.Return.Value, &text); err == nil {
		sum, err = primitives.ParseBalance(text)
		if err == nil {
			return sum, nil
		}
	}
	return sum, fmt.Errorf("%w: ft_balance_of of %s did not return a decimal balance", ErrDeal, token)
}

// failure returns the reason of a failed call: the VM's own error if there is one, otherwise the
// error in the outcome.
func failure(out *action.CallOutcome) error {
	if out.Cause != nil {
		return out.Cause
	}
	return out.Err
}

// readKeys is a trie that records which data keys of one account are read. A readKeys stops
// recording after maxDealKeys+1 keys.
type readKeys struct {
	state.Trie
	of   []byte   // prefix of the account's data keys
	keys [][]byte // keys that were read, in the order of their first read
}

func (r *readKeys) note(key []byte) {
	if len(r.keys) <= maxDealKeys && len(key) >= len(r.of) && string(key[:len(r.of)]) == string(r.of) &&
		!slices.ContainsFunc(r.keys, func(k []byte) bool { return string(k) == string(key) }) {
		r.keys = append(r.keys, slices.Clone(key))
	}
}

// Get implements state.Trie.
func (r *readKeys) Get(key []byte, rec state.Recording) ([]byte, error) {
	r.note(key)
	return r.Trie.Get(key, rec)
}

// Lookup implements state.Trie.
func (r *readKeys) Lookup(key []byte, rec state.Recording) (state.ValueRef, bool, error) {
	r.note(key)
	return r.Trie.Lookup(key, rec)
}

// Path implements state.Trie.
func (r *readKeys) Path(
	key []byte,
	rec state.Recording,
	path []state.Visit,
) ([]state.Visit, state.ValueRef, bool, error) {
	r.note(key)
	return r.Trie.Path(key, rec, path)
}
