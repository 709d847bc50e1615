package state

import (
	"cmp"
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// QueueIndices are the bounds of a queue in the state (nearcore TrieQueueIndices). The items of the
// queue have the indices from First to Next-1.
type QueueIndices struct{ First, Next uint64 }

// Len returns the number of items.
func (q QueueIndices) Len() uint64 {
	if q.Next < q.First {
		return 0
	}
	return q.Next - q.First
}

func (q QueueIndices) appendBorsh(b []byte) []byte {
	return borsh.AppendUint64(borsh.AppendUint64(b, q.First), q.Next)
}

func readIndices(r *borsh.Reader) QueueIndices { return QueueIndices{r.Uint64(), r.Uint64()} }

// readIndicesAt reads the QueueIndices stored at a key; zero if the key is absent.
func (u *TrieUpdate) readIndicesAt(key []byte) (q QueueIndices, err error) {
	value, err := u.Get(key)
	if value == nil || err != nil {
		return q, err
	}
	r := borsh.NewReader(value)
	q = readIndices(r)
	if err := r.Close(); err != nil {
		return q, Inconsistent("indices at %x: %w", key, err)
	}
	return q, nil
}

func (u *TrieUpdate) writeIndicesAt(key []byte, q QueueIndices) {
	u.values.room(16)
	from := len(u.values.buf)
	u.values.buf = q.appendBorsh(u.values.buf)
	u.Set(key, u.values.take(from))
}

// DelayedIndices reads the indices of the delayed queue.
func (u *TrieUpdate) DelayedIndices() (QueueIndices, error) {
	return u.readIndicesAt(primitives.DelayedIndicesKey)
}

// PushDelayed appends a receipt to the delayed queue. q must have the queue's current indices.
// PushDelayed updates the indices, in q and in the state.
func (u *TrieUpdate) PushDelayed(q *QueueIndices, x *primitives.StoredReceipt) {
	u.key = primitives.AppendDelayedReceiptKey(u.key[:0], q.Next)
	u.Set(u.key, u.values.encode(x))
	q.Next++
	u.writeIndicesAt(primitives.DelayedIndicesKey, *q)
}

// PopDelayed removes the first receipt of the delayed queue and returns it; nil if the queue is
// empty. If the caller has the result of PeekDelayed for this receipt, the caller passes that
// result as peeked, and PopDelayed does not decode the receipt again. Otherwise peeked is nil.
func (u *TrieUpdate) PopDelayed(q *QueueIndices, peeked *primitives.StoredReceipt) (x *primitives.StoredReceipt, err error) {
	if q.Len() == 0 {
		return nil, nil
	}
	u.key = primitives.AppendDelayedReceiptKey(u.key[:0], q.First)
	value, err := u.Get(u.key)
	if err != nil {
		return nil, err
	}
	if x = peeked; x == nil {
		if x, err = decodeStored(u.key, value); err != nil {
			return nil, err
		}
	}
	u.Remove(u.key)
	q.First++
	u.writeIndicesAt(primitives.DelayedIndicesKey, *q)
	return x, nil
}

// PeekDelayed reads an item of the delayed queue without recording the read.
func (u *TrieUpdate) PeekDelayed(index uint64) (*primitives.StoredReceipt, error) {
	u.key = primitives.AppendDelayedReceiptKey(u.key[:0], index)
	value, err := u.GetPure(u.key)
	if err != nil {
		return nil, err
	}
	return decodeStored(u.key, value)
}

func decodeStored(key, value []byte) (*primitives.StoredReceipt, error) {
	if value == nil {
		return nil, Inconsistent("queued receipt at %x should be in the state", key)
	}
	x := new(primitives.StoredReceipt)
	if err := borsh.Unmarshal(value, x); err != nil {
		return nil, Inconsistent("queued receipt at %x: %w", key, err)
	}
	return x, nil
}

// YieldTimeout is an entry of the timeout queue (nearcore PromiseYieldTimeout).
type YieldTimeout struct {
	Account   primitives.AccountID
	DataID    primitives.Hash
	ExpiresAt primitives.Height
}

// YieldIndices reads the indices of the timeout queue.
func (u *TrieUpdate) YieldIndices() (QueueIndices, error) {
	return u.readIndicesAt(primitives.YieldIndicesKey)
}

// SetYieldIndices writes the indices of the timeout queue.
func (u *TrieUpdate) SetYieldIndices(q QueueIndices) { u.writeIndicesAt(primitives.YieldIndicesKey, q) }

// YieldTimeout reads the entry at an index, which must exist.
func (u *TrieUpdate) YieldTimeout(index uint64) (t YieldTimeout, err error) {
	u.key = primitives.AppendYieldTimeoutKey(u.key[:0], index)
	value, err := u.Get(u.key)
	if err != nil {
		return t, err
	}
	if value == nil {
		return t, Inconsistent("yield timeout #%d should be in the state", index)
	}
	r := borsh.NewReader(value)
	t = YieldTimeout{primitives.ReadAccountID(r), primitives.ReadHash(r), primitives.Height(r.Uint64())}
	if err := r.Close(); err != nil {
		return t, Inconsistent("yield timeout #%d: %w", index, err)
	}
	return t, nil
}

// SetYieldTimeout writes the entry at an index.
func (u *TrieUpdate) SetYieldTimeout(index uint64, t *YieldTimeout) {
	u.values.room(0)
	from := len(u.values.buf)
	u.values.buf = append(t.Account.AppendBorsh(u.values.buf), t.DataID[:]...)
	u.values.buf = borsh.AppendUint64(u.values.buf, uint64(t.ExpiresAt))
	u.key = primitives.AppendYieldTimeoutKey(u.key[:0], index)
	u.Set(u.key, u.values.take(from))
}

// RemoveYieldTimeout removes the entry at an index.
func (u *TrieUpdate) RemoveYieldTimeout(index uint64) {
	u.key = primitives.AppendYieldTimeoutKey(u.key[:0], index)
	u.Remove(u.key)
}

// Buffer describes the queue of receipts that wait to be sent to Shard.
type Buffer struct {
	Shard primitives.ShardID
	QueueIndices
}

// Buffers lists all buffers of a shard, sorted by receiving shard (nearcore BufferedReceiptIndices, a
// map).
type Buffers []Buffer

// Buffers reads the indices of the buffers.
func (u *TrieUpdate) Buffers() (Buffers, error) {
	value, err := u.Get(primitives.BufferedIndicesKey)
	if value == nil || err != nil {
		return nil, err
	}
	r := borsh.NewReader(value)
	bs := borsh.Slice(r, 24, func(r *borsh.Reader) Buffer { return Buffer{primitives.ShardID(r.Uint64()), readIndices(r)} })
	if err := r.Close(); err != nil {
		return nil, Inconsistent("indices of buffers: %w", err)
	}
	if !slices.IsSortedFunc(bs, func(a, b Buffer) int { return cmp.Compare(a.Shard, b.Shard) }) {
		return nil, Inconsistent("indices of buffers are not sorted")
	}
	return bs, nil
}

// To returns the indices of the buffer towards a shard; zero if there is no such buffer.
func (bs Buffers) To(shard primitives.ShardID) QueueIndices {
	for i := range bs {
		if bs[i].Shard == shard {
			return bs[i].QueueIndices
		}
	}
	return QueueIndices{}
}

// at returns the buffer towards a shard. at adds an empty buffer if there is none.
func (bs *Buffers) at(shard primitives.ShardID) *Buffer {
	i := 0
	for i < len(*bs) && (*bs)[i].Shard < shard {
		i++
	}
	if i == len(*bs) || (*bs)[i].Shard != shard {
		*bs = slices.Insert(*bs, i, Buffer{Shard: shard})
	}
	return &(*bs)[i]
}

func (u *TrieUpdate) writeBuffers(bs Buffers) {
	u.values.room(4 + 24*len(bs))
	from := len(u.values.buf)
	u.values.buf = borsh.AppendSlice(u.values.buf, bs, func(b []byte, x *Buffer) []byte {
		return x.appendBorsh(borsh.AppendUint64(b, uint64(x.Shard)))
	})
	u.Set(primitives.BufferedIndicesKey, u.values.take(from))
}

// PushBuffered appends a receipt to the buffer towards a shard.
func (u *TrieUpdate) PushBuffered(bs *Buffers, to primitives.ShardID, x *primitives.StoredReceipt) {
	b := bs.at(to)
	u.key = primitives.AppendBufferedReceiptKey(u.key[:0], to, b.Next)
	u.Set(u.key, u.values.encode(x))
	b.Next++
	u.writeBuffers(*bs)
}

// BufferedReceipt reads a buffered receipt, which must exist, from the trie. BufferedReceipt
// ignores this chunk's writes, because a chunk takes receipts out of a buffer before it adds new
// receipts (nearcore congestion_control.rs:359).
func (u *TrieUpdate) BufferedReceipt(to primitives.ShardID, index uint64) (*primitives.StoredReceipt, error) {
	u.key = primitives.AppendBufferedReceiptKey(u.key[:0], to, index)
	value, err := u.trie.Get(u.key, u.rec)
	if err != nil {
		return nil, err
	}
	return decodeStored(u.key, value)
}

// PopBuffered removes the first n receipts of the buffer towards a shard. n = 0 does nothing.
func (u *TrieUpdate) PopBuffered(bs *Buffers, to primitives.ShardID, n uint64) {
	if n == 0 {
		return
	}
	b := bs.at(to)
	for ; n > 0; n-- {
		u.key = primitives.AppendBufferedReceiptKey(u.key[:0], to, b.First)
		u.Remove(u.key)
		b.First++
	}
	u.writeBuffers(*bs)
}
