package primitives

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/mr-tron/base58"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// Hash is a sha256 digest (nearcore CryptoHash). Its text is base58.
type Hash [32]byte

// EpochID identifies an epoch: the hash of the last block of the epoch two before.
type EpochID = Hash

// HashBytes returns sha256(b).
func HashBytes(b []byte) Hash { return sha256.Sum256(b) }

// HashBorsh returns sha256 of v's encoding.
func HashBorsh(v borsh.Appender) Hash { return hashOf(v.AppendBorsh) }

// CombineHash returns sha256(a ‖ b), the inner node of nearcore's Merkle trees.
func CombineHash(a, b Hash) Hash {
	var buf [64]byte
	copy(buf[:32], a[:])
	copy(buf[32:], b[:])
	return sha256.Sum256(buf[:])
}

// IsZero returns whether h is the default hash, printed as 32 ones.
func (h Hash) IsZero() bool { return h == Hash{} }

// Compare orders hashes bytewise.
func (h Hash) Compare(o Hash) int { return bytes.Compare(h[:], o[:]) }

// AppendText appends base58.
func (h Hash) AppendText(b []byte) ([]byte, error) { return appendBase58Of32(b, h), nil }

// String returns base58.
func (h Hash) String() string {
	var text [44]byte
	return string(appendBase58Of32(text[:0], h))
}

// MarshalText returns base58.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText parses base58.
func (h *Hash) UnmarshalText(text []byte) error {
	v, err := ParseHash(string(text))
	if err == nil {
		*h = v
	}
	return err
}

// ErrHashText is the error of text that is not base58 of 32 bytes.
var ErrHashText = errors.New("not a base58-encoded 256-bit hash")

// ParseHash reads base58 of exactly 32 bytes.
func ParseHash(text string) (Hash, error) {
	var h Hash
	if len(text) > 64 { // 44 characters suffice, and decoding is quadratic
		return h, fmt.Errorf("%w: %d characters", ErrHashText, len(text))
	}
	raw, err := base58.Decode(text)
	if err != nil {
		return h, fmt.Errorf("%w: %w", ErrHashText, err)
	}
	if len(raw) != len(h) {
		return h, fmt.Errorf("%w: %d bytes", ErrHashText, len(raw))
	}
	copy(h[:], raw)
	return h, nil
}

// AppendBorsh appends the 32 bytes.
func (h Hash) AppendBorsh(b []byte) []byte { return append(b, h[:]...) }

// DecodeBorsh reads 32 bytes.
func (h *Hash) DecodeBorsh(r *borsh.Reader) { copy(h[:], r.Take(len(h))) }

// ReadHash reads 32 bytes.
func ReadHash(r *borsh.Reader) Hash {
	var h Hash
	h.DecodeBorsh(r)
	return h
}

func appendHash(b []byte, h *Hash) []byte { return append(b, h[:]...) }

// AppendHashes appends a vector of hashes.
func AppendHashes(b []byte, hs []Hash) []byte { return borsh.AppendSlice(b, hs, appendHash) }

// ReadHashes reads a vector of hashes.
func ReadHashes(r *borsh.Reader) []Hash { return borsh.Slice(r, 32, ReadHash) }

func appendOptionHash(b []byte, h *Hash) []byte {
	if h == nil {
		return append(b, 0)
	}
	return append(append(b, 1), h[:]...)
}

func readOptionHash(r *borsh.Reader) *Hash {
	if !r.Option() {
		return nil
	}
	h := ReadHash(r)
	return &h
}
