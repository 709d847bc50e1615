package view

import (
	"bytes"
	"errors"
	"fmt"
	"sort"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// ChangesKind is the kind of a changes request.
type ChangesKind byte

// The five requests, with the names of changes_type.
const (
	AccountChanges ChangesKind = iota
	SingleAccessKeyChanges
	AllAccessKeyChanges
	ContractCodeChanges
	DataChanges
)

// AccountKey is a key of an account.
type AccountKey struct {
	AccountID primitives.AccountID
	PublicKey primitives.PublicKey
}

// ChangesRequest selects changes of a block (nearcore StateChangesRequest).
type ChangesRequest struct {
	Kind     ChangesKind
	Accounts []primitives.AccountID // accounts; not for SingleAccessKeyChanges
	Keys     []AccountKey           // keys; only for SingleAccessKeyChanges
	Prefix   []byte                 // prefix of the keys; only for DataChanges
	// Max bounds the JSON of the changes in bytes. The size is estimated, and may be estimated too
	// low. 0: no bound. As in neard, the changes of an account that is named twice appear twice, so
	// a short request may have a very long reply.
	Max int
	// Size is set by Select: the estimated size of the changes as JSON, in bytes.
	Size int
}

// ErrTooLarge is the error of a request whose answer would exceed Max.
var ErrTooLarge = errors.New("the reply would be too large")

// maxStorageKey exceeds the length of a contract's keys in any protocol version, in bytes.
const maxStorageKey = 1 << 14

// minChange is a lower bound of the JSON of a change without its values.
const minChange = 64

// TrieKeys calls the function each for every range of trie keys that r selects, in the order of the
// reply. If exact is set, the range is key alone, otherwise all keys that begin with key.
func (r *ChangesRequest) TrieKeys(each func(key []byte, exact bool)) {
	for i := range r.Keys {
		each(primitives.AppendAccessKeyKey(nil, r.Keys[i].AccountID, r.Keys[i].PublicKey.Handle()), false)
	}
	if len(r.Prefix) > maxStorageKey { // no key has such a long prefix
		return
	}
	for _, a := range r.Accounts {
		switch r.Kind {
		case AccountChanges:
			each(primitives.AppendAccountKey(nil, a), true)
		case AllAccessKeyChanges:
			each(primitives.AppendAccessKeyPrefix(nil, a), false)
		case ContractCodeChanges:
			each(primitives.AppendCodeKey(nil, a), true)
		case DataChanges:
			each(primitives.AppendContractDataKey(nil, a, r.Prefix), false)
		}
	}
}

// Select returns the changes that r selects from block: all changes of a block, merged over its
// shards, by ascending key. Select fails with ErrTooLarge as soon as there are too many changes.
func (r *ChangesRequest) Select(block []primitives.KeyChanges) ([]Change, error) {
	var out []Change
	var failed error
	r.Size = 0
	r.TrieKeys(func(key []byte, exact bool) {
		if failed != nil {
			return
		}
		i := sort.Search(len(block), func(i int) bool { return bytes.Compare(block[i].Key, key) >= 0 })
		for ; i < len(block) && bytes.HasPrefix(block[i].Key, key) && !(exact && len(block[i].Key) > len(key)); i++ {
			before := len(out)
			if out, failed = AppendKeyChanges(out, &block[i]); failed != nil {
				return
			}
			for k := range out[before:] {
				c := &out[before+k]
				r.Size += minChange + (len(c.Key)+len(c.Value))/3*4
			}
			if r.Max > 0 && r.Size > r.Max {
				failed = ErrTooLarge
				return
			}
		}
	})
	return out, failed
}

// AppendKeyChanges decodes the writes to one key and appends them. It skips keys that do not
// belong to an account, and deletions of gas key nonces, which always accompany the deletion of
// the key.
func AppendKeyChanges(out []Change, k *primitives.KeyChanges) ([]Change, error) {
	key, err := primitives.ParseTrieKey(k.Key)
	if err != nil {
		return out, err
	}
	kind, ok := changeKind(&key)
	if !ok {
		return out, nil
	}
	for i := range k.Changes {
		c := Change{
			Cause: k.Changes[i].Cause, Kind: kind, AccountID: key.Account, Handle: key.Handle, Index: uint16(key.Index), Key: key.Data,
		}
		value := k.Changes[i].Value
		if c.Deletion = value == nil; c.Deletion && kind == GasKeyNonceChange {
			continue
		}
		switch {
		case c.Deletion:
		case kind == AccountChange:
			err = borsh.Unmarshal(value, &c.Account)
		case kind == AccessKeyChange:
			err = borsh.Unmarshal(value, &c.AccessKey)
		case kind == GasKeyNonceChange:
			r := borsh.NewReader(value)
			c.Nonce = primitives.Nonce(r.Uint64())
			err = r.Close()
		default:
			c.Value = value
		}
		if err != nil {
			return out, fmt.Errorf("view: decode a state change (%s) of account %s: %w", kind, key.Account, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// changeKind returns the kind of a key. It returns false for keys that do not belong to an account,
// and for keys that the RPC does not report.
func changeKind(k *primitives.TrieKey) (ChangeKind, bool) {
	switch k.Column {
	case primitives.ColAccount:
		return AccountChange, true
	case primitives.ColContractCode:
		return ContractCodeChange, true
	case primitives.ColAccessKey:
		if k.HasIndex {
			return GasKeyNonceChange, true
		}
		return AccessKeyChange, true
	case primitives.ColContractData:
		return DataChange, true
	}
	return 0, false
}

// Effects returns the effects of a block's changes, which are given as for Select.
func Effects(block []primitives.KeyChanges) ([]Effect, error) {
	var out []Effect
	for i := range block {
		key, err := primitives.ParseTrieKey(block[i].Key)
		if err != nil {
			return nil, err
		}
		if kind, ok := changeKind(&key); ok && kind != GasKeyNonceChange {
			out = append(out, Effect{kind, key.Account})
		}
	}
	return out, nil
}
