package state

import (
	"encoding/binary"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// accountHashKey returns the trie key of an account and a hash in column col. The key is in the
// scratch buffer u.key, so the key is valid until the next call of a method of u.
func (u *TrieUpdate) accountHashKey(col primitives.TrieColumn, a primitives.AccountID, id primitives.Hash) []byte {
	u.key = primitives.AppendAccountHashKey(u.key[:0], col, a, id)
	return u.key
}

// getHash reads a value of 32 bytes.
func (u *TrieUpdate) getHash(key []byte) (h primitives.Hash, found bool, err error) {
	value, err := u.Get(key)
	if value == nil || err != nil {
		return h, false, err
	}
	if len(value) != len(h) {
		return h, false, Inconsistent("%d bytes in place of a hash at %x", len(value), key)
	}
	return primitives.Hash(value), true, nil
}

func (u *TrieUpdate) setHash(key []byte, h primitives.Hash) { u.Set(key, u.values.copy(h[:])) }

// getReceipt reads a receipt; nil if there is none.
func (u *TrieUpdate) getReceipt(key []byte) (*primitives.Receipt, error) {
	value, err := u.Get(key)
	if value == nil || err != nil {
		return nil, err
	}
	x := new(primitives.Receipt)
	if err := borsh.Unmarshal(value, x); err != nil {
		return nil, Inconsistent("receipt at %x: %w", key, err)
	}
	return x, nil
}

// ReceivedData reads the content of the data receipt that account a received for a data id. data is
// nil if the promise failed. found is false if no such data receipt has arrived.
func (u *TrieUpdate) ReceivedData(a primitives.AccountID, id primitives.Hash) (data []byte, found bool, err error) {
	key := u.accountHashKey(primitives.ColReceivedData, a, id)
	value, err := u.Get(key)
	if value == nil || err != nil {
		return nil, false, err
	}
	r := borsh.NewReader(value)
	if r.Option() {
		data = r.Bytes()
	}
	if err := r.Close(); err != nil {
		return nil, false, Inconsistent("received data at %x: %w", key, err)
	}
	return data, true, nil
}

// HasReceivedData returns whether a data receipt has arrived for a data id. HasReceivedData does
// not read the content.
func (u *TrieUpdate) HasReceivedData(a primitives.AccountID, id primitives.Hash) (bool, error) {
	return u.Contains(u.accountHashKey(primitives.ColReceivedData, a, id))
}

// SetReceivedData writes the content of a data receipt. nil means that the promise failed.
func (u *TrieUpdate) SetReceivedData(a primitives.AccountID, id primitives.Hash, data []byte) {
	u.values.room(len(data) + 5)
	from := len(u.values.buf)
	if data == nil {
		u.values.buf = append(u.values.buf, 0)
	} else {
		u.values.buf = borsh.AppendBytes(append(u.values.buf, 1), data)
	}
	u.Set(u.accountHashKey(primitives.ColReceivedData, a, id), u.values.take(from))
}

// RemoveReceivedData removes the content of a data receipt.
func (u *TrieUpdate) RemoveReceivedData(a primitives.AccountID, id primitives.Hash) {
	u.Remove(u.accountHashKey(primitives.ColReceivedData, a, id))
}

// PostponedReceiptID returns the id of the receipt that waits for a data id.
func (u *TrieUpdate) PostponedReceiptID(a primitives.AccountID, data primitives.Hash) (id primitives.Hash, found bool, err error) {
	return u.getHash(u.accountHashKey(primitives.ColPostponedReceiptID, a, data))
}

// SetPostponedReceiptID records that a receipt waits for a data id.
func (u *TrieUpdate) SetPostponedReceiptID(a primitives.AccountID, data, receipt primitives.Hash) {
	u.setHash(u.accountHashKey(primitives.ColPostponedReceiptID, a, data), receipt)
}

// RemovePostponedReceiptID removes the record that SetPostponedReceiptID wrote.
func (u *TrieUpdate) RemovePostponedReceiptID(a primitives.AccountID, data primitives.Hash) {
	u.Remove(u.accountHashKey(primitives.ColPostponedReceiptID, a, data))
}

// PendingDataCount returns the number of inputs that a postponed receipt still waits for. The count
// must exist.
func (u *TrieUpdate) PendingDataCount(a primitives.AccountID, receipt primitives.Hash) (uint32, error) {
	value, err := u.Get(u.accountHashKey(primitives.ColPendingDataCount, a, receipt))
	if err != nil {
		return 0, err
	}
	if len(value) != 4 {
		return 0, Inconsistent("pending data count of receipt %v should be in the state", receipt)
	}
	return binary.LittleEndian.Uint32(value), nil
}

// SetPendingDataCount writes the number of inputs that a postponed receipt still waits for.
func (u *TrieUpdate) SetPendingDataCount(a primitives.AccountID, receipt primitives.Hash, n uint32) {
	var b [4]byte
	binary.LittleEndian.PutUint32(b[:], n)
	u.Set(u.accountHashKey(primitives.ColPendingDataCount, a, receipt), u.values.copy(b[:]))
}

// RemovePendingDataCount removes the number that SetPendingDataCount wrote.
func (u *TrieUpdate) RemovePendingDataCount(a primitives.AccountID, receipt primitives.Hash) {
	u.Remove(u.accountHashKey(primitives.ColPendingDataCount, a, receipt))
}

// HasPostponedReceipt returns whether a postponed receipt exists. HasPostponedReceipt does not read
// the receipt.
func (u *TrieUpdate) HasPostponedReceipt(a primitives.AccountID, id primitives.Hash) (bool, error) {
	return u.Contains(u.accountHashKey(primitives.ColPostponedReceipt, a, id))
}

// PostponedReceipt reads a receipt that waits for inputs. The receipt must exist.
func (u *TrieUpdate) PostponedReceipt(a primitives.AccountID, id primitives.Hash) (*primitives.Receipt, error) {
	x, err := u.getReceipt(u.accountHashKey(primitives.ColPostponedReceipt, a, id))
	if x == nil && err == nil {
		err = Inconsistent("postponed receipt %v should be in the state", id)
	}
	return x, err
}

// SetPostponedReceipt writes a receipt that waits for inputs.
func (u *TrieUpdate) SetPostponedReceipt(x *primitives.Receipt) {
	u.Set(u.accountHashKey(primitives.ColPostponedReceipt, x.ReceiverID, x.ID), u.values.encode(x))
}

// RemovePostponedReceipt removes a receipt that waits for inputs.
func (u *TrieUpdate) RemovePostponedReceipt(a primitives.AccountID, id primitives.Hash) {
	u.Remove(u.accountHashKey(primitives.ColPostponedReceipt, a, id))
}

// YieldReceipt reads the receipt of a yield that waits for a data id; nil if there is none.
func (u *TrieUpdate) YieldReceipt(a primitives.AccountID, data primitives.Hash) (*primitives.Receipt, error) {
	return u.getReceipt(u.accountHashKey(primitives.ColPromiseYieldReceipt, a, data))
}

// HasYieldReceipt returns whether the receipt of a yield exists. HasYieldReceipt does not read the
// receipt.
func (u *TrieUpdate) HasYieldReceipt(a primitives.AccountID, data primitives.Hash) (bool, error) {
	return u.Contains(u.accountHashKey(primitives.ColPromiseYieldReceipt, a, data))
}

// SetYieldReceipt writes a promise yield, which waits for exactly one input.
func (u *TrieUpdate) SetYieldReceipt(x *primitives.Receipt, data primitives.Hash) {
	u.Set(u.accountHashKey(primitives.ColPromiseYieldReceipt, x.ReceiverID, data), u.values.encode(x))
}

// RemoveYieldReceipt removes the receipt of a yield.
func (u *TrieUpdate) RemoveYieldReceipt(a primitives.AccountID, data primitives.Hash) {
	u.Remove(u.accountHashKey(primitives.ColPromiseYieldReceipt, a, data))
}

// YieldStatus is the status of a yield (nearcore PromiseYieldStatus).
type YieldStatus byte

const (
	Yielded         YieldStatus = 0
	ResumeInitiated YieldStatus = 1
)

// YieldStatus reads the status of a yield.
func (u *TrieUpdate) YieldStatus(a primitives.AccountID, data primitives.Hash) (s YieldStatus, found bool, err error) {
	value, err := u.Get(u.accountHashKey(primitives.ColPromiseYieldStatus, a, data))
	if value == nil || err != nil {
		return 0, false, err
	}
	if len(value) != 1 || value[0] > byte(ResumeInitiated) {
		return 0, false, Inconsistent("yield status %x", value)
	}
	return YieldStatus(value[0]), true, nil
}

// HasYieldStatus returns whether the yield has a status. HasYieldStatus does not read the status.
func (u *TrieUpdate) HasYieldStatus(a primitives.AccountID, data primitives.Hash) (bool, error) {
	return u.Contains(u.accountHashKey(primitives.ColPromiseYieldStatus, a, data))
}

// SetYieldStatus writes the status of a yield.
func (u *TrieUpdate) SetYieldStatus(a primitives.AccountID, data primitives.Hash, s YieldStatus) {
	u.Set(u.accountHashKey(primitives.ColPromiseYieldStatus, a, data), u.values.copy([]byte{byte(s)}))
}

// RemoveYieldStatus removes the status of a yield.
func (u *TrieUpdate) RemoveYieldStatus(a primitives.AccountID, data primitives.Hash) {
	u.Remove(u.accountHashKey(primitives.ColPromiseYieldStatus, a, data))
}

// DataIDOfYield returns the data id that belongs to a yield id. A contract chooses the yield id, the
// runtime the data id.
func (u *TrieUpdate) DataIDOfYield(a primitives.AccountID, yield primitives.Hash) (data primitives.Hash, found bool, err error) {
	return u.getHash(u.accountHashKey(primitives.ColYieldIDToDataID, a, yield))
}

// HasYieldID returns whether the account has a yield with this yield id. HasYieldID does not read
// the data id.
func (u *TrieUpdate) HasYieldID(a primitives.AccountID, yield primitives.Hash) (bool, error) {
	return u.Contains(u.accountHashKey(primitives.ColYieldIDToDataID, a, yield))
}

// YieldIDOfData returns the yield id that belongs to a data id.
func (u *TrieUpdate) YieldIDOfData(a primitives.AccountID, data primitives.Hash) (yield primitives.Hash, found bool, err error) {
	return u.getHash(u.accountHashKey(primitives.ColDataIDToYieldID, a, data))
}

// SetYieldID records that a yield id and a data id belong together.
func (u *TrieUpdate) SetYieldID(a primitives.AccountID, yield, data primitives.Hash) {
	u.setHash(u.accountHashKey(primitives.ColYieldIDToDataID, a, yield), data)
	u.setHash(u.accountHashKey(primitives.ColDataIDToYieldID, a, data), yield)
}

// RemoveYieldID removes the records that SetYieldID wrote.
func (u *TrieUpdate) RemoveYieldID(a primitives.AccountID, yield, data primitives.Hash) {
	u.Remove(u.accountHashKey(primitives.ColYieldIDToDataID, a, yield))
	u.Remove(u.accountHashKey(primitives.ColDataIDToYieldID, a, data))
}
