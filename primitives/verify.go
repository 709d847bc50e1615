package primitives

import (
	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
)

// ed25519Rules are the rules of ed25519-dalek 2.2's plain verify. S is below the group order. A is
// any encoding that decompresses, to a point of any order. The equation has no cofactor, and its
// result is compared with R byte by byte. Batch verification (with cofactor) is not used: batch
// verification accepts signatures that plain verify refuses, and all nodes must agree on every
// signature.
var ed25519Rules = &ed25519.Options{Verify: ed25519.VerifyOptionsStdLib}

// Verify returns whether s is key's signature of data (nearcore core/crypto/src/signature.rs:1086).
// It is false if the schemes differ, if the key is not a point, and for secp256k1 if data is not 32
// bytes.
func (s Signature) Verify(data []byte, key PublicKey) bool {
	if s == "" || key == "" || s.Type() != key.Type() {
		return false
	}
	switch s.Type() {
	case ED25519:
		return ed25519.VerifyWithOptions(ed25519.PublicKey(key[1:]), data, []byte(s[1:]), ed25519Rules)
	case SECP256K1:
		return verifySecp256k1(s, data, key)
	case MLDSA65:
		return verifyMLDSA65(s, data, key)
	}
	return false
}

// verifySecp256k1 checks r ‖ s ‖ recovery id as libsecp256k1's verify does. r and s must be below
// the order and not 0, and s must not be in the upper half. The id only has to be 0 to 3.
func verifySecp256k1(sig Signature, data []byte, key PublicKey) bool {
	if len(data) != 32 || sig[65] > 3 {
		return false
	}
	var r, s secp256k1.ModNScalar
	raw := []byte(sig[1:65])
	if r.SetByteSlice(raw[:32]) || s.SetByteSlice(raw[32:]) || s.IsOverHalfOrder() {
		return false
	}
	full := []byte(key)
	full[0] = 4 // "uncompressed"
	point, err := secp256k1.ParsePubKey(full)
	return err == nil && ecdsa.NewSignature(&r, &s).Verify(data, point)
}

// verifyMLDSA65 checks pure ML-DSA-65 (FIPS 204, no pre-hash) with an empty context.
func verifyMLDSA65(sig Signature, data []byte, key PublicKey) bool {
	var buf [mldsa65.PublicKeySize]byte
	copy(buf[:], key[1:])
	var pk mldsa65.PublicKey
	pk.Unpack(&buf)
	return mldsa65.Verify(&pk, data, nil, []byte(sig[1:]))
}

// IsValidStakingKey returns whether a validator may use k: an ed25519 key that decompresses to a
// point without torsion, so that it is also a ristretto point for the VRF (nearcore
// core/crypto/src/key_conversion.rs).
func (k PublicKey) IsValidStakingKey() bool {
	_, ok := stakingPoint(k)
	return ok
}

// stakingPoint decompresses k; false if it is not a valid staking key.
func stakingPoint(k PublicKey) (*curve.EdwardsPoint, bool) {
	if k == "" || k.Type() != ED25519 {
		return nil, false
	}
	var compressed curve.CompressedEdwardsY
	copy(compressed[:], k[1:])
	var p curve.EdwardsPoint
	if _, err := p.SetCompressedY(&compressed); err != nil || !p.IsTorsionFree() {
		return nil, false
	}
	return &p, true
}
