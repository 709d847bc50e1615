package curve

import (
	"fmt"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// ECRecoverSignature checks the signature's length, then v, as nearcore does after it has read the
// signature.
func ECRecoverSignature(sig []byte, v uint64) error {
	if len(sig) != 64 {
		return InvalidInput(fmt.Sprintf("The length of the signature: %d, exceeds the limit of 64 bytes", len(sig)))
	}
	if v > 3 {
		return InvalidInput(fmt.Sprintf("V recovery byte 0 through 3 are valid but was provided %d", v))
	}
	return nil
}

// ECRecoverHash checks the hash's length, as nearcore does after it has read the hash.
func ECRecoverHash(hash []byte) error {
	if len(hash) != 32 {
		return InvalidInput(fmt.Sprintf("The length of the hash: %d, exceeds the limit of 32 bytes", len(hash)))
	}
	return nil
}

// ECRecoverFlag checks the malleability flag, as nearcore does after both reads.
func ECRecoverFlag(malleability uint64) error {
	if malleability > 1 {
		return InvalidInput(fmt.Sprintf("Malleability flag needs to be 0 or 1, but is instead %d", malleability))
	}
	return nil
}

// ECRecover recovers the key (x ‖ y) that signed hash with r ‖ s and the recovery id v; ok is false
// if there is none. With malleability 1 an s in the upper half of the order is rejected; the half
// itself is allowed (nearcore core/crypto/src/signature.rs:960). Bit 0 of v is the parity of the
// point's y. Bit 1 says that its x is r plus the order, which must be below the field's prime. ok
// is also false for arguments that the three checks above reject.
func ECRecover(hash, sig []byte, v, malleability uint64) (key [64]byte, ok bool) {
	if len(hash) != 32 || len(sig) != 64 || v > 3 {
		return key, false
	}
	if malleability != 0 {
		var s secp256k1.ModNScalar
		if s.SetByteSlice(sig[32:]) || s.IsOverHalfOrder() {
			return key, false
		}
	}
	var compact [65]byte
	compact[0] = 27 + byte(v) // the magic number of the compact form; without 4: an uncompressed key
	copy(compact[1:], sig)
	point, _, err := ecdsa.RecoverCompact(compact[:], hash)
	if err != nil {
		return key, false
	}
	copy(key[:], point.SerializeUncompressed()[1:])
	return key, true
}
