package storage

import (
	"bytes"
	"encoding/binary"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Items refer to hashes that are stored elsewhere in the record, because hashes do not compress.

// appendNamed appends a transaction: first the index of the transaction's outcome plus one, or 0
// and the transaction's hash if there is no outcome; then the transaction's bytes.
func appendNamed(b []byte, id primitives.Hash, value []byte, index map[primitives.Hash]int) []byte {
	if at, ok := index[id]; ok {
		return append(binary.AppendUvarint(b, uint64(at)+1), value...)
	}
	return append(append(append(b, 0), id[:]...), value...)
}

// parseNamed reverses appendNamed. ids are the IDs of the chunk's outcomes. outcome is the index of
// the transaction's outcome, or -1 if the transaction has no outcome.
func parseNamed(item, ids []byte) (t Transaction, outcome int, err error) {
	r := borsh.NewReader(item)
	outcome = -1
	if n := readUvarint(r); n == 0 {
		t.Hash = primitives.ReadHash(r)
	} else if n <= uint64(len(ids)/32) {
		outcome = int(n - 1)
		t.Hash = primitives.Hash(ids[32*outcome : 32*outcome+32])
	} else {
		r.Failf("transaction refers to outcome %d of %d", n-1, len(ids)/32)
	}
	t.Value = r.Rest()
	if err := r.Err(); err != nil {
		return Transaction{}, -1, damaged("transaction: %w", err)
	}
	return t, outcome, nil
}

// appendInside appends a receipt: a number, then the ID if the number is 0, then the receipt's
// bytes. The number is the offset of the ID in the receipt's bytes plus one, or 0 if these bytes do
// not contain the ID.
func appendInside(b []byte, id primitives.Hash, value []byte) []byte {
	if at := bytes.Index(value, id[:]); at >= 0 {
		return append(binary.AppendUvarint(b, uint64(at)+1), value...)
	}
	return append(append(append(b, 0), id[:]...), value...)
}

func parseInside(item []byte) (Receipt, error) {
	r := borsh.NewReader(item)
	var out Receipt
	n := readUvarint(r)
	if n == 0 {
		out.ID = primitives.ReadHash(r)
	}
	out.Value = r.Rest()
	if n > 0 {
		if n-1 > uint64(len(out.Value)) || uint64(len(out.Value))-(n-1) < 32 {
			r.Failf("receipt id at byte %d of %d", n-1, len(out.Value))
		} else {
			out.ID = primitives.Hash(out.Value[n-1 : n+31])
		}
	}
	if err := r.Err(); err != nil {
		return Receipt{}, damaged("receipt: %w", err)
	}
	return out, nil
}
