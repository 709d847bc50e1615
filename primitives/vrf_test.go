package primitives

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
	"golang.org/x/crypto/blake2b"
)

// TestVRFHashesVectorA38 compares with nearcore's literals: blake2 building blocks of the VRF.
func TestVRFHashesVectorA38(t *testing.T) {
	t.Parallel()
	hash := func(parts ...[]byte) string {
		h := blake2b.Sum256(slices.Concat(parts...))
		return hex.EncodeToString(h[:])
	}
	text := func(s *scalar.Scalar) string {
		var b [32]byte
		if err := s.ToBytes(b[:]); err != nil {
			t.Fatal(err)
		}
		return hex.EncodeToString(b[:])
	}
	wide := blake2b.Sum512(nil)
	prs, err := scalar.NewFromBytesModOrderWide(wide[:])
	if err != nil {
		t.Fatal(err)
	}
	reduced := text(hashToScalar())
	tests := []struct{ name, got, want string }{
		{"hash of nothing", hash(), "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8"},
		{"scalar of nothing", reduced, "cc0fb71e1f068c41898b8252aed624d1d0e5df47778f7787faab45cdf12fe308"},
		{"wide scalar", text(prs), "4d31ff252ec727ffb194a0557482c659e4376e76e8148134678460cb24223e06"},
		{"hash of a scalar", hash(mustHex(reduced)), "f32d6e5c532a11cee4ce38370622441ad181b72e3d68f042736e6ba3434c5b77"},
		{"hash of G", hash(packRistretto(curve.RISTRETTO_BASEPOINT_POINT)), "0993bca60aa601325f1dc1959caf9ab0453cd395a2ad8229c7221d70d0904f0f"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("%s = %s, want %s", tt.name, tt.got, tt.want)
			}
		})
	}
}

// TestVRFValuesVectorB has the values of blocks 1 to 4 of nearcore's simple_chain (part B): each
// block's input is the hash of the previous value, that of block 1 zeros (the genesis' random
// value).
func TestVRFValuesVectorB(t *testing.T) {
	t.Parallel()
	sk := SecretKeyFromSeed(ED25519, "test")
	pub, err := NewVRFPublicKey(sk.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	input := Hash{}
	for i, want := range []string{
		"dc56138382bd1115bcf5168214b64d12e14e6d43980db979ba5502a74ae6ac11", "bca9102f6a4e0b11b37ab84401643661ff15a364a6ef5838d97ce41b5c04d617",
		"1c3115a724af88d8cdf4bc618031ee9ca738e967a0e3a640bda8a976cc588b50", "d83837c8ab292e4d1c5333a96248f5ab5ff044292d9c97786f3b5ce665f44b64",
	} {
		value, proof, err := sk.ProveVRF(input[:])
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(value[:]); got != want {
			t.Errorf("value of block %d = %s, want %s", i+1, got, want)
		}
		if !pub.Verify(input[:], &value, &proof) || !VerifyVRF(sk.PublicKey(), input[:], &value, &proof) {
			t.Errorf("proof of block %d does not verify", i+1)
		}
		input = HashBytes(value[:])
	}
}

func TestAlteredVRFProofIsRefused(t *testing.T) {
	t.Parallel()
	for i := range 20 {
		sk := SecretKeyFromSeed(ED25519, fmt.Sprint("vrf", i))
		value, proof, err := sk.ProveVRF([]byte("Test"))
		if err != nil {
			t.Fatal(err)
		}
		pub, err := NewVRFPublicKey(sk.PublicKey())
		if err != nil {
			t.Fatal(err)
		}
		// The converted public key is the secret's own ristretto point.
		x0, err := ed25519Scalar(sk.Raw()[:32])
		if err != nil {
			t.Fatal(err)
		}
		if got := pub.Bytes(); string(got[:]) != string(baseMul(x0)) {
			t.Fatalf("key %d converts to %x, want %x", i, got, baseMul(x0))
		}
		if !pub.Verify([]byte("Test"), &value, &proof) || pub.Verify([]byte("Tent"), &value, &proof) {
			t.Errorf("key %d: the proof's input does not matter", i)
		}
		other, err := NewVRFPublicKey(SecretKeyFromSeed(ED25519, "other").PublicKey())
		if err != nil || other.Verify([]byte("Test"), &value, &proof) {
			t.Errorf("key %d: another key verifies: %v", i, err)
		}
		for bit := 0; bit < 512; bit += 37 {
			p := proof
			p[bit/8] ^= 1 << (bit % 8)
			v := value
			v[bit/16] ^= 1 << (bit % 8)
			if pub.Verify([]byte("Test"), &value, &p) || pub.Verify([]byte("Test"), &v, &proof) {
				t.Errorf("key %d: bit %d does not matter", i, bit)
			}
		}
		// r + order is the same scalar, but not canonical.
		p := proof
		carry := 0
		for j := range 32 {
			v := int(p[j]) + int(ed25519Order[j]) + carry
			p[j], carry = byte(v), v>>8
		}
		if pub.Verify([]byte("Test"), &value, &p) {
			t.Errorf("key %d: r that is not canonical", i)
		}
	}
	if _, err := NewVRFPublicKey(SecretKeyFromSeed(SECP256K1, "x").PublicKey()); !errors.Is(err, ErrVRFKey) {
		t.Errorf("secp256k1: %v", err)
	}
	if _, _, err := SecretKeyFromSeed(SECP256K1, "x").ProveVRF(nil); !errors.Is(err, ErrVRFKey) {
		t.Errorf("secp256k1: %v", err)
	}
	identity, err := NewVRFPublicKey(PublicKey("\x00" + string(mustHex(torsionPoints[0]))))
	if err != nil || identity.Bytes() != [32]byte{} {
		t.Errorf("the identity converts to %v, %v", identity, err)
	}
}

func FuzzVRF(f *testing.F) {
	sk := SecretKeyFromSeed(ED25519, "fuzz")
	value, proof, err := sk.ProveVRF([]byte("x"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(sk.PublicKey().Raw()), value[:], proof[:])
	f.Fuzz(func(t *testing.T, key, value, proof []byte) {
		if len(key) != 32 || len(value) != 32 || len(proof) != 64 {
			return
		}
		VerifyVRF(PublicKey("\x00"+string(key)), []byte("y"), (*[32]byte)(value), (*[64]byte)(proof))
	})
}

func BenchmarkVRF(b *testing.B) {
	sk := SecretKeyFromSeed(ED25519, "bench")
	value, proof, err := sk.ProveVRF([]byte("x"))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("op=prove", func(b *testing.B) {
		for b.Loop() {
			_, _, _ = sk.ProveVRF([]byte("x"))
		}
	})
	b.Run("op=convert", func(b *testing.B) {
		for b.Loop() {
			_, _ = NewVRFPublicKey(sk.PublicKey())
		}
	})
	b.Run("op=verify", func(b *testing.B) {
		pub, err := NewVRFPublicKey(sk.PublicKey())
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			pub.Verify([]byte("x"), &value, &proof)
		}
	})
}
