package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Change is the effect of one block on one key of a shard's trie. A Change serves as the delta of a
// fork, as the undo log, and as the source of the changes RPC. A nil value means that the key is
// absent. An empty value is not nil.
type Change struct {
	primitives.KeyChanges        // key and new values of the writes; at least one
	Old                   []byte // value before the block; nil: absent
}

// Tags of values in an encoded change.
const (
	valueNone = 0
	valueHere = 1
)

// Tags of the hash of an encoded cause: 0 means no hash, 1 that the hash follows, n >= 2 that it is
// the ID of the chunk's outcome n-2. Nearly all causes are outcomes of the same chunk, so the tag
// saves storing hashes, which cannot be compressed.
const (
	hashNone   = 0
	hashInline = 1
	hashFirst  = 2
)

func appendValue(b, v []byte) []byte {
	if v == nil {
		return append(b, valueNone)
	}
	return appendVarBytes(append(b, valueHere), v)
}

func readValue(r *borsh.Reader) []byte {
	switch tag := r.Byte(); tag {
	case valueNone:
		return nil
	case valueHere:
		if v := readVarBytes(r); v != nil {
			return v
		}
		return []byte{}
	default:
		r.BadTag("value", tag)
		return nil
	}
}

// appendChange appends the log encoding of c. index maps the chunk's outcome IDs to the numbers of
// the outcomes.
func appendChange(b []byte, c *Change, index map[primitives.Hash]int) []byte {
	b = appendVarBytes(b, c.Key)
	b = appendValue(b, c.Old)
	b = binary.AppendUvarint(b, uint64(len(c.Changes)))
	for i := range c.Changes {
		w := &c.Changes[i]
		b = append(b, byte(w.Cause.Kind))
		if at, ok := index[w.Cause.Hash]; ok {
			b = binary.AppendUvarint(b, uint64(at)+hashFirst)
		} else if w.Cause.Hash.IsZero() {
			b = append(b, hashNone)
		} else {
			b = append(append(b, hashInline), w.Cause.Hash[:]...)
		}
		b = appendValue(b, w.Value)
	}
	return b
}

// parseChange decodes an item. ids are the chunk's outcome IDs, 32 bytes each. The result aliases
// item.
func parseChange(item, ids []byte) (Change, error) {
	r := borsh.NewReader(item)
	c := Change{KeyChanges: primitives.KeyChanges{Key: readVarBytes(r)}, Old: readValue(r)}
	for range readCount(r, 3) {
		w := primitives.StateChange{Cause: primitives.StateChangeCause{Kind: primitives.CauseKind(r.Byte())}}
		switch n := readUvarint(r); {
		case n == hashNone:
		case n == hashInline:
			w.Cause.Hash = primitives.ReadHash(r)
		case n-hashFirst < uint64(len(ids)/32):
			copy(w.Cause.Hash[:], ids[32*(n-hashFirst):])
		default:
			r.Failf("cause refers to outcome %d of %d", n-hashFirst, len(ids)/32)
		}
		w.Value = readValue(r)
		c.Changes = append(c.Changes, w)
	}
	if r.Err() == nil && len(c.Changes) == 0 {
		r.Failf("change without a write")
	}
	if err := r.Close(); err != nil {
		return Change{}, damaged("change: %w", err)
	}
	return c, nil
}

// checkChanges returns an error if a list cannot be stored: keys must ascend and not be empty, and
// each needs a write.
func checkChanges(cs []Change) error {
	for i := range cs {
		switch {
		case len(cs[i].Key) == 0:
			return fmt.Errorf("change %d: the key is empty", i)
		case len(cs[i].Changes) == 0:
			return fmt.Errorf("change %d of key %x has no value, must have at least 1", i, cs[i].Key)
		case i > 0 && bytes.Compare(cs[i-1].Key, cs[i].Key) >= 0:
			return fmt.Errorf("change %d: key %x is not above the key before, %x", i, cs[i].Key, cs[i-1].Key)
		}
	}
	return nil
}
