package state

import (
	"encoding/binary"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Account reads an account into a. If the account does not exist, found is false and a is
// unspecified.
func (u *TrieUpdate) Account(id primitives.AccountID, a *primitives.Account) (found bool, err error) {
	u.key = primitives.AppendAccountKey(u.key[:0], id)
	value, err := u.Get(u.key)
	if value == nil || err != nil {
		return false, err
	}
	return true, decodeAccount(id, value, a)
}

func decodeAccount(id primitives.AccountID, value []byte, a *primitives.Account) error {
	r := borsh.NewReader(value)
	a.DecodeBorsh(r)
	if err := r.Close(); err != nil {
		return Inconsistent("account %s: %w", id, err)
	}
	return nil
}

// SetAccount writes an account.
func (u *TrieUpdate) SetAccount(id primitives.AccountID, a *primitives.Account) {
	u.key = primitives.AppendAccountKey(u.key[:0], id)
	u.values.room(0)
	from := len(u.values.buf)
	u.values.buf = a.AppendBorsh(u.values.buf)
	u.Set(u.key, u.values.take(from))
}

// AccessKey reads an access key into k. If the key does not exist, found is false and k is
// unspecified.
func (u *TrieUpdate) AccessKey(id primitives.AccountID, h primitives.PublicKeyHandle, k *primitives.AccessKey) (found bool, err error) {
	u.key = primitives.AppendAccessKeyKey(u.key[:0], id, h)
	value, err := u.Get(u.key)
	if value == nil || err != nil {
		return false, err
	}
	return true, decodeAccessKey(id, value, k)
}

func decodeAccessKey(id primitives.AccountID, value []byte, k *primitives.AccessKey) error {
	r := borsh.NewReader(value)
	k.DecodeBorsh(r)
	if err := r.Close(); err != nil {
		return Inconsistent("access key of %s: %w", id, err)
	}
	return nil
}

// SetAccessKey writes an access key.
func (u *TrieUpdate) SetAccessKey(id primitives.AccountID, h primitives.PublicKeyHandle, k *primitives.AccessKey) {
	u.key = primitives.AppendAccessKeyKey(u.key[:0], id, h)
	u.values.room(0)
	from := len(u.values.buf)
	u.values.buf = k.AppendBorsh(u.values.buf)
	u.Set(u.key, u.values.take(from))
}

// RemoveAccessKey removes an access key. It does not remove the nonces of a gas key, which have
// separate trie keys.
func (u *TrieUpdate) RemoveAccessKey(id primitives.AccountID, h primitives.PublicKeyHandle) {
	u.key = primitives.AppendAccessKeyKey(u.key[:0], id, h)
	u.Remove(u.key)
}

// GasKeyNonce reads one nonce of a gas key.
func (u *TrieUpdate) GasKeyNonce(id primitives.AccountID, h primitives.PublicKeyHandle,
	index uint16) (n primitives.Nonce, found bool, err error) {
	u.key = primitives.AppendGasKeyNonceKey(u.key[:0], id, h, index)
	v, found, err := u.getUint64(u.key)
	return primitives.Nonce(v), found, err
}

// SetGasKeyNonce writes one nonce of a gas key.
func (u *TrieUpdate) SetGasKeyNonce(id primitives.AccountID, h primitives.PublicKeyHandle, index uint16, n primitives.Nonce) {
	u.key = primitives.AppendGasKeyNonceKey(u.key[:0], id, h, index)
	u.setUint64(u.key, uint64(n))
}

// RemoveGasKeyNonce removes one nonce of a gas key.
func (u *TrieUpdate) RemoveGasKeyNonce(id primitives.AccountID, h primitives.PublicKeyHandle, index uint16) {
	u.key = primitives.AppendGasKeyNonceKey(u.key[:0], id, h, index)
	u.Remove(u.key)
}

func (u *TrieUpdate) getUint64(key []byte) (v uint64, found bool, err error) {
	value, err := u.Get(key)
	if value == nil || err != nil {
		return 0, false, err
	}
	if len(value) != 8 {
		return 0, false, Inconsistent("%d bytes in place of a u64 at %x", len(value), key)
	}
	return binary.LittleEndian.Uint64(value), true, nil
}

func (u *TrieUpdate) setUint64(key []byte, v uint64) {
	u.values.room(8)
	from := len(u.values.buf)
	u.values.buf = borsh.AppendUint64(u.values.buf, v)
	u.Set(key, u.values.take(from))
}

// GasKeyBalances returns the sum of the balances of an account's gas keys. GasKeyBalances reads all
// keys of the account (nearcore core/store/src/utils/mod.rs compute_gas_key_balance_sum).
func (u *TrieUpdate) GasKeyBalances(id primitives.AccountID) (sum primitives.Balance, err error) {
	prefix := primitives.AppendAccessKeyPrefix(nil, id)
	err = u.Keys(prefix, func(key []byte) error {
		h, _, isNonce, err := primitives.AccessKeyRest(key, len(prefix))
		if err != nil || isNonce {
			return asInconsistent(err)
		}
		var k primitives.AccessKey
		if found, err := u.AccessKey(id, h, &k); err != nil || !found || k.GasKey == nil {
			return err
		}
		var ok bool
		if sum, ok = sum.Add(k.GasKey.Balance); !ok {
			return Inconsistent("gas key balances of %s: %w", id, primitives.ErrOverflow)
		}
		return nil
	})
	return sum, err
}

func asInconsistent(err error) error {
	if err == nil {
		return nil
	}
	return Inconsistent("%w", err)
}

// RemovedNonces counts the gas key nonces that RemoveAccount removed. Their removal costs compute.
type RemovedNonces struct {
	Rows     int // number of nonces
	KeyBytes int // total length of the nonces' trie keys
}

// RemoveAccount removes an account with its code, keys and contract entries (nearcore utils/mod.rs
// remove_account).
func (u *TrieUpdate) RemoveAccount(id primitives.AccountID) (removed RemovedNonces, err error) {
	u.Remove(primitives.AppendAccountKey(nil, id))
	u.Remove(primitives.AppendCodeKey(nil, id))
	prefix := primitives.AppendAccessKeyPrefix(nil, id)
	var keys [][]byte
	err = u.Keys(prefix, func(key []byte) error {
		_, _, isNonce, err := primitives.AccessKeyRest(key, len(prefix))
		if isNonce {
			removed.Rows++
			removed.KeyBytes += len(key)
		}
		keys = append(keys, key)
		return asInconsistent(err)
	})
	if err != nil {
		return removed, err
	}
	for _, k := range keys {
		u.Remove(k)
	}
	keys = keys[:0]
	err = u.Keys(primitives.AppendContractDataKey(nil, id, nil), func(key []byte) error {
		keys = append(keys, key)
		return nil
	})
	for _, k := range keys {
		u.Remove(k)
	}
	return removed, err
}

// CodeLen returns the length of an account's own code in bytes; 0 if the account has no own code.
// CodeLen records the trie nodes on the path to the code, but not the code.
func (u *TrieUpdate) CodeLen(id primitives.AccountID) (uint64, error) {
	u.key = primitives.AppendCodeKey(u.key[:0], id)
	ref, found, err := u.Find(u.key)
	if err != nil || !found {
		return 0, err
	}
	return uint64(ref.Len()), nil
}

// SetCode writes an account's own code and makes the code visible to calls in this chunk. The
// update keeps a reference to code.
func (u *TrieUpdate) SetCode(id primitives.AccountID, hash primitives.Hash, code []byte) {
	if code == nil {
		code = []byte{}
	}
	u.Set(primitives.AppendCodeKey(nil, id), code)
	u.pendingCodes = append(u.pendingCodes, pendingCode{hash, code})
}

// RemoveCode removes an account's own code from the state.
func (u *TrieUpdate) RemoveCode(id primitives.AccountID) { u.Remove(primitives.AppendCodeKey(nil, id)) }

// Code returns code by its hash; nil if there is no such code. Code first looks for code that this
// chunk deployed or distributed, then for the code that was stored at key before the chunk. Nothing
// is recorded.
//
// nearcore resolves an account's contract to a hash (contract_code.rs). nearcore then looks up the
// hash in its cache of compiled contracts, which apply fills (actions.rs action_deploy_contract,
// global_contracts.rs apply_distribution_current_shard). nearcore reads the storage only for code
// that is not in the cache (core/store/src/contract.rs). So a call can run the code of a
// distribution that ran before the call in the same chunk.
func (u *TrieUpdate) Code(hash primitives.Hash, key []byte) ([]byte, error) {
	brought := u.broughtCode
	if u.fork != nil {
		brought = u.forkCode
	}
	code, ok := brought(hash)
	if p, proven := u.trie.(Proven); proven { // the state is a proof, so accesses are not reported
		if !ok {
			code = p.CodeOf(hash)
			ok = code != nil
		}
	} else {
		ref, found, err := u.trie.Lookup(key, nil)
		if err != nil {
			return nil, err
		}
		if found && ref.Hash == hash {
			u.access(CodeAccess{hash, key})
			if !ok {
				return u.trie.Get(key, nil)
			}
		}
	}
	if ok {
		return code, nil
	}
	if u.fork != nil { // until Adopt, a receipt before this one may deploy the code
		u.fork.codeReads = append(u.fork.codeReads, codeRead{hash, false})
	}
	return nil, nil
}

// broughtCode returns the code with a hash, if this chunk has deployed or distributed that code so
// far.
func (u *TrieUpdate) broughtCode(hash primitives.Hash) (code []byte, ok bool) {
	for i := len(u.pendingCodes) - 1; i >= 0; i-- {
		if u.pendingCodes[i].hash == hash {
			return u.pendingCodes[i].code, true
		}
	}
	code, ok = u.codes[hash]
	return code, ok
}

// HasGlobalCode returns whether a global contract exists in this shard. HasGlobalCode records the
// trie nodes on the path to the code.
func (u *TrieUpdate) HasGlobalCode(id *primitives.GlobalContractID) (bool, error) {
	return u.Contains(primitives.AppendGlobalCodeKey(nil, id))
}

// GlobalCodeHash returns the hash of the code of a global contract that is identified by its
// deployer's account. GlobalCodeHash records the trie nodes on the path to the code, but not the
// code. If the contract does not exist, the error wraps ErrInconsistent.
func (u *TrieUpdate) GlobalCodeHash(id *primitives.GlobalContractID) (primitives.Hash, error) {
	ref, found, err := u.Find(primitives.AppendGlobalCodeKey(nil, id))
	if err != nil {
		return primitives.Hash{}, err
	}
	if !found {
		return primitives.Hash{}, Inconsistent("global contract of %s is not found", id.Account)
	}
	return ref.Hash(), nil
}

// SetGlobalCode writes a global contract and makes the contract visible to calls in this chunk. The
// update keeps a reference to code.
func (u *TrieUpdate) SetGlobalCode(id *primitives.GlobalContractID, code []byte) {
	if code == nil {
		code = []byte{}
	}
	u.Set(primitives.AppendGlobalCodeKey(nil, id), code)
	hash := id.Hash
	if id.Account != "" {
		hash = primitives.HashBytes(code)
	}
	u.pendingCodes = append(u.pendingCodes, pendingCode{hash, code})
}

// GlobalNonce returns the nonce of the newest deployment of a global contract; 0 if there is none.
func (u *TrieUpdate) GlobalNonce(id *primitives.GlobalContractID) (uint64, error) {
	n, _, err := u.getUint64(primitives.AppendGlobalNonceKey(nil, id))
	return n, err
}

// SetGlobalNonce writes the nonce of the newest deployment of a global contract.
func (u *TrieUpdate) SetGlobalNonce(id *primitives.GlobalContractID, n uint64) {
	u.setUint64(primitives.AppendGlobalNonceKey(nil, id), n)
}

// PeekNonce returns the stored nonce with which the nonce of a transaction is compared. If n has an
// index, that is the gas key's nonce at n.Index, else the access key's nonce. PeekNonce sees the
// writes of u and records nothing.
func (u *TrieUpdate) PeekNonce(id primitives.AccountID, h primitives.PublicKeyHandle,
	n primitives.TransactionNonce) (stored primitives.Nonce, found bool, err error) {
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
