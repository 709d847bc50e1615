package primitives

import (
	"crypto/ed25519"
	"crypto/sha256"
	"testing"
)

// TestSignatureEqualsStandardLibrary: RFC 8032 is deterministic, so every implementation makes the
// same signature.
func TestSignatureEqualsStandardLibrary(t *testing.T) {
	t.Parallel()
	seed := sha256.Sum256([]byte("seed"))
	for n := range 200 {
		seed = sha256.Sum256(seed[:])
		std := ed25519.NewKeyFromSeed(seed[:])
		key, err := NewSecretKey(ED25519, std)
		if err != nil {
			t.Fatal(err)
		}
		data := seed[:n%32]
		if got, want := key.Sign(data), Signature("\x00"+string(ed25519.Sign(std, data))); got != want {
			t.Fatalf("signature of %x by %v = %x, want %x", data, key.PublicKey(), got, want)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	key, data := SecretKeyFromSeed(ED25519, "bench"), make([]byte, 32)
	for b.Loop() {
		key.Sign(data)
	}
}
