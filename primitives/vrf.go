package primitives

import (
	"crypto/sha512"
	"errors"
	"slices"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
	"golang.org/x/crypto/blake2b"
)

// The VRF gives each block its random value: only the producer can compute it, and every node can
// verify it. It works in ristretto255 with the validator's ed25519 key (nearcore
// core/crypto/src/vrf.rs):
//
//	x = x0 + off, off = blake2b-256(PK ‖ input), x0 the ed25519 scalar
//	V = x⁻¹·G is the value; k = blake2b-512(x); c = blake2b-256(PK ‖ V ‖ k·G ‖ k·x⁻¹·G); the proof
//	  is (k - c·x) ‖ c

// ErrVRFKey is the error of a key that cannot be used for the VRF: not ed25519, not a point of the
// curve, or with torsion.
var ErrVRFKey = errors.New("the key cannot be used for the VRF: it is not a valid ed25519 point")

// VRFPublicKey is an ed25519 key prepared for verifying VRF proofs. It is immutable and safe for
// concurrent use.
type VRFPublicKey struct {
	packed [32]byte
	point  curve.RistrettoPoint
}

// NewVRFPublicKey converts an ed25519 key (nearcore: convert_public_key). NewVRFPublicKey returns
// ErrVRFKey unless k is a valid staking key. The conversion costs more than verifying a proof:
// cache the result per validator.
func NewVRFPublicKey(k PublicKey) (*VRFPublicKey, error) {
	p, ok := stakingPoint(k)
	if !ok {
		return nil, ErrVRFKey
	}
	v := &VRFPublicKey{packed: ristrettoOf(p)}
	var err error
	if v.point, err = unpackRistretto(&v.packed); err != nil {
		return nil, ErrVRFKey
	}
	return v, nil
}

// Bytes returns the compressed ristretto point.
func (v *VRFPublicKey) Bytes() [32]byte { return v.packed }

func (v *VRFPublicKey) offset(input []byte) *scalar.Scalar {
	return hashToScalar(v.packed[:], input)
}

// Verify returns whether value and proof are the key's for input, the previous block's random
// value.
func (v *VRFPublicKey) Verify(input []byte, value *[32]byte, proof *[64]byte) bool {
	p, err := unpackRistretto(value)
	if err != nil {
		return false
	}
	r, err := scalar.NewFromCanonicalBytes(proof[:32])
	if err != nil {
		return false
	}
	c, err := scalar.NewFromCanonicalBytes(proof[32:])
	if err != nil {
		return false
	}
	// (r + c·off)·G + c·PK = k·G and r·V + c·G = k·x⁻¹·G for an honest proof
	var s scalar.Scalar
	s.Mul(c, v.offset(input))
	s.Add(&s, r)
	var a, b curve.RistrettoPoint
	a.DoubleScalarMulBasepointVartime(c, &v.point, &s)
	b.DoubleScalarMulBasepointVartime(r, &p, c)
	return hashToScalar(v.packed[:], value[:], packRistretto(&a), packRistretto(&b)).Equal(c) == 1
}

// VerifyVRF is NewVRFPublicKey and Verify; false for an invalid key.
func VerifyVRF(k PublicKey, input []byte, value *[32]byte, proof *[64]byte) bool {
	v, err := NewVRFPublicKey(k)
	return err == nil && v.Verify(input, value, proof)
}

// ProveVRF returns the value and proof of an ed25519 key for input. ProveVRF returns ErrVRFKey for
// keys of other schemes. ProveVRF is deterministic.
func (k SecretKey) ProveVRF(input []byte) (value [32]byte, proof [64]byte, err error) {
	if k.IsZero() || k.Type() != ED25519 {
		return value, proof, ErrVRFKey
	}
	x0, err := ed25519Scalar(k.Raw()[:32])
	if err != nil {
		return value, proof, err
	}
	var pub VRFPublicKey
	copy(pub.packed[:], baseMul(x0))

	x := scalar.New()
	x.Add(x0, pub.offset(input))
	inverse := scalar.New()
	if x.Equal(scalar.New()) == 1 {
		inverse.One() // nearcore inverts 1 in place of 0, which does not occur
	} else {
		inverse.Invert(x)
	}
	copy(value[:], baseMul(inverse))

	var xBytes [32]byte
	if err := x.ToBytes(xBytes[:]); err != nil {
		return value, proof, err
	}
	wide := blake2b.Sum512(xBytes[:])
	n, err := scalar.NewFromBytesModOrderWide(wide[:])
	if err != nil {
		return value, proof, err
	}
	var onInverse scalar.Scalar
	onInverse.Mul(inverse, n)
	c := hashToScalar(pub.packed[:], value[:], baseMul(n), baseMul(&onInverse))
	var r scalar.Scalar
	r.Mul(c, x)
	r.Sub(n, &r)
	if err := r.ToBytes(proof[:32]); err != nil {
		return value, proof, err
	}
	return value, proof, c.ToBytes(proof[32:])
}

// ed25519Scalar is RFC 8032's secret scalar, reduced: the clamped lower half of SHA-512(seed).
func ed25519Scalar(seed string) (*scalar.Scalar, error) {
	h := sha512.Sum512([]byte(seed))
	h[0] &= 248
	h[31] = h[31]&127 | 64
	return scalar.NewFromBytesModOrder(h[:32])
}

// hashToScalar is blake2b with a 32-byte output over the parts, reduced modulo the group order.
func hashToScalar(parts ...[]byte) *scalar.Scalar {
	h := blake2b.Sum256(slices.Concat(parts...))
	s, err := scalar.NewFromBytesModOrder(h[:])
	if err != nil {
		panic("primitives: " + err.Error()) // only the length can be wrong
	}
	return s
}

func baseMul(s *scalar.Scalar) []byte {
	var p curve.RistrettoPoint
	return packRistretto(p.MulBasepoint(curve.RISTRETTO_BASEPOINT_TABLE, s))
}

func packRistretto(p *curve.RistrettoPoint) []byte {
	var c curve.CompressedRistretto
	return c.SetRistrettoPoint(p)[:]
}

func unpackRistretto(b *[32]byte) (p curve.RistrettoPoint, err error) {
	c := curve.CompressedRistretto(*b)
	_, err = p.SetCompressed(&c)
	return p, err
}
