package state

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/troupe-chain/troupe/primitives"
)

// Refusals of views. They are for the one who asked; other errors are the store's.
var (
	ErrNoAccount       = errors.New("account does not exist")
	ErrNoAccessKey     = errors.New("access key does not exist")
	ErrNoGasKey        = errors.New("gas key does not exist")
	ErrNoCode          = errors.New("no contract code")
	ErrStateTooLarge   = errors.New("state of the contract is too large to be viewed")
	ErrProofPaged      = errors.New("no proof of a page")
	ErrAfterNotInRange = errors.New("the key to go on after does not begin with the prefix")
)

// ViewAccount reads an account; ErrNoAccount.
func ViewAccount(t Trie, id primitives.AccountID) (*primitives.Account, error) {
	var buf [80]byte
	value, err := t.Get(primitives.AppendAccountKey(buf[:0], id), nil)
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, ErrNoAccount
	}
	a := new(primitives.Account)
	return a, decodeAccount(id, value, a)
}

// ViewAccessKey reads an access key; ErrNoAccessKey.
func ViewAccessKey(t Trie, id primitives.AccountID, h primitives.PublicKeyHandle) (*primitives.AccessKey, error) {
	var buf [160]byte
	value, err := t.Get(primitives.AppendAccessKeyKey(buf[:0], id, h), nil)
	if err != nil {
		return nil, err
	}
	if value == nil {
		return nil, ErrNoAccessKey
	}
	k := new(primitives.AccessKey)
	return k, decodeAccessKey(id, value, k)
}

// NamedKey is an access key with its id in the trie.
type NamedKey struct {
	Handle primitives.PublicKeyHandle
	Key    primitives.AccessKey
}

// ViewAccessKeys reads all access keys of an account, in the order of the trie; none if the account does not exist.
func ViewAccessKeys(t Trie, id primitives.AccountID) (keys []NamedKey, err error) {
	prefix := primitives.AppendAccessKeyPrefix(nil, id)
	scanErr := t.Scan(prefix, nil, nil, func(key, value []byte) bool {
		h, _, isNonce, e := primitives.AccessKeyRest(key, len(prefix))
		if e != nil {
			err = asInconsistent(e)
			return false
		}
		if isNonce {
			return true
		}
		k := NamedKey{Handle: h}
		if err = decodeAccessKey(id, value, &k.Key); err != nil {
			return false
		}
		keys = append(keys, k)
		return true
	})
	return keys, errors.Join(err, scanErr)
}

// ViewGasKeyNonces reads the nonces of a gas key by index; ErrNoGasKey, also if it is an ordinary key.
func ViewGasKeyNonces(t Trie, id primitives.AccountID, h primitives.PublicKeyHandle) ([]primitives.Nonce, error) {
	k, err := ViewAccessKey(t, id, h)
	if errors.Is(err, ErrNoAccessKey) || err == nil && k.GasKey == nil {
		return nil, ErrNoGasKey
	}
	if err != nil {
		return nil, err
	}
	nonces := make([]primitives.Nonce, k.GasKey.NumNonces)
	for i := range nonces {
		value, err := t.Get(primitives.AppendGasKeyNonceKey(nil, id, h, uint16(i)), nil)
		if err != nil {
			return nil, err
		}
		if len(value) != 8 {
			return nil, Inconsistent("gas key nonce at index %d does not exist for account %s", i, id)
		}
		nonces[i] = primitives.Nonce(binary.LittleEndian.Uint64(value))
	}
	return nonces, nil
}

// Limits of a page of ViewState, besides the caller's: items, and bytes of trie keys and values after which no further
// item is taken.
const (
	maxPageItems = 10_000
	maxPageBytes = 50_000
)

// StateQuery asks for the entries of a contract. With Limit or After set the answer is a page, and the size of the whole
// state does not matter.
type StateQuery struct {
	Account   primitives.AccountID
	Prefix    []byte
	After     []byte    // nil: from the start
	Limit     uint32    // 0: none
	SizeLimit uint64    // of the account's storage usage without code; 0: none
	Record    Recording // for a proof; nil: none
}

// StateItem is an entry of a contract.
type StateItem struct{ Key, Value []byte }

