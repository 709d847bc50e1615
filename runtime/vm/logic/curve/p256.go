package curve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"math/big"
)

// p256Curve is NIST's P-256. These variables are only read.
var (
	p256Curve = elliptic.P256()
	p256N     = p256Curve.Params().N
	p256P     = p256Curve.Params().P
)

// P256Signature checks the signature after it is read. If r or s is outside [1, n-1], ok is false:
// nearcore then returns 0 at once, before it reads (and charges for) the message.
func P256Signature(sig []byte) (ok bool, err error) {
	if len(sig) != 64 {
		return false, InvalidInput("invalid signature length")
	}
	_, _, ok = p256RS(sig)
	return ok, nil
}

// P256Key checks the length of the key, which is read last.
func P256Key(key []byte) error {
	if len(key) != 33 {
		return InvalidInput("invalid public key length")
	}
	return nil
}

// P256Verify returns whether sig (r ‖ s, a high s is allowed) is key's signature of the hash msg,
// which the contract made. As in the crate p256, a hash of fewer than 16 bytes is never valid. Of
// a hash of more than 32 bytes only the first 32 are used. A hash of 16 to 31 bytes is used as a
// smaller number. It returns false for lengths that are rejected above, and for a key that is not
// a point.
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
// an odd y. The crate's decoder knows a third tag of this length: 5 ("compact"), only x, with the
// smaller of the two roots as y.
func p256Point(key []byte) (*ecdsa.PublicKey, bool) {
	var sec1 [33]byte
	copy(sec1[:], key)
	compact := sec1[0] == 5
	if compact {
		sec1[0] = 2
	}
	x, y := elliptic.UnmarshalCompressed(p256Curve, sec1[:]) // nil unless tag 2 or 3, x below p, and a root exists
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
