package curve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"math/big"
)

// p256Curve is NIST's P-256. The variables must not be changed.
var (
	p256Curve = elliptic.P256()
	p256N     = p256Curve.Params().N
	p256P     = p256Curve.Params().P
)

// P256Signature checks a signature right after it is read. ok is false if r or s is outside [1,
// n-1]. nearcore then returns 0 at once, before nearcore reads the message and charges for the
// message.
func P256Signature(sig []byte) (ok bool, err error) {
	if len(sig) != 64 {
		return false, InvalidInput("invalid signature length")
	}
	_, _, ok = p256RS(sig)
	return ok, nil
}

// P256Key checks the length of the key, which nearcore reads last.
func P256Key(key []byte) error {
	if len(key) != 33 {
		return InvalidInput("invalid public key length")
	}
	return nil
}

// P256Verify returns whether sig is key's signature of the hash msg, which the contract has
// computed. sig is r ‖ s; a high s is allowed. As in the crate p256, a hash of fewer than 16 bytes
// is never valid. A hash of 16 to 31 bytes is used as a smaller number. Of a hash of more than 32
// bytes, only the first 32 are used. P256Verify returns false if a length is wrong or key is not a
// point.
func P256Verify(sig, msg, key []byte) bool {
	if len(sig) != 64 || len(key) != 33 || len(msg) < 16 {
		return false
	}
	r, s, ok := p256RS(sig)
	if !ok {
		return false
	}
	pub, ok := p256Point(key)
	return ok && ecdsa.Verify(pub, msg, r, s)
}

func p256RS(sig []byte) (r, s *big.Int, ok bool) {
	r, s = new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])
	return r, s, r.Sign() != 0 && s.Sign() != 0 && r.Cmp(p256N) < 0 && s.Cmp(p256N) < 0
}

// p256Point decodes a key of 33 bytes. Tags 2 and 3 are SEC1's compressed points with an even and
// an odd y. The crate's decoder also accepts tag 5 ("compact"): only x is given, and y is the
// smaller of the two roots.
func p256Point(key []byte) (*ecdsa.PublicKey, bool) {
	var sec1 [33]byte
	copy(sec1[:], key)
	compact := sec1[0] == 5
	if compact {
		sec1[0] = 2
	}
	x, y := elliptic.UnmarshalCompressed(p256Curve, sec1[:]) // nil if the tag is wrong or no point has this x
	if x == nil {
		return nil, false
	}
	if other := new(big.Int).Sub(p256P, y); compact && other.Cmp(y) < 0 {
		y = other
	}
	var full [65]byte
	full[0] = 4
	x.FillBytes(full[1:33])
	y.FillBytes(full[33:])
	pub, err := ecdsa.ParseUncompressedPublicKey(p256Curve, full[:])
	return pub, err == nil
}
