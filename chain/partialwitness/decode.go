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

// Bounds of nearcore in bytes: state_witness.rs:16, partial_witness.rs:16,
// contract_distribution.rs:372.
const (
	MaxRaw       = 64 << 20 // maximum size of a decompressed witness
	MaxEncoded   = 48 << 20 // maximum size of a compressed witness with its length prefix
	MaxContracts = 64 << 20 // maximum size of the decompressed code in one response
)

// MaxDeployed is the maximum number of contracts that one chunk deploys. A receipt starts only
// while the gas used is below the chunk's limit, which is 10^15 on every public network. A
// deployment uses 184,765,750,000 gas. So there are at most 5,412 deployments before the last
// receipt, and at most 100 in the last receipt. From protocol version 84 on, a deployment uses
// 2*10^13 gas and a receipt has at most 10 deployments, so the maximum is 60.
const MaxDeployed = 5512

// ErrCoding means that data cannot be decoded or exceeds a bound.
var ErrCoding = errors.New("witness: invalid encoding")

// packer returns encoders with levels close to nearcore's levels: fast (1) for witnesses, better
// (3) for code. The compressed bytes differ from nearcore's. No node compares compressed bytes.
var packer = sync.OnceValue(func() (p struct{ fast, better *zstd.Encoder }) {
	for _, x := range []struct {
		at    **zstd.Encoder
		level zstd.EncoderLevel
	}{{&p.fast, zstd.SpeedFastest}, {&p.better, zstd.SpeedDefault}} {
		var err error
		if *x.at, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(x.level), zstd.WithEncoderCRC(false),
			zstd.WithEncoderConcurrency(1)); err != nil {
			panic(fmt.Sprintf("witness: zstd: %v", err)) // cannot happen: the options are constant
		}
	}
	return p
})

// Decoders that fail if the output exceeds a bound, in bytes.
var (
	unpackWitness   = sync.OnceValue(func() *zstd.Decoder { return unpacker(MaxRaw) })
	unpackContracts = sync.OnceValue(func() *zstd.Decoder { return unpacker(MaxContracts) })
	unpackQuick     = sync.OnceValue(func() *zstd.Decoder { return unpacker(quickRaw) })
)

// within returns the decoder for a bound on the decompressed size (see Work.run): if most is 0, the
// decoder with the regular bound, which all returns; otherwise unpackQuick, because Work.Quick
// passes quickRaw, the only other value.
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

// Encode compresses a witness. Errors: ErrCoding if it exceeds MaxRaw or MaxEncoded.
func Encode(w *primitives.ChunkStateWitness) ([]byte, error) {
	payload, _, _, err := encode(w)
	return payload, err
}

// encode does the same as Encode, and returns the size of the uncompressed witness in bytes, and the
// sizes of its fields.
func encode(w *primitives.ChunkStateWitness) (payload []byte, size int, fields primitives.WitnessFieldSizes, err error) {
	raw, fields := w.AppendMeasured(nil)
	if len(raw) > MaxRaw {
		return nil, 0, fields, fmt.Errorf("%w: the witness has %d bytes, the limit is %d", ErrCoding, len(raw), MaxRaw)
	}
	payload = packer().fast.EncodeAll(raw, nil)
	if len(payload)+4 > MaxEncoded {
		return nil, 0, fields, fmt.Errorf("%w: the compressed witness has %d bytes, the limit is %d", ErrCoding, len(payload), MaxEncoded-4)
	}
	return payload, len(raw), fields, nil
}

// Decode decompresses and decodes the result of Encode. size is the length of the decompressed
// witness in bytes; nearcore bounds nothing else. The decoded value may take more memory, up to
// borsh.RoomFor: for example, an action of one byte takes sixteen bytes in memory. Errors:
// ErrCoding, which is the fault of the signer of the parts.
func Decode(payload []byte) (w *primitives.ChunkStateWitness, size int, err error) {
	w, size, _, err = decode(unpackWitness(), payload)
	return w, size, err
}

// decode does the same as Decode with the given decoder. memory is the approximate size of the
// decoded witness in memory, in bytes.
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

// EncodeContracts compresses code for ContractCodeResponse and PartialContractDeploys.
func EncodeContracts(codes [][]byte) []byte {
	return packer().better.EncodeAll(primitives.AppendByteStrings(nil, codes), nil)
}

// DecodeContracts decompresses the result of EncodeContracts. DecodeContracts returns an error for
// more than `most` distinct contracts. It returns a repeated contract once, because nearcore
// compares sets (partial_witness_tracker.rs:237). Errors: ErrCoding.
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
	known := map[string]bool{} // set of codes, which share the memory of raw
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

