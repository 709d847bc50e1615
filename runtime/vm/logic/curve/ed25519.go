package curve

import (
	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
)

// ed25519Rules are the rules of the plain verify of the crate dalek 2.2, as for transactions
// (primitives/verify.go). S must be below the order. A may be any encoding that decompresses, of
// any order. There is no cofactor. R is compared byte by byte.
var ed25519Rules = &ed25519.Options{Verify: ed25519.VerifyOptionsStdLib}

// Ed25519Signature checks a signature right after it is read. ok is false if one of its top three
// bits is set. nearcore then returns 0 at once, before nearcore reads the message and charges for
// the message.
func Ed25519Signature(sig []byte) (ok bool, err error) {
	if len(sig) != 64 {
		return false, InvalidInput("invalid signature length")
	}
	return sig[63]&0xe0 == 0, nil
}

// Ed25519Key checks the length of the key, which nearcore reads last.
func Ed25519Key(key []byte) error {
	if len(key) != 32 {
		return InvalidInput("invalid public key length")
	}
	return nil
}

// Ed25519Verify returns whether sig is key's signature of msg. Ed25519Verify returns false if a
// length is wrong or key is not a point.
func Ed25519Verify(sig, msg, key []byte) bool {
	if len(sig) != ed25519.SignatureSize || len(key) != ed25519.PublicKeySize {
		return false
	}
	return ed25519.VerifyWithOptions(key, msg, sig, ed25519Rules)
}
