package curve

import (
	"fmt"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

// ECRecoverSignature checks the length of the signature, then v. nearcore does so after it has read
// the signature.
func ECRecoverSignature(sig []byte, v uint64) error {
	if len(sig) != 64 {
		return InvalidInput(fmt.Sprintf("The length of the signature: %d, exceeds the limit of 64 bytes", len(sig)))
	}
	if v > 3 {
		return InvalidInput(fmt.Sprintf("V recovery byte 0 through 3 are valid but was provided %d", v))
	}
	return nil
}

// ECRecoverHash checks the length of the hash. nearcore does so after it has read the hash.
func ECRecoverHash(hash []byte) error {
	if len(hash) != 32 {
		return InvalidInput(fmt.Sprintf("The length of the hash: %d, exceeds the limit of 32 bytes", len(hash)))
	}
	return nil
}

// ECRecoverFlag checks the malleability flag. nearcore does so after it has read signature and
// hash.
func ECRecoverFlag(malleability uint64) error {
	if malleability > 1 {
		return InvalidInput(fmt.Sprintf("Malleability flag needs to be 0 or 1, but is instead %d", malleability))
	}
	return nil
}

// ECRecover recovers the key (x ‖ y) that signed hash with the signature r ‖ s. ok is false if
// there is no such key, or if one of the three checks above rejects an argument. v is the recovery
// id. Bit 0 of v is the parity of the y of the signature's point. If bit 1 of v is set, the x of
// that point is r plus the group order, and this sum must be below the field's prime. With
// malleability 1, an s above half of the order is rejected; half of the order itself is allowed
// (nearcore core/crypto/src/signature.rs:960).
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
	compact[0] = 27 + byte(v) // 27 marks the compact form; adding 4 would mean a compressed key
	copy(compact[1:], sig)
	point, _, err := ecdsa.RecoverCompact(compact[:], hash)
	if err != nil {
		return key, false
	}
	copy(key[:], point.SerializeUncompressed()[1:])
	return key, true
}
