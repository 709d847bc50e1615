package partialwitness

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/klauspost/compress/zstd"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Bounds of nearcore: state_witness.rs:16, partial_witness.rs:16, contract_distribution.rs:372.
const (
	MaxRaw       = 64 << 20 // of a witness, not compressed
	MaxEncoded   = 48 << 20 // of a witness, compressed, with its length
	MaxContracts = 64 << 20 // of the code in one answer, not compressed
)

// MaxDeployed is how many contracts a chunk deploys at the most. Receipts begin while less than the chunk's gas limit is used, 10^15 on each network that
// there is, and a deployment uses 184,765,750,000: 5,412 of them come before the last receipt, and up to 100 with it. (From version 84 on one counts as
// 2*10^13 and a receipt has 10: 60.)
const MaxDeployed = 5512

// ErrCoding says that something does not unpack, or is too large.
var ErrCoding = errors.New("witness: bad coding")

// packer compresses, with the levels of nearcore as near as this compressor has them: 1 for witnesses, 3 for code. The bytes are not those of
// nearcore's, and need not be: nobody compresses again.
var packer = sync.OnceValue(func() (p struct{ fast, better *zstd.Encoder }) {
	for _, x := range []struct {
		at    **zstd.Encoder
		level zstd.EncoderLevel
	}{{&p.fast, zstd.SpeedFastest}, {&p.better, zstd.SpeedDefault}} {
		var err error
		if *x.at, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(x.level), zstd.WithEncoderCRC(false), zstd.WithEncoderConcurrency(1)); err != nil {
			panic(fmt.Sprintf("witness: zstd: %v", err)) // options that it does not know
		}
	}
	return p
})

// unpackers decompress up to their bound.
var (
	unpackWitness   = sync.OnceValue(func() *zstd.Decoder { return unpacker(MaxRaw) })
	unpackContracts = sync.OnceValue(func() *zstd.Decoder { return unpacker(MaxContracts) })
	unpackQuick     = sync.OnceValue(func() *zstd.Decoder { return unpacker(quickRaw) })
)

// within is the decoder of what has less bytes; 0: all that there may be.
func within(most int, all func() *zstd.Decoder) *zstd.Decoder {
	if most > 0 {
		return unpackQuick()
	}
	return all()
}

func unpacker(limit uint64) *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(limit))
	if err != nil {
		panic(fmt.Sprintf("witness: zstd: %v", err))
	}
	return d
}

// Encode compresses a witness.
func Encode(w *primitives.ChunkStateWitness) ([]byte, error) {
	raw := w.AppendBorsh(nil)
	if len(raw) > MaxRaw {
		return nil, fmt.Errorf("%w: a witness of %d bytes", ErrCoding, len(raw))
	}
	payload := packer().fast.EncodeAll(raw, nil)
	if len(payload)+4 > MaxEncoded {
		return nil, fmt.Errorf("%w: a witness of %d bytes, compressed", ErrCoding, len(payload))
	}
	return payload, nil
}

// Decode is the inverse of Encode. size is the length of the raw witness, which is all that nearcore bounds: a chunk may have any number of
// transactions of any number of actions, each of which may be one byte of the encoding and sixteen of memory. The signer of the parts is at fault
// for an error.
func Decode(payload []byte) (w *primitives.ChunkStateWitness, size int, err error) {
	w, size, _, err = decode(unpackWitness(), payload)
	return w, size, err
}

// decode is Decode. memory is what the witness takes in memory, about.
func decode(by *zstd.Decoder, payload []byte) (w *primitives.ChunkStateWitness, size, memory int, err error) {
	raw, err := by.DecodeAll(payload, nil)
	if err != nil {
		return nil, 0, 0, fmt.Errorf("%w: %w", ErrCoding, err)
	}
	w = new(primitives.ChunkStateWitness)
	r := borsh.NewReaderWithin(raw, borsh.RoomFor(len(raw)))
	w.DecodeBorsh(r)
	if err := r.Close(); err != nil {
		return nil, 0, 0, fmt.Errorf("%w: %w", ErrCoding, err)
	}
	return w, len(raw), len(raw) + r.Lists(), nil
}

// EncodeContracts compresses code, for ContractCodeResponse and for deploys.
func EncodeContracts(codes [][]byte) []byte {
	return packer().better.EncodeAll(primitives.AppendByteStrings(nil, codes), nil)
}

// DecodeContracts is the inverse, of at most so many contracts. A contract that is there several times counts as one and is returned once: nearcore
// compares the set of what came with what was asked for (partial_witness_tracker.rs:237).
func DecodeContracts(payload []byte, most int) ([][]byte, error) {
	return decodeContracts(unpackContracts(), payload, most)
}

func decodeContracts(by *zstd.Decoder, payload []byte, most int) ([][]byte, error) {
	raw, err := by.DecodeAll(payload, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCoding, err)
	}
	r := borsh.NewReader(raw)
	var codes [][]byte
	known := map[string]bool{} // of what is in raw: a contract may be there twice
	for n := r.Len(4); n > 0 && r.Err() == nil; n-- {
		code := r.Bytes()
		if r.Err() != nil || known[unsafe.String(unsafe.SliceData(code), len(code))] {
			continue
		}
		if len(codes) == most {
			r.Fail(borsh.ErrTooMuch)
			break
		}
		known[unsafe.String(unsafe.SliceData(code), len(code))] = true
		codes = append(codes, bytes.Clone(code))
	}
	if err := r.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCoding, err)
	}
	return codes, nil
}

