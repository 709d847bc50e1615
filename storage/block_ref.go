package storage

import (
	"encoding/binary"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
)

// BlockRef names a block. Two blocks of one height have different hashes.
type BlockRef struct {
	Height primitives.Height
	Hash   primitives.Hash
}

func (r BlockRef) String() string { return fmt.Sprintf("%d %v", r.Height, r.Hash) }

// IsZero returns whether r names no block.
func (r BlockRef) IsZero() bool { return r == BlockRef{} }

func appendRef(b []byte, r BlockRef) []byte { return appendHash(appendHeight(b, r.Height), r.Hash) }

const refLen = 8 + 32

func parseRef(key []byte) (BlockRef, bool) {
	if len(key) != refLen {
		return BlockRef{}, false
	}
	return BlockRef{primitives.Height(binary.BigEndian.Uint64(key)), primitives.Hash(key[8:])}, true
}

func heightOf(key []byte) primitives.Height {
	if len(key) < 8 {
		return 0
	}
	return primitives.Height(binary.BigEndian.Uint64(key))
}

// shortLen is the number of bytes of a hash that pointers keep. With 2^32 work an attacker can make
// two transactions with hashes that share these bytes. So a reader visits all pointers with the
// prefix, and compares the whole hash of each target with the hash that the reader looks for.
const shortLen = 8

type shortRef struct {
	hash   primitives.Hash // the first shortLen bytes of a hash; the rest is unused
	height primitives.Height
}

func appendShortRef(b []byte, r shortRef) []byte {
	return appendHeight(append(b, r.hash[:shortLen]...), r.height)
}

// pointer leads from an ID to a place in a canonical block.
type pointer struct {
	id     primitives.Hash // the first shortLen bytes of a hash; the rest is unused
	height primitives.Height
	shard  primitives.ShardID
	index  int // index in the block's list of transactions or receipts
}

// appendPointer encodes a pointer. A height takes six bytes, which keeps keys small and suffices
// for nine thousand years of one block each millisecond.
func appendPointer(b []byte, p pointer) []byte {
	if p.height >= 1<<48 || p.index < 0 {
		panic(fmt.Sprintf("storage: pointer to height %d index %d", p.height, p.index))
	}
	b = append(b, p.id[:shortLen]...)
	var h [8]byte
	binary.BigEndian.PutUint64(h[:], uint64(p.height))
	b = append(b, h[2:]...)
	b = binary.AppendUvarint(b, uint64(p.shard))
	return binary.AppendUvarint(b, uint64(p.index))
}

func parsePointer(key []byte) (pointer, bool) {
	var p pointer
	if len(key) < shortLen+6+2 {
		return p, false
	}
	copy(p.id[:], key[:shortLen])
	var h [8]byte
	copy(h[2:], key[shortLen:shortLen+6])
	p.height = primitives.Height(binary.BigEndian.Uint64(h[:]))
	rest := key[shortLen+6:]
	shard, n := binary.Uvarint(rest)
	if n <= 0 {
		return p, false
	}
	index, m := binary.Uvarint(rest[n:])
	if m <= 0 || n+m != len(rest) || index > 1<<31 {
		return p, false
	}
	p.shard, p.index = primitives.ShardID(shard), int(index)
	return p, true
}
