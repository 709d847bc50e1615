package statesync

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/troupe-chain/troupe/chain/headerchain"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Bounds of decompressed data, in bytes (nearcore core/primitives/src/state_part.rs:9,
// epoch_sync.rs:31).
const (
	MaxPart  = 512 << 20
	MaxProof = 500 << 20
)

// Memory bounds of decoded lists, in bytes. Lists may take more than their encoding. A part of 30
// MiB memory usage has at most 1.3 million strings: partRoom. A proof may take proofRoom plus twice
// its length: a validator without an approval is 57 bytes encoded and 64 decoded.
const (
	partRoom  = 64 << 20
	proofRoom = 16 << 20
)

// ErrPacked: the data does not decompress or decode. Its sender is at fault.
var ErrPacked = errors.New("state sync: invalid encoding")

var packer = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(fmt.Sprintf("statesync: zstd: %v", err)) // invalid options: a bug
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

// PackPart encodes a part as neard sends it: a PartialState, compressed with zstd.
func PackPart(number uint64, strings [][]byte) *primitives.StatePart {
	raw := borsh.AppendSlice([]byte{0}, strings, func(b []byte, s *[]byte) []byte { return borsh.AppendBytes(b, *s) })
	return &primitives.StatePart{Number: number, Compressed: true, Body: packer().EncodeAll(raw, nil)}
}

// UnpackPart decodes a part. Errors: ErrPacked.
func UnpackPart(p *primitives.StatePart) ([][]byte, error) {
	body := p.Body
	if p.Compressed {
		var err error
		if body, err = unpack(body, MaxPart); err != nil {
			return nil, err
		}
	}
	r := borsh.NewReaderWithin(body, partRoom)
	if tag := r.Byte(); tag != 0 {
		r.BadTag("PartialState", tag)
	}
	out := borsh.Slice(r, 4, (*borsh.Reader).BytesCopy)
	if err := r.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPacked, err)
	}
	return out, nil
}

// PackProof encodes an epoch sync proof as neard sends it.
func PackProof(p *headerchain.EpochProof) []byte { return packer().EncodeAll(p.AppendBorsh(nil), nil) }

// UnpackProof decodes an epoch sync proof. It does not verify it. Errors: ErrPacked.
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
