package primitives

import (
	"errors"
	"fmt"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TrieColumn is the first byte of a trie key: the kind of its value (nearcore
// core/primitives/src/trie_key.rs col). 8 and 21 are not columns of the trie: delayed receipts
// share 7 with their indices, and nonces of gas keys share 2 with the keys.
type TrieColumn byte

// The columns.
const (
	ColAccount                TrieColumn = 0
	ColContractCode           TrieColumn = 1
	ColAccessKey              TrieColumn = 2 // also the nonces of gas keys
	ColReceivedData           TrieColumn = 3
	ColPostponedReceiptID     TrieColumn = 4
	ColPendingDataCount       TrieColumn = 5
	ColPostponedReceipt       TrieColumn = 6
	ColDelayedReceipt         TrieColumn = 7 // also the indices of the queue, in a key without a number
	ColContractData           TrieColumn = 9
	ColPromiseYieldIndices    TrieColumn = 10
	ColPromiseYieldTimeout    TrieColumn = 11
	ColPromiseYieldReceipt    TrieColumn = 12
	ColBufferedReceiptIndices TrieColumn = 13
	ColBufferedReceipt        TrieColumn = 14
	ColBandwidthScheduler     TrieColumn = 15
	ColBufferedGroups         TrieColumn = 16
	ColBufferedGroup          TrieColumn = 17
	ColGlobalContractCode     TrieColumn = 18
	ColGlobalContractNonce    TrieColumn = 19
	ColPromiseYieldStatus     TrieColumn = 20
	ColYieldIDToDataID        TrieColumn = 22
	ColDataIDToYieldID        TrieColumn = 23

	// Columns that occur only in a fork of another chain. ColForkGone marks the keys of that chain
	// that were deleted in the fork. ColForkBase has the block of that chain from which an account
	// is read.
	ColForkGone TrieColumn = 62
	ColForkBase TrieColumn = 63
)

// Inherited returns whether a fork reads the key from the chain that it forked: accounts, their
// keys, code and data, and global code. The rest of a state (waiting and queued receipts) is the
// fork's own.
func Inherited(key []byte) bool {
	if len(key) == 0 {
		return false
	}
	switch TrieColumn(key[0]) {
	case ColAccount, ColContractCode, ColAccessKey, ColContractData, ColGlobalContractCode:
		return true
	}
	return false
}

// AppendForkGoneKey appends the key that marks another key as deleted in a fork.
func AppendForkGoneKey(b, key []byte) []byte { return append(append(b, byte(ColForkGone)), key...) }

// AppendForkBaseKey appends the key under which a fork stores the block from which it reads an
// account.
func AppendForkBaseKey(b []byte, a AccountID) []byte {
	return append(append(b, byte(ColForkBase)), a...)
}

// Separators after an account id. No account id contains either byte, so a prefix that ends with
// one belongs to one account.
const (
	accountDataSeparator = ','
	accessKeySeparator   = byte(ColAccessKey)
)

// Singletons of a shard: keys that consist of their column. Callers must not change these slices.
var (
	DelayedIndicesKey     = []byte{byte(ColDelayedReceipt)}
	YieldIndicesKey       = []byte{byte(ColPromiseYieldIndices)}
	BufferedIndicesKey    = []byte{byte(ColBufferedReceiptIndices)}
	BandwidthSchedulerKey = []byte{byte(ColBandwidthScheduler)}
)

// AppendAccountKey appends the key of an account.
func AppendAccountKey(b []byte, a AccountID) []byte { return append(append(b, byte(ColAccount)), a...) }

// AppendCodeKey appends the key of an account's own code.
func AppendCodeKey(b []byte, a AccountID) []byte {
	return append(append(b, byte(ColContractCode)), a...)
}

// AppendAccessKeyPrefix appends the common prefix of an account's access keys and gas key nonces.
func AppendAccessKeyPrefix(b []byte, a AccountID) []byte {
	return append(append(append(b, byte(ColAccessKey)), a...), accessKeySeparator)
}

// AppendAccessKeyKey appends the key of an access key.
func AppendAccessKeyKey(b []byte, a AccountID, h PublicKeyHandle) []byte {
	return append(AppendAccessKeyPrefix(b, a), h...)
}

// AppendGasKeyNonceKey appends the key of one nonce of a gas key: the access key's key, and the
// index.
func AppendGasKeyNonceKey(b []byte, a AccountID, h PublicKeyHandle, index uint16) []byte {
	return borsh.AppendUint16(AppendAccessKeyKey(b, a, h), index)
}

// AccessKeyKeyLen is the length of an access key's trie key, which fees of gas keys count: column,
// account, separator, id.
func AccessKeyKeyLen(accountLen, handleLen int) int { return 1 + accountLen + 1 + handleLen }

// GasKeyNonceKeyLen is the length of the trie key of a gas key's nonce.
func GasKeyNonceKeyLen(accountLen, handleLen int) int {
	return AccessKeyKeyLen(accountLen, handleLen) + 2
}

// AppendAccountHashKey appends a key that consists of column, account and 32 bytes: columns 3 to 6,
// 12, 20, 22 and 23.
func AppendAccountHashKey(b []byte, col TrieColumn, a AccountID, id Hash) []byte {
	return append(append(append(append(b, byte(col)), a...), accountDataSeparator), id[:]...)
}

// AppendContractDataKey appends the key of a contract's entry. With the beginning of a key it is a
// prefix.
func AppendContractDataKey(b []byte, a AccountID, key []byte) []byte {
	return append(append(append(append(b, byte(ColContractData)), a...), accountDataSeparator), key...)
}

// AppendDelayedReceiptKey appends the key of an item of the delayed queue.
func AppendDelayedReceiptKey(b []byte, index uint64) []byte {
	return borsh.AppendUint64(append(b, byte(ColDelayedReceipt)), index)
}

// AppendYieldTimeoutKey appends the key of an item of the timeout queue.
func AppendYieldTimeoutKey(b []byte, index uint64) []byte {
	return borsh.AppendUint64(append(b, byte(ColPromiseYieldTimeout)), index)
}

// AppendBufferedReceiptKey appends the key of an item of the buffer towards a shard. The shard
// takes two bytes here, unlike in columns 16 and 17. AppendBufferedReceiptKey panics for larger
// ids, as nearcore does: no layout has such ids.
func AppendBufferedReceiptKey(b []byte, to ShardID, index uint64) []byte {
	if to > 1<<16-1 {
		panic(fmt.Sprintf("primitives: shard id %d does not fit the trie key", to))
	}
	return borsh.AppendUint64(borsh.AppendUint16(append(b, byte(ColBufferedReceipt)), uint16(to)), index)
}

// AppendBufferedGroupsKey appends the key of the group queue of the buffer towards a shard.
func AppendBufferedGroupsKey(b []byte, to ShardID) []byte {
	return borsh.AppendUint64(append(b, byte(ColBufferedGroups)), uint64(to))
}

// AppendBufferedGroupKey appends the key of one group of the buffer towards a shard.
func AppendBufferedGroupKey(b []byte, to ShardID, index uint64) []byte {
	return borsh.AppendUint64(borsh.AppendUint64(append(b, byte(ColBufferedGroup)), uint64(to)), index)
}

// AppendGlobalCodeKey appends the key of global code.
func AppendGlobalCodeKey(b []byte, id *GlobalContractID) []byte {
	return id.AppendBorsh(append(b, byte(ColGlobalContractCode)))
}

// AppendGlobalNonceKey appends the key of the deployment nonce of global code.
func AppendGlobalNonceKey(b []byte, id *GlobalContractID) []byte {
	return id.AppendBorsh(append(b, byte(ColGlobalContractNonce)))
}

// ErrTrieKey is wrapped by every error of ParseTrieKey.
var ErrTrieKey = errors.New("not a trie key")

// TrieKey is a parsed key. The column determines which fields apply.
type TrieKey struct {
	Column   TrieColumn
	Account  AccountID       // account in the key, for columns whose keys contain one
	Handle   PublicKeyHandle // handle of the access key, for column 2
	HasIndex bool            // column 2: it is a nonce of a gas key; column 7: a queue item, not the indices
	Index    uint64          // column 2: index of the nonce; columns 7, 11, 14, 17: position in the queue
	ID       Hash            // id after the account, for the columns of AppendAccountHashKey
	// Data is the contract's key in column 9, and the deleted key in ColForkGone. It aliases the
	// input.
	Data   []byte
	Shard  ShardID          // shard in the key, for columns 14, 16, 17
	Global GlobalContractID // global contract, for columns 18, 19
}

// trieKeyAccount splits the text after the column at the separator; rest is nil if there is none.
func trieKeyAccount(tail []byte, separator byte) (AccountID, []byte, error) {
	for i, c := range tail {
		if c == separator {
			a, err := ParseAccountID(string(tail[:i]))
			return a, tail[i+1:], err
		}
	}
	return "", nil, errors.New("no separator after the account id")
}

// HasAccount returns whether the column's keys begin with an account id, which determines the side
// of a split to which the keys go (trie_key.rs COLUMNS_WITH_ACCOUNT_ID_IN_KEY).
func (c TrieColumn) HasAccount() bool {
	switch c {
	case ColAccount, ColContractCode, ColAccessKey, ColReceivedData, ColPostponedReceiptID, ColPendingDataCount,
		ColPostponedReceipt, ColContractData, ColPromiseYieldReceipt, ColPromiseYieldStatus, ColYieldIDToDataID, ColDataIDToYieldID:
		return true
	}
	return false
}

// TrieKeyAccount returns the account that a key belongs to; ok is false for the columns of the
// shard. Global code deployed under an account's name is not part of the account.
func TrieKeyAccount(key []byte) (a AccountID, ok bool, err error) {
	if len(key) == 0 || !TrieColumn(key[0]).HasAccount() {
		return "", false, nil
	}
	switch TrieColumn(key[0]) {
	case ColAccount, ColContractCode:
		a, err = ParseAccountID(string(key[1:]))
	case ColAccessKey:
		a, _, err = trieKeyAccount(key[1:], accessKeySeparator)
	default:
		a, _, err = trieKeyAccount(key[1:], accountDataSeparator)
	}
	if err != nil {
		return "", false, fmt.Errorf("%w: %w", ErrTrieKey, err)
	}
	return a, true, nil
}

// ParseTrieKey parses a key into its parts.
func ParseTrieKey(key []byte) (TrieKey, error) {
	if len(key) == 0 {
		return TrieKey{}, fmt.Errorf("%w: it is empty", ErrTrieKey)
	}
	k := TrieKey{Column: TrieColumn(key[0])}
	if err := k.parse(key[1:]); err != nil {
		return TrieKey{}, fmt.Errorf("%w: column %d: %w", ErrTrieKey, k.Column, err)
	}
	return k, nil
}

// parse reads what follows the column.
func (k *TrieKey) parse(tail []byte) (err error) {
	switch k.Column {
	case ColAccount, ColContractCode, ColForkBase:
		k.Account, err = ParseAccountID(string(tail))
		return err
	case ColForkGone:
		if k.Data = tail; !Inherited(tail) {
			return errors.New("the marked key is of a column that a fork does not inherit")
		}
		return nil
	case ColAccessKey:
		return k.parseAccessKey(tail)
	case ColContractData:
		k.Account, k.Data, err = trieKeyAccount(tail, accountDataSeparator)
		return err
	}
	if k.Column.HasAccount() {
		var id []byte
		if k.Account, id, err = trieKeyAccount(tail, accountDataSeparator); err != nil {
			return err
		}
		if len(id) != len(k.ID) {
			return fmt.Errorf("the id has %d bytes, want a 32-byte hash", len(id))
		}
		k.ID = Hash(id)
		return nil
	}
	return k.parseShardKey(tail)
}

// parseAccessKey reads account, handle, and the index if there is one. The handle's first byte
// determines its length, so an index after it is unambiguous.
func (k *TrieKey) parseAccessKey(tail []byte) error {
	a, rest, err := trieKeyAccount(tail, accessKeySeparator)
	if err != nil {
		return err
	}
	k.Account = a
	r := borsh.NewReader(rest)
	k.Handle = ReadPublicKeyHandle(r)
	if r.Err() == nil && r.Remaining() > 0 {
		k.HasIndex, k.Index = true, uint64(r.Uint16())
	}
	return r.Close()
}

// parseShardKey reads the columns that belong to the shard.
func (k *TrieKey) parseShardKey(tail []byte) error {
	r := borsh.NewReader(tail)
	switch k.Column {
	case ColDelayedReceipt:
		if k.HasIndex = len(tail) > 0; k.HasIndex {
			k.Index = r.Uint64()
		}
	case ColPromiseYieldIndices, ColBufferedReceiptIndices, ColBandwidthScheduler:
	case ColPromiseYieldTimeout:
		k.Index = r.Uint64()
	case ColBufferedReceipt:
		k.Shard, k.Index = ShardID(r.Uint16()), r.Uint64()
	case ColBufferedGroups:
		k.Shard = ShardID(r.Uint64())
	case ColBufferedGroup:
		k.Shard, k.Index = ShardID(r.Uint64()), r.Uint64()
	case ColGlobalContractCode, ColGlobalContractNonce:
		k.Global.DecodeBorsh(r)
	default:
		return errors.New("unknown column")
	}
	return r.Close()
}

// AccessKeyRest returns what follows an account's access key prefix in a key: handle and, if the
// key is the nonce of a gas key, index. key must begin with the prefix, which has prefixLen bytes.
func AccessKeyRest(key []byte, prefixLen int) (h PublicKeyHandle, index uint16, hasIndex bool, err error) {
	r := borsh.NewReader(key[prefixLen:])
	h = ReadPublicKeyHandle(r)
	if r.Err() == nil && r.Remaining() > 0 {
		index, hasIndex = r.Uint16(), true
	}
	if err = r.Close(); err != nil {
		err = fmt.Errorf("%w: column %d: %w", ErrTrieKey, ColAccessKey, err)
	}
	return h, index, hasIndex, err
}
