package curve

import (
	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
)

// ed25519Rules are those of ed25519-dalek 2.2's plain verify, as for transactions
// (primitives/verify.go): S below the order; A any encoding that decompresses, of any order; no
// cofactor; R compared byte by byte.
var ed25519Rules = &ed25519.Options{Verify: ed25519.VerifyOptionsStdLib}

// Ed25519Signature checks the signature once it is read. With one of its top three bits set
// nearcore answers 0 at once, before it reads (and charges for) the message: ok is false then.
func Ed25519Signature(sig []byte) (ok bool, err error) {
	if len(sig) != 64 {
		return false, InvalidInput("invalid signature length")
	}
	return sig[63]&0xe0 == 0, nil
}

// Ed25519Key checks the length of the key, which is read last.
func Ed25519Key(key []byte) error {
	if len(key) != 32 {
		return InvalidInput("invalid public key length")
	}
	return nil
}

// Ed25519Verify tells whether sig is key's signature of msg. Lengths refused above, and a key that
// is no point, are false.
func Ed25519Verify(sig, msg, key []byte) bool {
	if len(sig) != ed25519.SignatureSize || len(key) != ed25519.PublicKeySize {
		return false
	}
	return ed25519.VerifyWithOptions(key, msg, sig, ed25519Rules)
}
