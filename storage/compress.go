package storage

import (
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Compression methods. The numbers are on disk.
const (
	plain      = 0
	zstdFrame  = 1 // method for frames of the log, which repeat zeros and names
	snappyCell = 2 // method for values in Flat, which are short and read often
)

// maxFrame bounds the uncompressed size of a frame. A frame with a single large item may exceed
// frameSize, but never maxFrame.
const maxFrame = 1 << 30

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// coders holds the zstd state. The state is created at first use, so an idle node has no zstd
// state.
var coders struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
}

func initCoders() {
	var err error
	coders.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(64<<10), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(fmt.Sprintf("storage: zstd options: %v", err))
	}
	coders.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(4), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(maxFrame))
	if err != nil {
		panic(fmt.Sprintf("storage: zstd options: %v", err))
	}
}

// compress appends raw, compressed if that is shorter, to dst and returns the method used.
func compress(dst, raw []byte) ([]byte, byte) {
	const worth = 512 // bytes; below, the gain is small and an attempt takes 10 us
	if len(raw) < worth {
		return append(dst, raw...), plain
	}
	coders.once.Do(initCoders)
	start := len(dst)
	dst = coders.enc.EncodeAll(raw, dst)
	if len(dst)-start >= len(raw) {
		return append(dst[:start], raw...), plain
	}
	return dst, zstdFrame
}

// decompress reverses compress. size is the expected unpacked size.
func decompress(stored []byte, method byte, size int) ([]byte, error) {
	switch {
	case size < 0 || size > maxFrame:
		return nil, damaged("a frame states a length of %d bytes", size)
	case method == plain && len(stored) == size:
		return stored, nil
	case method == zstdFrame:
		coders.once.Do(initCoders)
		// The frame itself states its true size too. A wrong size leads to an error and not to a
		// large allocation, because the buffer grows only as decompressed bytes arrive.
		raw, err := coders.dec.DecodeAll(stored, make([]byte, 0, min(size, 64*len(stored)+4096)))
		if err != nil {
			return nil, damaged("%w", err)
		}
		if len(raw) != size {
			return nil, damaged("a frame decompresses to %d bytes, expected %d", len(raw), size)
		}
		return raw, nil
	}
	return nil, damaged("a frame has the unknown compression method %d (%d bytes for %d)", method, len(stored), size)
}

// packed is a value of Flat: a tag of the compression method, then the bytes or their snappy
// encoding. Compression pays because about half of an account's bytes are zeros.
type packed []byte

// AppendBorsh appends the packed form.
func (v packed) AppendBorsh(b []byte) []byte {
	if len(v) >= 32 {
		b = append(b, snappyCell)
		start := len(b)
		need := snappy.MaxEncodedLen(len(v))
		if need > 0 {
			b = append(b, make([]byte, need)...)
			n := len(snappy.Encode(b[start:], v))
			if n < len(v) {
				return b[:start+n]
			}
		}
		b = b[:start-1]
	}
	return append(append(b, plain), v...)
}

// DecodeBorsh reads the packed form.
func (v *packed) DecodeBorsh(r *borsh.Reader) {
	out, err := unpack(nil, r.Take(r.Remaining()))
	if err != nil {
		r.Fail(err)
		return
	}
	*v = out
}

// unpack returns the value of packed bytes, never nil. unpack uses dst's memory if there is room.
func unpack(dst, in []byte) ([]byte, error) {
	if len(in) == 0 {
		return nil, errors.New("packed value without a tag")
	}
	tag, in := in[0], in[1:]
	switch tag {
	case plain:
		if dst == nil {
			dst = []byte{}
		}
		return append(dst[:0], in...), nil
	case snappyCell:
		n, err := snappy.DecodedLen(in)
		// A copy element of snappy has 2 or 3 bytes and yields at most 64, so a greater claimed
		// length is wrong.
		if err != nil || n == 0 || n > 64*len(in) {
			return nil, fmt.Errorf("the packed value states %d bytes, more than its %d bytes of snappy can contain", n, len(in))
		}
		return snappy.Decode(dst[:cap(dst)], in)
	}
	return nil, fmt.Errorf("packed value has the unknown tag %d", tag)
}