// Coder splits a payload into one part for each receiver. Any DataParts parts restore the payload.
// With one receiver, the only part is the whole payload.
type Coder struct {
	rs    *primitives.ReedSolomon // erasure code; nil: there is only one part
	total int                     // number of parts
	// bare means that a single part has no length prefix. Several parts always have a length
	// prefix.
	bare bool
}

// WitnessCoder returns the coder of a witness for n chunk validators. For n = 1 the coder adds no
// length prefix, unlike the coder of DeploysCoder (nearcore reed_solomon.rs:132). Errors: ErrCoding
// if n is out of range.
func WitnessCoder(n int) (*Coder, error) { return newCoder(n, true) }

// DeploysCoder returns the coder of deployed code for n owners of parts. Errors: ErrCoding if n is
// out of range.
func DeploysCoder(n int) (*Coder, error) { return newCoder(n, false) }

func newCoder(n int, bare bool) (*Coder, error) {
	if n < 1 || n > primitives.MaxReedSolomonParts {
		return nil, fmt.Errorf("%w: the number of parts is %d, must be 1 to %d", ErrCoding, n, primitives.MaxReedSolomonParts)
	}
	c := &Coder{total: n, bare: bare}
	if n == 1 {
		return c, nil
	}
	var err error
	c.rs, err = codes[n-2]()
	return c, err
}

// codes are the coders for two and more receivers. Each coder is created at its first use. All
// callers share the coders, because every arriving part needs a coder and creating a coder takes
// longer than using it.
var codes = func() (list [primitives.MaxReedSolomonParts - 1]func() (*primitives.ReedSolomon, error)) {
	for i := range list {
		list[i] = sync.OnceValues(func() (*primitives.ReedSolomon, error) {
			return primitives.NewReedSolomon(primitives.WitnessPartCounts(i + 2))
		})
	}
	return list
}()

// DataParts returns the number of parts that restore a payload.
func (c *Coder) DataParts() int {
	if c.rs == nil {
		return 1
	}
	return c.rs.DataParts()
}

// TotalParts returns the number of parts.
func (c *Coder) TotalParts() int { return c.total }

// MaxPart returns the maximum length of a part in bytes: the length if the payload has MaxEncoded
// bytes.
func (c *Coder) MaxPart() int { return (MaxEncoded + c.DataParts() - 1) / c.DataParts() }

// Cut splits a payload. length is the encoded length in bytes, which each part message must
// contain.
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

// Join restores the payload from its parts, by part number. Missing parts are nil; at least
// DataParts must be present. length is the length that Cut returned. Errors: ErrCoding.
func (c *Coder) Join(parts [][]byte, length uint64) ([]byte, error) {
	var in []byte
	if c.rs == nil { // as in neard, Join ignores the length if there is only one part
		if len(parts) != 1 || parts[0] == nil {
			return nil, fmt.Errorf("%w: no part is present", ErrCoding)
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

// Parts splits a compressed witness into one part for each of the chunk's validators, in order of
// assignment, and signs the parts. at is the chunk's anchor, nil before EarlyKickout.
func Parts(key primitives.ChunkKey, at *primitives.ChunkAnchor, payload []byte, validators int,
	signer primitives.SecretKey) ([]*primitives.PartialWitness, error) {
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
		p := &primitives.PartialWitness{EpochID: key.EpochID, ShardID: key.ShardID, HeightCreated: key.HeightCreated,
			Anchor: at, Ord: uint64(i), Part: part, EncodedLength: length}
		p.Signed(func(b []byte) { p.Signature = signer.Sign(b) })
		out[i] = p
	}
	return out, nil
}

// DeployParts splits the code that a chunk deploys into one part for each owner, and signs the
// parts. at is the chunk's anchor, nil before EarlyKickout.
func DeployParts(key primitives.ChunkKey, at *primitives.ChunkAnchor, codes [][]byte, owners int,
	signer primitives.SecretKey) ([]*primitives.PartialContractDeploys, error) {
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
		p := &primitives.PartialContractDeploys{Key: key, Anchor: at, Ord: uint64(i), Part: part, EncodedLength: length}
		p.Signature = signer.Sign(p.SignedBytes())
		out[i] = p
	}
	return out, nil
}

// Endorse returns a signed endorsement of a chunk.
func Endorse(key primitives.ChunkKey, chunk primitives.Hash, account primitives.AccountID,
	signer primitives.SecretKey) *primitives.ChunkEndorsement {
	e := &primitives.ChunkEndorsement{ChunkHash: chunk, Metadata: primitives.ChunkEndorsementMetadata{
		AccountID: account, ShardID: key.ShardID, EpochID: key.EpochID, HeightCreated: key.HeightCreated}}
	e.Signature = signer.Sign(primitives.ChunkEndorsementBytes(chunk))
	e.MetadataSignature = signer.Sign(e.Metadata.AppendBorsh(nil))
	return e
}
