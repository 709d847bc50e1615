package view

import (
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// At is the block whose state a query read. Every reply to a query contains it.
type At struct {
	Height primitives.Height
	Hash   primitives.Hash
}

// appendAt appends "block_hash" and "block_height" without braces.
func appendAt(b []byte, at *At) []byte {
	b = AppendHash(append(b, `"block_hash":`...), &at.Hash)
	return appendUint(append(b, `,"block_height":`...), at.Height)
}

// AppendQueryAccount appends AccountView with its block: the reply of view_account.
func AppendQueryAccount(b []byte, a *primitives.Account, at *At) []byte {
	return sortedOrder.account(b, a, "", at)
}

// hasContract returns whether a's contract is of that kind.
func hasContract(a *primitives.Account, kind primitives.ContractKind) bool {
	if a.Contract.Kind > primitives.ContractGlobalAccount {
		panic(fmt.Sprintf("view: no JSON form of contract kind %d", a.Contract.Kind))
	}
	return a.Contract.Kind == kind
}

// AppendQueryAccessKey appends the reply of view_access_key.
func AppendQueryAccessKey(b []byte, k *primitives.AccessKey, at *At) []byte {
	return sortedOrder.queryAccessKey(b, k, at)
}

// KeyInfo is an access key of an account with its handle.
type KeyInfo struct {
	Handle    primitives.PublicKeyHandle
	AccessKey primitives.AccessKey
}

// AppendQueryAccessKeyList appends the reply of view_access_key_list. more is set if further keys
// follow the last one.
func AppendQueryAccessKeyList(b []byte, keys []KeyInfo, more bool, at *At) []byte {
	b = appendAt(append(b, '{'), at)
	b = appendList(append(b, `,"keys":`...), keys, func(b []byte, k *KeyInfo) []byte {
		b = AppendAccessKey(append(b, `{"access_key":`...), &k.AccessKey)
		return append(AppendHandle(append(b, `,"public_key":`...), k.Handle), '}')
	})
	if more {
		b = AppendHandle(append(b, `,"last_key":`...), keys[len(keys)-1].Handle)
	}
	return append(b, '}')
}

// AppendQueryGasKeyNonces appends the reply of view_gas_key_nonces.
func AppendQueryGasKeyNonces(b []byte, nonces []primitives.Nonce, at *At) []byte {
	b = appendAt(append(b, '{'), at)
	return append(appendUints(append(b, `,"nonces":`...), nonces), '}')
}

// StateItem is one pair of a contract's state.
type StateItem struct{ Key, Value []byte }

// StatePage is a contract's state, or a page of it. LastKey is not nil if more follows a page. An
// empty Proof is left out.
type StatePage struct {
	Items   []StateItem // items by ascending key
	Proof   [][]byte    // trie nodes that prove the items
	LastKey []byte
}

// AppendQueryState appends the reply of view_state.
func AppendQueryState(b []byte, s *StatePage, at *At) []byte {
	b = appendAt(append(b, '{'), at)
	if s.LastKey != nil {
		b = AppendBase64(append(b, `,"last_key":`...), s.LastKey)
	}
	if len(s.Proof) > 0 {
		b = appendList(append(b, `,"proof":`...), s.Proof, func(b []byte, n *[]byte) []byte { return AppendBase64(b, *n) })
	}
	b = appendList(append(b, `,"values":`...), s.Items, func(b []byte, x *StateItem) []byte {
		b = AppendBase64(append(b, `{"key":`...), x.Key)
		return append(AppendBase64(append(b, `,"value":`...), x.Value), '}')
	})
	return append(b, '}')
}

// AppendProof adds the nodes of a proof to a reply without a proof.
func AppendProof(b []byte, proof [][]byte) []byte {
	b = appendList(append(b[:len(b)-1], `,"proof":`...), proof, func(b []byte, n *[]byte) []byte { return AppendBase64(b, *n) })
	return append(b, '}')
}

// AppendQueryCode appends the reply of view_code and its global forms.
func AppendQueryCode(b, code []byte, hash *primitives.Hash, at *At) []byte {
	b = appendAt(append(b, '{'), at)
	b = AppendBase64(append(b, `,"code_base64":`...), code)
	return append(AppendHash(append(b, `,"hash":`...), hash), '}')
}

// AppendQueryCall appends the reply of call_function.
func AppendQueryCall(b, result []byte, logs []string, at *At) []byte {
	b = appendAt(append(b, '{'), at)
	b = appendStrings(append(b, `,"logs":`...), logs)
	return append(AppendByteNumbers(append(b, `,"result":`...), result), '}')
}

// AppendQueryError appends the reply of method query for a missing key or a failed call. As in
// nearcore, the reply is a JSON-RPC result with the error in it, not a JSON-RPC error
// (chain/jsonrpc/src/lib.rs process_query_response).
func AppendQueryError(b []byte, text string, logs []string, at *At) []byte {
	b = appendAt(append(b, '{'), at)
	b = AppendString(append(b, `,"error":`...), text)
	return append(appendStrings(append(b, `,"logs":`...), logs), '}')
}