// StatePage is the answer: the entries, and the last key if there are more.
type StatePage struct {
	Items   []StateItem
	LastKey []byte
}

// ViewState reads a contract's entries (nearcore state_viewer/mod.rs view_state). ErrNoAccount, ErrStateTooLarge,
// ErrProofPaged, ErrAfterNotInRange. Keys and values are copies.
func ViewState(t Trie, q *StateQuery) (page StatePage, err error) {
	paged := q.Limit > 0 || q.After != nil
	if paged && q.Record != nil {
		return page, ErrProofPaged
	}
	if q.After != nil && !bytes.HasPrefix(q.After, q.Prefix) {
		return page, ErrAfterNotInRange
	}
	a, err := ViewAccount(t, q.Account)
	if err != nil {
		return page, err
	}
	if !paged && q.SizeLimit > 0 {
		code, _, err := t.Lookup(primitives.AppendCodeKey(nil, q.Account), nil)
		if err != nil {
			return page, err
		}
		if a.StorageUsage-min(a.StorageUsage, uint64(code.Len)) > q.SizeLimit {
			return page, ErrStateTooLarge
		}
	}
	prefix := primitives.AppendContractDataKey(nil, q.Account, q.Prefix)
	cut := len(prefix) - len(q.Prefix)
	var after []byte
	if q.After != nil {
		after = primitives.AppendContractDataKey(nil, q.Account, q.After)
	}
	most := maxPageItems
	if q.Limit > 0 {
		most = int(min(q.Limit, maxPageItems))
	}
	used := 0
	err = t.Scan(prefix, after, q.Record, func(key, value []byte) bool {
		if paged && (len(page.Items) >= most || used >= maxPageBytes) {
			page.LastKey = page.Items[len(page.Items)-1].Key
			return false
		}
		used += len(key) + len(value)
		page.Items = append(page.Items, StateItem{bytes.Clone(key[cut:]), append([]byte{}, value...)})
		return true
	})
	return page, err
}

// ViewGlobalCode reads global code; ErrNoCode.
func ViewGlobalCode(t Trie, id *primitives.GlobalContractID) ([]byte, error) {
	code, err := t.Get(primitives.AppendGlobalCodeKey(nil, id), nil)
	if err == nil && code == nil {
		err = ErrNoCode
	}
	return code, err
}

// ViewCode reads the code that an account runs; ErrNoAccount, ErrNoCode. resolve returns the global code that the
// account's contract stands for, if it is not the account's own: see action.GlobalCodeOf.
func ViewCode(t Trie, id primitives.AccountID, resolve func(*primitives.Account) (primitives.GlobalContractID, bool)) (code []byte, err error) {
	a, err := ViewAccount(t, id)
	if err != nil {
		return nil, err
	}
	if a.Contract.Kind == primitives.ContractNone {
		return nil, ErrNoCode
	}
	if global, ok := resolve(a); ok {
		return ViewGlobalCode(t, &global)
	}
	code, err = t.Get(primitives.AppendCodeKey(nil, id), nil)
	if err == nil && code == nil {
		err = ErrNoCode
	}
	return code, err
}

// PeekNonce is the nonce that a transaction of a key is measured against: the row's for an indexed one, else the key's. It
// sees what the update wrote and records nothing.
func (u *TrieUpdate) PeekNonce(id primitives.AccountID, h primitives.PublicKeyHandle, n primitives.TransactionNonce) (stored primitives.Nonce, found bool, err error) {
	if n.HasIndex {
		u.key = primitives.AppendGasKeyNonceKey(u.key[:0], id, h, n.Index)
		value, err := u.GetPure(u.key)
		if value == nil || err != nil {
			return 0, false, err
		}
		if len(value) != 8 {
			return 0, false, Inconsistent("%d bytes in place of a nonce", len(value))
		}
		return primitives.Nonce(binary.LittleEndian.Uint64(value)), true, nil
	}
	u.key = primitives.AppendAccessKeyKey(u.key[:0], id, h)
	value, err := u.GetPure(u.key)
	if value == nil || err != nil {
		return 0, false, err
	}
	var k primitives.AccessKey
	err = decodeAccessKey(id, value, &k)
	return k.Nonce, true, err
}
