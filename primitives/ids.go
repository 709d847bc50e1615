package primitives

import "encoding/binary"

// childHash is the formula of derived ids: H(base ‖ u64 height ‖ u64 salt) (nearcore
// core/primitives/src/utils.rs:270).
func childHash(base Hash, height Height, salt uint64) Hash {
	var b [48]byte
	copy(b[:32], base[:])
	binary.LittleEndian.PutUint64(b[32:], uint64(height))
	binary.LittleEndian.PutUint64(b[40:], salt)
	return HashBytes(b[:])
}

// ReceiptIDFromTransaction is the id of the receipt that a transaction is converted to in the block
// of the given height.
func ReceiptIDFromTransaction(tx Hash, height Height) Hash { return childHash(tx, height, 0) }

// ReceiptIDFromReceipt is the id of the index-th receipt that a receipt generates, counting refunds
// and data receipts.
func ReceiptIDFromReceipt(parent Hash, height Height, index uint64) Hash {
	return childHash(parent, height, index)
}

// ActionHash identifies an action of a receipt. Its data ids and random seed derive from it.
func ActionHash(receipt Hash, height Height, actionIndex uint64) Hash {
	return childHash(receipt, height, ^uint64(0)-actionIndex)
}

// DataID is the id of the count-th data dependency that an action creates.
func DataID(action Hash, height Height, count uint64) Hash { return childHash(action, height, count) }

// YieldTimeoutReceiptID is the id of the count-th yield timeout receipt of a chunk.
func YieldTimeoutReceiptID(data Hash, height Height, count uint64) Hash {
	return childHash(data, height, count)
}

// RandomSeed is the result of random_seed in an action: H(action hash ‖ block's random value).
func RandomSeed(action, randomValue Hash) Hash { return CombineHash(action, randomValue) }
