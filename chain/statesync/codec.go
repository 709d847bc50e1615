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

// The bounds of what is unpacked, in bytes (nearcore core/primitives/src/state_part.rs:9, epoch_sync.rs:31).
const (
	MaxPart  = 512 << 20
	MaxProof = 500 << 20
)

// The lists of an unpacked message may take more bytes in memory than they had. Those of a part may take partRoom: its 30 MiB of memory usage
// are at most 1.3 million strings. Those of a proof may take proofRoom and twice its length: a validator without approval has 57 bytes and takes 64.
const (
	partRoom  = 64 << 20
	proofRoom = 16 << 20
)

// ErrPacked says that what came can't be unpacked: its sender's fault.
var ErrPacked = errors.New("state: it can't be unpacked")

var packer = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(fmt.Sprintf("state: zstd: %v", err)) // options that it does not know
	}
	return e
})

// unpack decompresses up to a bound.
func unpack(in []byte, limit uint64) ([]byte, error) {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(limit))
	if err != nil {
		panic(fmt.Sprintf("state: zstd: %v", err))
	}
	defer d.Close()
	out, err := d.DecodeAll(in, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPacked, err)
	}
	return out, nil
}

// PackPart is a part as neards send it: zstd of a PartialState.
func PackPart(number uint64, strings [][]byte) *primitives.StatePart {
	raw := borsh.AppendSlice([]byte{0}, strings, func(b []byte, s *[]byte) []byte { return borsh.AppendBytes(b, *s) })
	return &primitives.StatePart{Number: number, Compressed: true, Body: packer().EncodeAll(raw, nil)}
}

// UnpackPart reads one.
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

// PackProof is an epoch sync proof as neards send it.
func PackProof(p *headerchain.EpochProof) []byte { return packer().EncodeAll(p.AppendBorsh(nil), nil) }

// UnpackProof reads one.
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
