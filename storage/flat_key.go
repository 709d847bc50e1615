package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// shardBound returns whether the keys of a trie column in Flat contain the shard. The keys of
// queues, buffers, the bandwidth scheduler and global contract code contain the shard, because each
// shard has its own rows of these kinds. All other columns belong to accounts. An account is in one
// shard at a time, so its rows need no shard in the key, and resharding moves no row (nearcore
// core/store/src/trie/ops/resharding.rs:33).
func shardBound(col byte) bool {
	switch primitives.TrieColumn(col) {
	case primitives.ColDelayedReceipt, primitives.ColPromiseYieldIndices, primitives.ColPromiseYieldTimeout,
		primitives.ColBufferedReceiptIndices, primitives.ColBufferedReceipt, primitives.ColBandwidthScheduler,
		primitives.ColBufferedGroups, primitives.ColBufferedGroup, primitives.ColGlobalContractCode,
		primitives.ColGlobalContractNonce:
		return true
	}
	return false
}

// flatKey returns the key of Flat for a trie key. Where the column is shard-bound, the shard ID
// follows the column byte, so that one column of one shard is a contiguous range in trie order.
func flatKey(shard primitives.ShardID, key []byte) string {
	if len(key) == 0 || !shardBound(key[0]) {
		return string(key)
	}
	b := append(make([]byte, 0, len(key)+8), key[0])
	b = binary.BigEndian.AppendUint64(b, uint64(shard))
	return string(append(b, key[1:]...))
}

// trieKey reverses flatKey. The result is fresh memory.
func trieKey(flat []byte) []byte {
	if len(flat) < 9 || !shardBound(flat[0]) {
		return bytes.Clone(flat)
	}
	return append([]byte{flat[0]}, flat[9:]...)
}

// undoKey names a change of a flat key by the block at height, in the history bucket of that
// height.
type undoKey struct {
	bucket primitives.Height
	flat   string
	height primitives.Height
}

func (k undoKey) String() string { return fmt.Sprintf("%x %d", k.flat, k.height) }

// appendUndoKey escapes the key, 00 as 00 ff, and ends it with 00 01. A flat key may be a prefix of
// another flat key. Without the escaping, the entries of two such keys would mix, or would not be
// in the order that a prefix scan needs.
func appendUndoKey(b []byte, k undoKey) []byte {
	return appendHeight(append(escape(appendHeight(b, k.bucket), k.flat), 0, 1), k.height)
}

func escape(b []byte, s string) []byte {
	for i := range len(s) {
		if b = append(b, s[i]); s[i] == 0 {
			b = append(b, 0xff)
		}
	}
	return b
}

func parseUndoKey(key []byte) (undoKey, bool) {
	bucket, key, ok := cutBucket(key)
	if !ok || len(key) < 10 {
		return undoKey{}, false
	}
	esc, height := key[:len(key)-10], key[len(key)-8:]
	if key[len(key)-10] != 0 || key[len(key)-9] != 1 {
		return undoKey{}, false
	}
	flat := make([]byte, 0, len(esc))
	for i := 0; i < len(esc); i++ {
		flat = append(flat, esc[i])
		if esc[i] == 0 {
			if i++; i == len(esc) || esc[i] != 0xff {
				return undoKey{}, false
			}
		}
	}
	return undoKey{bucket, string(flat), primitives.Height(binary.BigEndian.Uint64(height))}, true
}

// undoValue locates a change in the canonical block at the key's height. That change holds the
// value that the key had before the block.
type undoValue struct {
	shard primitives.ShardID
	item  int
}

// AppendBorsh appends two varints.
func (v undoValue) AppendBorsh(b []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(v.shard)), uint64(v.item))
}

// DecodeBorsh reads two varints.
func (v *undoValue) DecodeBorsh(r *borsh.Reader) {
	*v = undoValue{primitives.ShardID(readUvarint(r)), readInt(r)}
}

// frontierKey is a path in a shard's trie, one nibble a byte, on a level of the frontier.
type frontierKey struct {
	shard primitives.ShardID
	level uint8
	path  string
}

func appendFrontierKey(b []byte, k frontierKey) []byte {
	return append(append(binary.BigEndian.AppendUint64(b, uint64(k.shard)), k.level), k.path...)
}

// FrontierNode is a trie subtree of which the store keeps only hash and memory usage. All such
// subtrees of a shard are its frontier, from which a restart rebuilds the trie (package trie).
type FrontierNode struct {
	Level       uint8
	Path        []byte // one nibble per byte
	Hash        primitives.Hash
	MemoryUsage uint64
}

// frontierValue is the value of a frontier row, of frontierValueSize bytes.
type frontierValue struct {
	hash  primitives.Hash
	usage uint64
}

const frontierValueSize = 40

// AppendBorsh appends hash and memory usage.
func (s frontierValue) AppendBorsh(b []byte) []byte {
	return borsh.AppendUint64(append(b, s.hash[:]...), s.usage)
}

// DecodeBorsh reads hash and memory usage.
func (s *frontierValue) DecodeBorsh(r *borsh.Reader) {
	*s = frontierValue{primitives.ReadHash(r), r.Uint64()}
}
