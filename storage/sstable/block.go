package sstable

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"

	"github.com/golang/snappy"
)

// read reads a block into the two buffers and returns the block. read does not check the block's
// checksum, because callers verify by hash what they read.
func (p blockPlace) read(f io.ReaderAt, raw, block *[]byte) ([]byte, error) {
	n := int(p.length) + blockTrailer
	b := slices.Grow((*raw)[:0], n)[:n]
	*raw = b
	if _, err := f.ReadAt(b, int64(p.at)); err != nil {
		return nil, err
	}
	switch b[p.length] {
	case 0:
		// Swap the buffers, so that the returned bytes stay valid until the next read.
		*raw, *block = *block, *raw
		return b[:p.length], nil
	case 1:
		size, err := snappy.DecodedLen(b[:p.length])
		if err != nil || size > maxBlock {
			return nil, ErrMalformed
		}
		out, err := snappy.Decode((*block)[:cap(*block)], b[:p.length])
		if err != nil {
			return nil, ErrMalformed
		}
		*block = out
		return out, nil
	}
	return nil, ErrMalformed
}

// blockCursor walks the entries of a block.
type blockCursor struct {
	b []byte // encoded entries of the block
	// restarts has four bytes for each offset in b of an entry with an unabridged key. Such an
	// entry shares no key prefix with the previous entry.
	restarts []byte
	at       int    // offset in b of the next entry
	key      []byte // copy of the current key, with goleveldb's trailer
	value    []byte // current value, a slice of b
}

// reset begins a block.
func (c *blockCursor) reset(b []byte) error {
	if len(b) < 4 {
		return ErrMalformed
	}
	n := uint64(binary.LittleEndian.Uint32(b[len(b)-4:]))
	if n == 0 || 4*(n+1) > uint64(len(b)) {
		return ErrMalformed
	}
	end := len(b) - 4*(int(n)+1)
	c.b, c.restarts, c.at, c.key = b[:end], b[end:len(b)-4], 0, c.key[:0]
	return nil
}

// next moves to the next entry. It returns false at the end.
func (c *blockCursor) next() (bool, error) {
	if c.at >= len(c.b) {
		return false, nil
	}
	b := c.b[c.at:]
	shared, own, length, head := uint64(b[0]), uint64(0), uint64(0), 3
	// Fast path for nearly all entries, whose lengths take one byte each.
	if len(b) >= 3 && b[0]|b[1]|b[2] < 0x80 {
		own, length = uint64(b[1]), uint64(b[2])
	} else {
		var n, m, k int
		if shared, n = binary.Uvarint(b); n <= 0 {
			return false, ErrMalformed
		}
		if own, m = binary.Uvarint(b[n:]); m <= 0 {
			return false, ErrMalformed
		}
		if length, k = binary.Uvarint(b[n+m:]); k <= 0 {
			return false, ErrMalformed
		}
		head = n + m + k
	}
	left := uint64(len(b) - head)
	if shared > uint64(len(c.key)) || own > left || length > left-own || shared+own < keyTrailer {
		return false, ErrMalformed
	}
	c.key = append(c.key[:shared], b[head:head+int(own)]...)
	from := head + int(own)
	c.value = b[from : from+int(length) : from+int(length)]
	c.at += from + int(length)
	return true, nil
}

// user returns the key without goleveldb's trailer. order returns the trailer, which orders the
// writes of a key by time. put returns whether the write was a put.
func (c *blockCursor) user() []byte { return c.key[:len(c.key)-keyTrailer] }
func (c *blockCursor) order() uint64 {
	return binary.LittleEndian.Uint64(c.key[len(c.key)-keyTrailer:])
}
func (c *blockCursor) put() bool { return c.order()&0xff == 1 }

// seek moves to the first entry at or above a key. It returns false if there is no such entry.
func (c *blockCursor) seek(key []byte) (bool, error) {
	lo, hi := 0, len(c.restarts)/4 // the restarts from hi on are at or above the key
	for lo+1 < hi {
		mid := int(uint(lo+hi) >> 1)
		if err := c.restart(mid); err != nil {
			return false, err
		}
		if bytes.Compare(c.user(), key) < 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	if err := c.restart(lo); err != nil {
		return false, err
	}
	for bytes.Compare(c.user(), key) < 0 {
		if more, err := c.next(); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// restart moves to the entry at a restart.
func (c *blockCursor) restart(i int) error {
	at := uint64(binary.LittleEndian.Uint32(c.restarts[4*i:]))
	if at >= uint64(len(c.b)) {
		return ErrMalformed
	}
	c.at, c.key = int(at), c.key[:0]
	more, err := c.next()
	if err == nil && !more {
		err = ErrMalformed
	}
	return err
}
