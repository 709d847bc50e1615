package storage

import (
	"bytes"
	"encoding/binary"

	"github.com/troupe-chain/troupe/primitives/borsh"
)

// index is what the store needs of an ordered map on disk. goleveldb's is levelIndex; another engine needs these few methods and
// openIndex of a disk.
type index interface {
	Reader
	// snapshot is the map as it is now; release it.
	snapshot() (snapshot, error)
	// write applies a batch as one. synced: it and all earlier writes survive a power cut when it returns. Of writes behind the
	// last synced one a power cut leaves any; each of them whole or not at all.
	write(b *Batch, synced bool) error
	// rotate lets what was written so far leave the journal for a table.
	rotate() error
	// trimEnd merges all that is there, so that reads look in one place and nothing is left to be merged. It takes its time; reads and
	// writeBufs go on.
	settle() error
	// frozen returns cursors over the map as it is now, which need not see what was written last, nor notice damage: for who knows by a hash
	// whether it is what he wants.
	frozen(n int) []cursor
	stats(*Stats)
	// flushes is how many places that cover all keys a look has to look into beside the levels below, and what all of it takes on disk.
	flushes() (n int, size int64)
	close() error
}

// Getter is what columns read single rows from.
type Getter interface {
	get(key []byte) ([]byte, error) // fresh memory; ErrNotFound
}

// Reader is what columns read from: the index or a snapshot of it.
type Reader interface {
	Getter
	iterate(lo, hi []byte) cursor // keys in [lo, hi); nil hi: to the end; end it with done
}

// snapshot is an index at one moment.
type snapshot interface {
	Reader
	release()
}

// cursor walks keys upwards. Key and value are valid until the next step.
type cursor interface {
	next() bool
	seek(key []byte) bool // the first key at or above
	valid() bool
	key() []byte
	value() []byte
	done() error // releases it and returns the error that ended it, if one did
}

// Batch gathers writes that are applied together, in their order. Its bytes are on disk where a block puts rows of the engine.
type Batch struct {
	b []byte // for each write: 0 or 1, the key, and with 1 the value, each with its length
	n int
	// where columns make key and value
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

// Size returns their bytes.
func (b *Batch) Size() int { return len(b.b) }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() { b.b, b.n = b.b[:0], 0 }

// maxKept is how many bytes of a batch stay for the next one: folds are alike, and memory that grows piece by piece is copied as often.
const maxKept = 4 << 20

// begin makes an empty batch of one that was used, in its memory if that is not much.
func (b *Batch) begin() {
	if cap(b.b) > maxKept {
		b.b = nil
	}
	b.Reset()
}

// each calls f for each write; a nil value deletes. What f gets belongs to the batch.
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

// cutVarBytes is for bytes of our own or that were checked; it never returns nil.
func cutVarBytes(p []byte) (v, rest []byte) {
	n, size := binary.Uvarint(p)
	return p[size : size+int(n) : size+int(n)], p[size+int(n):]
}

// parseBatch checks a batch that was read.
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

// PrefixEnd returns the first key behind all keys with that prefix; nil: there is none.
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
