package view

import "github.com/troupe-chain/troupe/primitives"

// State is a shard's state after a block. A State does not change until it is released.
type State interface {
	// At is the block.
	At() At
	// Account reads an account; false if there is none.
	Account(primitives.AccountID, *primitives.Account) (bool, error)
	// AccessKey reads a key of an account; false if there is none.
	AccessKey(primitives.AccountID, primitives.PublicKeyHandle, *primitives.AccessKey) (bool, error)
	// AccessKeys returns the keys of an account in the order of the trie: at most limit keys (0:
	// all) that follow the key `after` (empty: from the first key on). more is set if further keys
	// follow.
	AccessKeys(id primitives.AccountID, after primitives.PublicKeyHandle, limit int) (keys []KeyInfo, more bool, err error)
	// GasKeyNonce reads one nonce of a gas key; false if there is none.
	GasKeyNonce(a primitives.AccountID, key primitives.PublicKeyHandle, index uint16) (primitives.Nonce, bool, error)
	// Code returns an account's own code, nil if it has none.
	Code(primitives.AccountID) ([]byte, error)
	// GlobalCode returns global code, nil if there is none.
	GlobalCode(*primitives.GlobalContractID) ([]byte, error)
	// Data calls the function each for the contract's pairs whose keys have the prefix, by
	// ascending key, until it returns false. Unless after is nil, Data skips keys up to `after`.
	Data(a primitives.AccountID, prefix, after []byte, each func(key, value []byte) bool) error
	// DataProof returns the trie nodes that prove what Data finds under the prefix.
	DataProof(a primitives.AccountID, prefix []byte) ([][]byte, error)
	// KeyProof returns the trie nodes on the path to a key of the state, top first, followed by the
	// key's value if the key exists.
	KeyProof(key []byte) ([][]byte, error)
	// Release ends the use of the state. It must be called once.
	Release()
}
