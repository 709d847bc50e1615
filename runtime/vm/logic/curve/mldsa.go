package curve

import (
	"fmt"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
)

// MLDSASignature checks the length of the signature, which nearcore reads first. The host function
// exists only in later protocol versions.
func MLDSASignature(sig []byte) error {
	return mldsaLength("signature", sig, mldsa65.SignatureSize)
}

// MLDSAKey checks the length of the key, which nearcore reads last.
func MLDSAKey(key []byte) error {
	return mldsaLength("key", key, mldsa65.PublicKeySize)
}

func mldsaLength(what string, data []byte, want int) error {
	if len(data) == want {
		return nil
	}
	return InvalidInput(fmt.Sprintf("invalid %s length: expected the input of %d bytes, but %d was given", what, want, len(data)))
}

// MLDSAVerify returns whether sig is key's ML-DSA-65 signature of msg: the pure variant of FIPS
// 204, without pre-hash, with an empty context. It returns false if a length is wrong.
func MLDSAVerify(sig, msg, key []byte) bool {
	if len(sig) != mldsa65.SignatureSize || len(key) != mldsa65.PublicKeySize {
		return false
	}
	var pk mldsa65.PublicKey
	pk.Unpack((*[mldsa65.PublicKeySize]byte)(key))
	return mldsa65.Verify(&pk, msg, nil, sig)
}
