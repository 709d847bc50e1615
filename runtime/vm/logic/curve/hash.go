package curve

import (
	"crypto/sha256"
	"crypto/sha3"

	//lint:ignore SA1019 deprecated, but the host function ripemd160 needs it
	"golang.org/x/crypto/ripemd160"
	legacy "golang.org/x/crypto/sha3"
)

// SHA256 returns the SHA-256 hash of data.
func SHA256(data []byte) [32]byte { return sha256.Sum256(data) }

// Keccak256 returns the Keccak-256 hash of data: SHA-3 with its original padding, as in Ethereum.
func Keccak256(data []byte) (out [32]byte) {
	h := legacy.NewLegacyKeccak256()
	h.Write(data)
	h.Sum(out[:0])
	return out
}

// Keccak512 returns the Keccak-512 hash of data, with the same padding as Keccak256.
func Keccak512(data []byte) (out [64]byte) {
	h := legacy.NewLegacyKeccak512()
	h.Write(data)
	h.Sum(out[:0])
	return out
}

// RIPEMD160 returns the RIPEMD-160 hash of data.
func RIPEMD160(data []byte) (out [20]byte) {
	h := ripemd160.New()
	h.Write(data)
	h.Sum(out[:0])
	return out
}

// SHA3_256 returns the SHA3-256 hash of data (FIPS 202). The host function exists only in protocol
// versions after 85.
func SHA3_256(data []byte) [32]byte { return sha3.Sum256(data) }

// SHA3_384 returns the SHA3-384 hash of data (FIPS 202). The host function exists only in protocol
// versions after 85.
func SHA3_384(data []byte) [48]byte { return sha3.Sum384(data) }

// SHA3_512 returns the SHA3-512 hash of data (FIPS 202). The host function exists only in protocol
// versions after 85.
func SHA3_512(data []byte) [64]byte { return sha3.Sum512(data) }
