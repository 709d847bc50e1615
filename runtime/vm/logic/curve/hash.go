package curve

import (
	"crypto/sha256"
	"crypto/sha3"

	//lint:ignore SA1019 old, and frozen as the hash is; Bitcoin's addresses need it
	"golang.org/x/crypto/ripemd160"
	legacy "golang.org/x/crypto/sha3"
)

// SHA256 is the host function sha256.
func SHA256(data []byte) [32]byte { return sha256.Sum256(data) }

// Keccak256 is the original SHA-3 submission with its padding, as used by Ethereum.
func Keccak256(data []byte) (out [32]byte) {
	h := legacy.NewLegacyKeccak256()
	h.Write(data)
	h.Sum(out[:0])
	return out
}

// Keccak512 is Keccak256 with 64 bytes.
func Keccak512(data []byte) (out [64]byte) {
	h := legacy.NewLegacyKeccak512()
	h.Write(data)
	h.Sum(out[:0])
	return out
}

// RIPEMD160 is RIPEMD-160.
func RIPEMD160(data []byte) (out [20]byte) {
	h := ripemd160.New()
	h.Write(data)
	h.Sum(out[:0])
	return out
}

// SHA3_256 is SHA-3 of FIPS 202 (a host function of later versions).
func SHA3_256(data []byte) [32]byte { return sha3.Sum256(data) }

// SHA3_384 is SHA-3 of FIPS 202 (a host function of later versions).
func SHA3_384(data []byte) [48]byte { return sha3.Sum384(data) }

// SHA3_512 is SHA-3 of FIPS 202 (a host function of later versions).
func SHA3_512(data []byte) [64]byte { return sha3.Sum512(data) }
