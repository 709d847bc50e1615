package statesync

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"
	"unsafe"

	"github.com/klauspost/compress/zstd"

	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// MaxProof is the maximum number of bytes of a decompressed proof (nearcore epoch_sync.rs:31).
const MaxProof = 500 << 20

// MaxPart is the maximum number of bytes of a part, as it is sent and decompressed. nearcore accepts
// 512 MB (core/primitives/src/state_part.rs:9), but it divides a state into parts of 30 MiB of memory
// usage, which counts more than a part contains. Only the last value of a part may be above that.
const MaxPart = 64 << 20

// MaxPartStrings is the maximum number of strings in a part. The maximum is twice the number of
// strings that a part with a memory usage of 30 MiB can have: each string counts as at least 50
// bytes (near-primitives 0.38.0 src/state_part.rs PART_ENTRY_LIMIT).
const MaxPartStrings = 2 * (30 << 20) / 50

// Bounds of the memory of decoded lists, in bytes. A decoded list may be larger than its encoding.
// The lists of a part may take partRoom bytes. The lists of a proof may take proofRoom bytes plus
// twice the proof's length: a validator without an approval takes 57 bytes encoded and 64 bytes
// decoded.
const (
	partRoom  = MaxPartStrings * int(unsafe.Sizeof([]byte(nil)))
	proofRoom = 16 << 20
)

// ErrPacked means that data does not decompress or decode. The sender of the data is at fault.
var ErrPacked = errors.New("state sync: invalid encoding")

var packer = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(fmt.Sprintf("statesync: zstd: %v", err)) // only invalid options give an error
	}
	return e
})

// unpack decompresses at most limit bytes. Errors: ErrPacked.
func unpack(in []byte, limit uint64) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(limit))
	if err != nil {
		panic(fmt.Sprintf("statesync: zstd: %v", err))
	}
	defer d.Close()
	out, err := d.DecodeAll(in, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPacked, err)
	}
	return out, nil
}

// PackPart encodes a part as neard sends it: a PartialState, compressed with zstd. strings are the
// trie nodes of the part.
func PackPart(number uint64, strings [][]byte) *primitives.StatePart {
	raw := borsh.AppendSlice([]byte{0}, strings, func(b []byte, s *[]byte) []byte { return borsh.AppendBytes(b, *s) })
	return &primitives.StatePart{Number: number, Compressed: true, Body: packer().EncodeAll(raw, nil)}
}

// partHeadLen is the length of a PartialState's tag and count.
const partHeadLen = 1 + 4

// checkPartHead checks the tag and the number of strings at the start of a part. Errors: ErrPacked.
func checkPartHead(part []byte) error {
	r := borsh.NewReader(part)
	if tag := r.Byte(); tag != 0 {
		r.BadTag("PartialState", tag)
	}
	n := r.Uint32()
	if r.Err() != nil {
		return fmt.Errorf("%w: %w", ErrPacked, r.Err())
	}
	if n > MaxPartStrings {
		return fmt.Errorf("%w: %w: a part has %d strings, the limit is %d", ErrPacked, borsh.ErrTooMuch, n, MaxPartStrings)
	}
	return nil
}

// unpackPart decompresses a part. unpackPart checks the tag and the count of strings before it
// decompresses the rest. Errors: ErrPacked.
func unpackPart(in []byte) ([]byte, error) {
	d, err := zstd.NewReader(bytes.NewReader(in), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxPart),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		panic(fmt.Sprintf("statesync: zstd: %v", err)) // only invalid options give an error
	}
	defer d.Close()
	head := make([]byte, partHeadLen)
	n, err := io.ReadFull(d, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%w: %w", ErrPacked, err)
	}
	if err := checkPartHead(head[:n]); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	var frame zstd.Header
	if frame.Decode(in) == nil && frame.HasFCS { // the sender claims this length, so this node bounds it
		out.Grow(int(min(frame.FrameContentSize, uint64(16*len(in)))) + bytes.MinRead)
	}
	out.Write(head)
	if _, err := out.ReadFrom(io.LimitReader(d, MaxPart+1-partHeadLen)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPacked, err)
	}
	if out.Len() > MaxPart {
		return nil, fmt.Errorf("%w: the part has more than %d bytes, the limit", ErrPacked, MaxPart)
	}
	return out.Bytes(), nil
}

// UnpackPart decodes a part. The number of strings is checked before the rest is decompressed.
// Errors: ErrPacked.
func UnpackPart(p *primitives.StatePart) ([][]byte, error) {
	body := p.Body
	if len(body) > MaxPart {
		return nil, fmt.Errorf("%w: the part has %d bytes, more than %d, the limit", ErrPacked, len(body), MaxPart)
	}
	if p.Compressed {
		var err error
		if body, err = unpackPart(body); err != nil {
			return nil, err
		}
	} else if err := checkPartHead(body); err != nil {
		return nil, err
	}
	r := borsh.NewReaderWithin(body[1:], partRoom)
	out := borsh.Slice(r, 4, (*borsh.Reader).BytesCopy)
	if err := r.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPacked, err)
	}
	return out, nil
}

// PackProof encodes an epoch sync proof as neard sends it.
func PackProof(p *headerchain.EpochProof) []byte { return packer().EncodeAll(p.AppendBorsh(nil), nil) }

// UnpackProof decodes an epoch sync proof. UnpackProof does not verify the proof. Errors:
// ErrPacked.
func UnpackProof(in []byte) (*headerchain.EpochProof, error) {
	raw, err := unpack(in, MaxProof)
	if err != nil {
		return nil, err
	}
	p := new(headerchain.EpochProof)
	if err := borsh.UnmarshalWithin(raw, p, proofRoom+2*len(raw)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPacked, err)
	}
	return p, nil
}
