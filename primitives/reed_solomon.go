package primitives

import (
	"errors"
	"fmt"

	"github.com/klauspost/reedsolomon"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// MaxReedSolomonParts is the number of parts that GF(2^8) allows.
const MaxReedSolomonParts = 256

// MaxEncodedLength bounds the decoded length in bytes, since encoded_length comes from peers
// (nearcore reed_solomon.rs:15).
const MaxEncodedLength = 512 << 20

// ErrParts is the error of parts that are too few, or do not fit each other, the code or the
// claimed length.
var ErrParts = errors.New("invalid Reed-Solomon parts")

// ReedSolomon splits a payload into data parts, zero padded, and adds parity parts, so that any
// `data` of the total restore it. The code is that of reed_solomon_erasure 6's galois_8: a
// systematic Vandermonde matrix over the polynomial 0x11D. Parity is consensus: chunk headers carry
// the Merkle root over all parts, and validators redo the encoding. Safe for concurrent use; it
// starts no goroutine.
type ReedSolomon struct {
	code        reedsolomon.Encoder
	data, total int
}

// maxInverted is the largest number of parts for which the inverted matrix of each set of missing
// parts is cached. Sixteen parts have some thousand such sets. With a hundred parts nearly every
// chunk has a set of its own.
const maxInverted = 16

// NewReedSolomon returns the code with 1 <= data < total <= MaxReedSolomonParts. It takes
// O(total·data²) time.
func NewReedSolomon(data, total int) (*ReedSolomon, error) {
	if data < 1 || total <= data || total > MaxReedSolomonParts {
		return nil, fmt.Errorf("%w: %d data parts of %d parts in all, must be 1 <= data < all <= %d", ErrParts, data, total, MaxReedSolomonParts)
	}
	code, err := reedsolomon.New(data, total-data, reedsolomon.WithMaxGoroutines(1), reedsolomon.WithInversionCache(total <= maxInverted))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParts, err)
	}
	return &ReedSolomon{code, data, total}, nil
}

// ChunkPartCounts returns the numbers of parts of a chunk's body for the genesis' number of block
// producer seats. total is the number of seats, at least 2. data is a third of total-1, at least 1
// (nearcore chain/epoch-manager/src/adapter.rs:67, 855).
func ChunkPartCounts(blockProducerSeats int) (data, total int) {
	total = blockProducerSeats
	if total <= 1 {
		total = 2
	}
	if total <= 3 {
		return 1, total
	}
	return (total - 1) / 3, total
}

// GenesisPartCounts returns the number of parts of a genesis chunk, for any number of seats.
func GenesisPartCounts() (data, total int) { return 1, 3 }

// WitnessPartCounts returns the number of parts of a state witness for n > 1 chunk validators:
// floor(0.6·n) carry data, at least one. nearcore multiplies floats; up to 256 parts the integer
// form gives the same.
func WitnessPartCounts(n int) (data, total int) { return max(n*3/5, 1), n }

// DataParts returns how many parts suffice to decode.
func (rs *ReedSolomon) DataParts() int { return rs.data }

// TotalParts returns how many parts there are.
func (rs *ReedSolomon) TotalParts() int { return rs.total }

// PartLen returns the length of each part of an n-byte payload.
func (rs *ReedSolomon) PartLen(n int) int { return (n + rs.data - 1) / rs.data }

// Encode returns all parts of payload, which must not be empty or longer than MaxEncodedLength.
// encoded_length is len(payload). The parts share one newly allocated block.
func (rs *ReedSolomon) Encode(payload []byte) ([][]byte, error) {
	if len(payload) == 0 || len(payload) > MaxEncodedLength {
		return nil, fmt.Errorf("%w: the payload has %d bytes", ErrParts, len(payload))
	}
	n := rs.PartLen(len(payload))
	block := make([]byte, n*rs.total)
	copy(block, payload)
	parts := make([][]byte, rs.total)
	for i := range parts {
		parts[i] = block[i*n : (i+1)*n : (i+1)*n]
	}
	if err := rs.code.Encode(parts); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParts, err)
	}
	return parts, nil
}

// Reconstruct fills in the missing parts (nil entries) of a payload of encodedLength bytes. The
// parts may be untrusted: the Merkle root of the result, not this function, proves that they belong
// to one payload.
func (rs *ReedSolomon) Reconstruct(parts [][]byte, encodedLength uint64) error {
	if err := rs.check(parts, encodedLength); err != nil {
		return err
	}
	if err := rs.code.Reconstruct(parts); err != nil {
		return fmt.Errorf("%w: %w", ErrParts, err)
	}
	return nil
}

// Decode returns the payload from enough parts. Missing data parts are filled in, missing parity
// parts are not.
func (rs *ReedSolomon) Decode(parts [][]byte, encodedLength uint64) ([]byte, error) {
	if err := rs.check(parts, encodedLength); err != nil {
		return nil, err
	}
	if err := rs.code.ReconstructData(parts); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrParts, err)
	}
	out := make([]byte, 0, rs.data*len(parts[0]))
	for _, part := range parts[:rs.data] {
		out = append(out, part...)
	}
	return out[:encodedLength], nil
}

func (rs *ReedSolomon) check(parts [][]byte, encodedLength uint64) error {
	if encodedLength == 0 || encodedLength > MaxEncodedLength {
		return fmt.Errorf("%w: encoded_length is %d", ErrParts, encodedLength)
	}
	if len(parts) != rs.total {
		return fmt.Errorf("%w: the list has %d parts, must have %d", ErrParts, len(parts), rs.total)
	}
	n, present := rs.PartLen(int(encodedLength)), 0
	for i, part := range parts {
		switch {
		case part == nil:
		case len(part) != n:
			return fmt.Errorf("%w: part %d has %d bytes, must have %d", ErrParts, i, len(part), n)
		default:
			present++
		}
	}
	if present < rs.data {
		return fmt.Errorf("%w: %d parts are present, %d are needed", ErrParts, present, rs.data)
	}
	return nil
}

// PartLeaf returns the Merkle leaf of a part: the hash of its borsh form, u32 length ‖ bytes.
func PartLeaf(part []byte) Hash {
	return hashOf(func(b []byte) []byte { return borsh.AppendBytes(b, part) })
}

// PartsTree is the tree over all parts, for callers that need the root and some of the proofs.
func PartsTree(parts [][]byte) MerkleTree { return NewMerkleTree(partLeaves(parts)) }

// MerklizeParts returns the root over all parts, a chunk header's encoded_merkle_root, and the
// proof of each part (checked with MerklePath.VerifyAt).
func MerklizeParts(parts [][]byte) (Hash, []MerklePath) { return Merklize(partLeaves(parts)) }

func partLeaves(parts [][]byte) []Hash {
	leaves := make([]Hash, len(parts))
	for i, part := range parts {
		leaves[i] = PartLeaf(part)
	}
	return leaves
}
