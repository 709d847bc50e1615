package history

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/troupe-chain/troupe/chain/blockdoc"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
)

// A record is, little-endian: u32 length of the rest after the checksum, u32 CRC-32C of that rest,
// u64 height, 32 bytes block hash, u32 length of the JSON, the JSON as a zstd frame.
const (
	recordFrame  = 8
	recordPrefix = recordFrame + 8 + 32 + 4
	maxRecord    = blockdoc.MaxDocument + 1<<20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// coder holds the zstd state of a store, which is created at first use. Safe for concurrent use, but
// one record is encoded at a time.
type coder struct {
	once sync.Once
	enc  *zstd.Encoder
	dec  *zstd.Decoder
}

func (c *coder) init() {
	var err error
	c.enc, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic(fmt.Sprintf("history: zstd options: %v", err))
	}
	c.dec, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(maxDecoders), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(blockdoc.MaxDocument), zstd.WithDecoderMaxWindow(8<<20))
	if err != nil {
		panic(fmt.Sprintf("history: zstd options: %v", err))
	}
}

// appendRecord appends the record of a block with the JSON text.
func (c *coder) appendRecord(b []byte, height primitives.Height, hash primitives.Hash, text []byte) []byte {
	c.once.Do(c.init)
	start := len(b)
	b = append(b, make([]byte, recordFrame)...)
	b = binary.LittleEndian.AppendUint64(b, uint64(height))
	b = append(b, hash[:]...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = c.enc.EncodeAll(text, b)
	rest := b[start+recordFrame:]
	binary.LittleEndian.PutUint32(b[start:], uint32(len(rest)))
	binary.LittleEndian.PutUint32(b[start+4:], crc32.Checksum(rest, castagnoli))
	return b
}

// decodeRecord returns what appendRecord was given. The record must fill b. Errors: ErrDamaged.
func (c *coder) decodeRecord(b []byte) (height primitives.Height, hash primitives.Hash, text []byte, err error) {
	if len(b) < recordPrefix {
		return 0, hash, nil, damaged("a record has %d bytes", len(b))
	}
	rest := b[recordFrame:]
	if n := binary.LittleEndian.Uint32(b); int64(n) != int64(len(rest)) {
		return 0, hash, nil, damaged("a record states %d bytes and has %d", n, len(rest))
	}
	if crc32.Checksum(rest, castagnoli) != binary.LittleEndian.Uint32(b[4:]) {
		return 0, hash, nil, damaged("a record differs from its checksum")
	}
	height = primitives.Height(binary.LittleEndian.Uint64(rest))
	copy(hash[:], rest[8:])
	size := binary.LittleEndian.Uint32(rest[40:])
	if size > blockdoc.MaxDocument {
		return 0, hash, nil, damaged("a record states a document of %d bytes", size)
	}
	c.once.Do(c.init)
	frame := rest[44:]
	// The buffer grows only as decompressed bytes arrive, so a wrong size allocates little.
	text, err = c.dec.DecodeAll(frame, make([]byte, 0, min(int(size), 64*len(frame)+4096)))
	if err != nil {
		return 0, hash, nil, damaged("%w", err)
	}
	if len(text) != int(size) {
		return 0, hash, nil, damaged("a document decompresses to %d bytes, expected %d", len(text), size)
	}
	return height, hash, text, nil
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("history: %w: %w", storage.ErrDamaged, fmt.Errorf(format, args...))
}
