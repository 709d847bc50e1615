package logic

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/state"
)

// largeRead is the length in bytes above which a value is not stored in the trie node (nearcore
// core/primitives-core/src/config.rs INLINE_DISK_VALUE_THRESHOLD). Reading such a value needs
// another lookup.
const largeRead = 4000

// key reads a storage key.
func (l *Logic) key(n, ptr uint64) ([]byte, error) {
	key, err := l.arg(n, ptr)
	if err != nil {
		return nil, err
	}
	if n, limit := uint64(len(key)), l.wasm.Limits.MaxLengthStorageKey; n > limit {
		return nil, limitError(KeyLengthExceeded, n, limit)
	}
	return key, nil
}

// access is the first step of a function whose first arguments are a storage key. access pays the
// prices and returns the key.
func (l *Logic) access(base, perByte parameters.ExtCost, a []uint64) ([]byte, error) {
	if err := l.begin(); err != nil {
		return nil, err
	}
	if err := l.gas.pay(base); err != nil {
		return nil, err
	}
	key, err := l.key(a[0], a[1])
	if err != nil {
		return nil, err
	}
	return key, l.gas.payPer(perByte, uint64(len(key)))
}

// payNodes pays for the nodes and values that an access touched.
func (l *Logic) payNodes(n action.NodeCount) error {
	if err := l.gas.payPer(parameters.ExtTouchingTrieNode, n.Touched); err != nil {
		return err
	}
	return l.gas.payPer(parameters.ExtReadCachedTrieNode, n.Cached)
}

// addUsage adds more to the account's storage usage and subtracts less. The result is at least 0.
// Without that rule the usage could become negative, because a genesis record or a patch may set
// any usage; nearcore's node crashes then (logic.rs:4081).
func (l *Logic) addUsage(more, less uint64) error {
	rest := l.usage - min(less, l.usage)
	if rest+more < more {
		return state.Inconsistent("storage usage of %s: %w", l.call.CurrentAccount, primitives.ErrOverflow)
	}
	l.usage = rest + more
	return nil
}

// record returns the storage usage of an entry without its value, in bytes.
func (l *Logic) record(key []byte) uint64 { return uint64(len(key)) + l.cfg.Fees.NumExtraBytesRecord }

// storageWrite (key_len, key_ptr, value_len, value_ptr, register_id) returns 1 if there was an old
// value, else 0. storageWrite writes the old value into the register.
func storageWrite(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	if err := l.gas.pay(parameters.ExtStorageWriteBase); err != nil {
		return 0, err
	}
	key, err := l.key(a[0], a[1])
	if err != nil {
		return 0, err
	}
	value, err := l.arg(a[2], a[3])
	if err != nil {
		return 0, err
	}
	n, limit := uint64(len(value)), l.wasm.Limits.MaxLengthStorageValue
	if n > limit {
		return 0, limitError(ValueLengthExceeded, n, limit)
	}
	if err := l.gas.payPer(parameters.ExtStorageWriteKeyByte, uint64(len(key))); err != nil {
		return 0, err
	}
	if err := l.gas.payPer(parameters.ExtStorageWriteValueByte, n); err != nil {
		return 0, err
	}
	old, nodes, err := l.x.Write(key, value, l.payEvicted)
	if err != nil {
		return 0, err
	}
	if err := l.payNodes(nodes); err != nil {
		return 0, err
	}
	if err := l.observe(); err != nil {
		return 0, err
	}
	if old == nil {
		return 0, l.addUsage(n+l.record(key), 0)
	}
	if err := l.addUsage(n, uint64(len(old))); err != nil {
		return 0, err
	}
	return 1, l.setRegister(a[4], old)
}

func (l *Logic) payEvicted(n uint32) error {
	return l.gas.payPer(parameters.ExtStorageWriteEvictedByte, uint64(n))
}

// storageRead (key_len, key_ptr, register_id) returns 1 and writes the value into the register if
// there is one, else 0.
func storageRead(l *Logic, a []uint64) (uint64, error) {
	key, err := l.access(parameters.ExtStorageReadBase, parameters.ExtStorageReadKeyByte, a)
	if err != nil {
		return 0, err
	}
	value, found, _, err := l.x.Read(key, l.payRead) // payRead also charges for the trie nodes
	if err != nil {
		return 0, err
	}
	if err := l.observe(); err != nil {
		return 0, err
	}
	if !found {
		return 0, nil
	}
	return 1, l.setRegister(a[2], value)
}

func (l *Logic) payRead(n uint32) error {
	if err := l.gas.payPer(parameters.ExtStorageReadValueByte, uint64(n)); err != nil || n <= largeRead {
		return err
	}
	if err := l.gas.pay(parameters.ExtStorageLargeReadOverheadBase); err != nil {
		return err
	}
	return l.gas.payPer(parameters.ExtStorageLargeReadOverheadByte, uint64(n))
}

// storageRemove (key_len, key_ptr, register_id) returns 1 if there was a value, else 0.
// storageRemove writes that value into the register.
func storageRemove(l *Logic, a []uint64) (uint64, error) {
	key, err := l.access(parameters.ExtStorageRemoveBase, parameters.ExtStorageRemoveKeyByte, a)
	if err != nil {
		return 0, err
	}
	old, nodes, err := l.x.Remove(key, l.payRemoved)
	if err != nil {
		return 0, err
	}
	if err := l.payNodes(nodes); err != nil {
		return 0, err
	}
	if err := l.observe(); err != nil {
		return 0, err
	}
	if old == nil {
		return 0, nil
	}
	if err := l.addUsage(0, uint64(len(old))+l.record(key)); err != nil {
		return 0, err
	}
	return 1, l.setRegister(a[2], old)
}

func (l *Logic) payRemoved(n uint32) error {
	return l.gas.payPer(parameters.ExtStorageRemoveRetValueByte, uint64(n))
}

// storageHasKey (key_len, key_ptr)
func storageHasKey(l *Logic, a []uint64) (uint64, error) {
	key, err := l.access(parameters.ExtStorageHasKeyBase, parameters.ExtStorageHasKeyByte, a)
	if err != nil {
		return 0, err
	}
	has, err := l.x.Has(key)
	if err != nil {
		return 0, err
	}
	if err := l.observe(); err != nil || !has {
		return 0, err
	}
	return 1, nil
}

// deprecated returns a host function that always fails. Contracts can still import such a function.
func deprecated(name string) hostFunc {
	return func(*Logic, []uint64) (uint64, error) { return 0, &HostError{Kind: Deprecated, Text: name} }
}
