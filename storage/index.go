package storage

import (
	"bytes"
	"encoding/binary"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// index is an ordered map on disk. levelIndex implements it with goleveldb. A replacement of
// goleveldb must implement these methods and disk.openIndex.
type index interface {
	Reader
	// snapshot returns the map as it is now. The caller must release it.
	snapshot() (snapshot, error)
	// write applies a batch atomically. If synced is set, the batch and all writes before it
	// survive a power cut once write has returned. Of the writes after the last synced write, a
	// power cut may leave any subset, each write whole.
	write(b *Batch, synced bool) error
	// rotate moves the writes so far from the journal to a table.
	rotate() error
	// compact compacts all tables, so that a lookup visits one table and no compaction is due.
	// compact may take long. Reads and writes continue meanwhile.
	compact() error
	// frozen returns n cursors over the map as it is now. The cursors may miss the latest writes
	// and may not detect damage, so use the cursors only for values that are verified by hash.
	frozen(n int) []cursor
	stats(*Stats)
	// flushes returns the number of sorted runs above level 1 that a lookup has to visit, and the
	// size of the index on disk in bytes.
	flushes() (n int, size int64)
	close() error
}

// Getter reads single rows.
type Getter interface {
	get(key []byte) ([]byte, error) // returns a copy of the value; ErrNotFound if absent
}

// Reader reads single rows and ranges: the index or a snapshot of it.
type Reader interface {
	Getter
	iterate(lo, hi []byte) cursor // iterates over keys in [lo, hi), nil hi: no bound; call cursor.done at the end
}

// snapshot is an index at one moment.
type snapshot interface {
	Reader
	release()
}

// cursor walks keys in ascending order. Key and value are valid until the next step.
type cursor interface {
	next() bool
	seek(key []byte) bool // moves to the first key that is at least key
	valid() bool
	key() []byte
	value() []byte
	done() error // releases the cursor and returns the error that ended the iteration, if any
}

// Batch gathers writes that are applied together, in order. Batches in log records have the same
// encoding as in memory. The zero value is empty.
type Batch struct {
	b []byte // encoded writes: for each op, length and key, and for opPut also length and value
	n int
	// scratch memory of the columns
	key, value []byte
}

const (
	opDelete = 0
	opPut    = 1
)

func (b *Batch) put(key, value []byte) {
	b.b = appendVarBytes(appendVarBytes(append(b.b, opPut), key), value)
	b.n++
}

func (b *Batch) delete(key []byte) {
	b.b = appendVarBytes(append(b.b, opDelete), key)
	b.n++
}

// add appends the writes of another batch.
func (b *Batch) add(o *Batch) {
	b.b = append(b.b, o.b...)
	b.n += o.n
}

// Len returns the number of writes.
func (b *Batch) Len() int { return b.n }

// Size returns the bytes of the writes.
func (b *Batch) Size() int { return len(b.b) }

// Reset empties the batch and keeps the batch's memory.
func (b *Batch) Reset() { b.b, b.n = b.b[:0], 0 }

// maxKept is the largest memory of a batch that is kept for reuse by the next batch. Successive
// batches are of similar size, and growing a buffer from nothing copies it several times.
const maxKept = 4 << 20

// begin empties a used batch. begin keeps the batch's memory up to maxKept.
func (b *Batch) begin() {
	if cap(b.b) > maxKept {
		b.b = nil
	}
	b.Reset()
}

// each calls f for each write. A nil value means a deletion. The slices belong to the batch.
func (b *Batch) each(f func(key, value []byte)) {
	for p := b.b; len(p) > 0; {
		op, key := p[0], []byte(nil)
		key, p = cutVarBytes(p[1:])
		if op == opDelete {
			f(key, nil)
			continue
		}
		var value []byte
		value, p = cutVarBytes(p)
		f(key, value)
	}
}

// cutVarBytes splits off length-prefixed bytes, which must be well-formed. v is never nil.
func cutVarBytes(p []byte) (v, rest []byte) {
	n, size := binary.Uvarint(p)
	return p[size : size+int(n) : size+int(n)], p[size+int(n):]
}

// parseBatch checks and returns a batch that was read.
func parseBatch(raw []byte) (*Batch, error) {
	b := &Batch{b: raw}
	r := borsh.NewReader(raw)
	for r.Err() == nil && r.Remaining() > 0 {
		op := r.Byte()
		readVarBytes(r)
		switch op {
		case opDelete:
		case opPut:
			readVarBytes(r)
		default:
			r.BadTag("write", op)
		}
		b.n++
	}
	if err := r.Err(); err != nil {
		return nil, damaged("batch: %w", err)
	}
	return b, nil
}

// PrefixEnd returns the first key after all keys with a prefix. It returns nil if there is no such
// key.
func PrefixEnd(p []byte) []byte {
	end := bytes.Clone(p)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

func deleteRange(r Reader, batch *Batch, lo, hi []byte) error {
	cur := r.iterate(lo, hi)
	for cur.next() {
		batch.delete(cur.key())
	}
	return cur.done()
}