// Coder cuts payloads into as many parts as there are receivers, of which DataParts restore it. A single receiver gets all of it.
type Coder struct {
	rs    *primitives.ReedSolomon // nil: one part
	total int
	// bare: a single part is the payload alone. Else, and always in several parts, the payload has its length before it.
	bare bool
}

// WitnessCoder is that of a witness for n chunk validators; DeploysCoder that of deployed code for n owners of parts. They differ where there is one
// (nearcore reed_solomon.rs:132).
func WitnessCoder(n int) (*Coder, error) { return newCoder(n, true) }

// DeploysCoder is that of deployed code for n owners of parts.
func DeploysCoder(n int) (*Coder, error) { return newCoder(n, false) }

func newCoder(n int, bare bool) (*Coder, error) {
	if n < 1 || n > primitives.MaxReedSolomonParts {
		return nil, fmt.Errorf("%w: %d parts", ErrCoding, n)
	}
	c := &Coder{total: n, bare: bare}
	if n == 1 {
		return c, nil
	}
	var err error
	c.rs, err = codes[n-2]()
	return c, err
}

// codes are those of 2 and more receivers, made when first asked for: a part that comes asks for one, and to make it takes longer than to use it.
var codes = func() (list [primitives.MaxReedSolomonParts - 1]func() (*primitives.ReedSolomon, error)) {
	for i := range list {
		list[i] = sync.OnceValues(func() (*primitives.ReedSolomon, error) {
			return primitives.NewReedSolomon(primitives.WitnessPartCounts(i + 2))
		})
	}
	return list
}()

// DataParts returns how many parts suffice.
func (c *Coder) DataParts() int {
	if c.rs == nil {
		return 1
	}
	return c.rs.DataParts()
}

// TotalParts returns how many parts there are.
func (c *Coder) TotalParts() int { return c.total }

// MaxPart is the longest part of a payload of MaxEncoded bytes.
func (c *Coder) MaxPart() int { return (MaxEncoded + c.DataParts() - 1) / c.DataParts() }

// Cut returns the parts of a payload, and the encoded length that goes with each.
func (c *Coder) Cut(payload []byte) (parts [][]byte, length uint64, err error) {
	in := payload
	if c.rs != nil || !c.bare {
		in = borsh.AppendBytes(nil, payload)
	}
	if c.rs == nil {
		return [][]byte{in}, uint64(len(in)), nil
	}
	parts, err = c.rs.Encode(in)
	return parts, uint64(len(in)), err
}

// Join returns the payload of parts, in their places, enough of which are there.
func (c *Coder) Join(parts [][]byte, length uint64) ([]byte, error) {
	var in []byte
	if c.rs == nil { // as neard, which does not look at the length then
		if len(parts) != 1 || parts[0] == nil {
			return nil, fmt.Errorf("%w: no part", ErrCoding)
		}
		if in = parts[0]; c.bare {
			return in, nil
		}
	} else {
		var err error
		if in, err = c.rs.Decode(parts, length); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCoding, err)
		}
	}
	r := borsh.NewReader(in)
	payload := r.Bytes()
	if err := r.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCoding, err)
	}
	return payload, nil
}

// Parts cuts a compressed witness for its validators, in the order of their assignment, and signs the parts.
func Parts(key primitives.ChunkKey, payload []byte, validators int, signer primitives.SecretKey) ([]*primitives.PartialWitness, error) {
	c, err := WitnessCoder(validators)
	if err != nil {
		return nil, err
	}
	parts, length, err := c.Cut(payload)
	if err != nil {
		return nil, err
	}
	out := make([]*primitives.PartialWitness, len(parts))
	for i, part := range parts {
		p := &primitives.PartialWitness{EpochID: key.EpochID, ShardID: key.ShardID, HeightCreated: key.HeightCreated, Ord: uint64(i), Part: part, EncodedLength: length}
		p.Signed(func(b []byte) { p.Signature = signer.Sign(b) })
		out[i] = p
	}
	return out, nil
}

// DeployParts cuts the code that a chunk has deployed for the owners of its parts, and signs the parts.
func DeployParts(key primitives.ChunkKey, codes [][]byte, owners int, signer primitives.SecretKey) ([]*primitives.PartialContractDeploys, error) {
	c, err := DeploysCoder(owners)
	if err != nil {
		return nil, err
	}
	parts, length, err := c.Cut(EncodeContracts(codes))
	if err != nil {
		return nil, err
	}
	out := make([]*primitives.PartialContractDeploys, len(parts))
	for i, part := range parts {
		p := &primitives.PartialContractDeploys{Key: key, Ord: uint64(i), Part: part, EncodedLength: length}
		p.Signature = signer.Sign(p.SignedBytes())
		out[i] = p
	}
	return out, nil
}

// Endorse is a validator's endorsement of a chunk.
func Endorse(key primitives.ChunkKey, chunk primitives.Hash, account primitives.AccountID, signer primitives.SecretKey) *primitives.ChunkEndorsement {
	e := &primitives.ChunkEndorsement{ChunkHash: chunk, Metadata: primitives.ChunkEndorsementMetadata{
		AccountID: account, ShardID: key.ShardID, EpochID: key.EpochID, HeightCreated: key.HeightCreated}}
	e.Signature = signer.Sign(primitives.ChunkEndorsementBytes(chunk))
	e.MetadataSignature = signer.Sign(e.Metadata.AppendBorsh(nil))
	return e
}
