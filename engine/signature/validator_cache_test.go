package signature

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestCachedVerifierVerifiesValidOnce: a valid signature is verified only once. All other
// signatures are verified each time, and no signature is confused with another.
func TestCachedVerifierVerifiesValidOnce(t *testing.T) {
	verified := 0
	verify := NewCachedVerifier(func(s primitives.Signature, data []byte, key primitives.PublicKey) bool {
		verified++
		return s.Verify(data, key)
	}).Verify
	a, b := primitives.SecretKeyFromSeed(primitives.ED25519, "a"), primitives.SecretKeyFromSeed(primitives.ED25519, "b")
	data := []byte("what is signed")
	sig := a.Sign(data)
	for i := range 3 {
		if !verify(sig, data, a.PublicKey()) || verified != 1 {
			t.Fatalf("call %d: verified %d times, want 1", i, verified)
		}
	}
	spoiled := []byte(sig)
	spoiled[40] ^= 1
	for i, c := range []struct {
		sig  primitives.Signature
		data []byte
		key  primitives.PublicKey
	}{{sig, data[1:], a.PublicKey()}, {sig, append(bytes.Clone(data), 0), a.PublicKey()}, {sig, data, b.PublicKey()}, {primitives.Signature(spoiled), data, a.PublicKey()},
		{"", data, a.PublicKey()}, {sig, data, ""}, {sig[:10], append([]byte(sig[10:]), data...), a.PublicKey()}} {
		for range 2 {
			before := verified
			if verifyQuietly(verify, c.sig, c.data, c.key) || verified != before+1 {
				t.Errorf("case %d equals a cached signature", i)
			}
		}
	}
	long := bytes.Repeat([]byte{7}, 5000)
	if s := b.Sign(long); !verify(s, long, b.PublicKey()) || verify(s, long[1:], b.PublicKey()) {
		t.Error("long data")
	}
}

func TestAddedSignatureIsNotVerified(t *testing.T) {
	verified := 0
	r := NewCachedVerifier(func(primitives.Signature, []byte, primitives.PublicKey) bool { verified++; return false })
	k := primitives.SecretKeyFromSeed(primitives.ED25519, "a")
	sig := k.Sign([]byte("one"))
	r.Add(sig, []byte("one"), k.PublicKey())
	if !r.Verify(sig, []byte("one"), k.PublicKey()) || verified > 0 {
		t.Error("an added signature is verified")
	}
	if r.Verify(sig, []byte("two"), k.PublicKey()) || verified != 1 {
		t.Error("a signature that was not added is not verified")
	}
}

// verifyQuietly returns false if verify panics, which Signature.Verify may do for a malformed key.
func verifyQuietly(verify func(primitives.Signature, []byte, primitives.PublicKey) bool, s primitives.Signature, data []byte, key primitives.PublicKey) (good bool) {
	defer func() { _ = recover() }()
	return verify(s, data, key)
}

// TestCachedVerifierIsCorrectConcurrently uses more signatures than slots.
func TestCachedVerifierIsCorrectConcurrently(t *testing.T) {
	verify := NewCachedVerifier(func(s primitives.Signature, data []byte, _ primitives.PublicKey) bool {
		return string(s) == "good"+string(data)
	}).Verify
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 3 * cacheSlots {
				data := []byte(fmt.Sprint(i % (cacheSlots + g)))
				if !verify(primitives.Signature("good"+string(data)), data, "k") || verify(primitives.Signature("bad"+string(data)), data, "k") {
					t.Errorf("wrong result for %s", data)
					return
				}
			}
		})
	}
	group.Wait()
}

// BenchmarkCachedVerifier measures verifying a remembered signature.
func BenchmarkCachedVerifier(b *testing.B) {
	verify := NewCachedVerifier(primitives.NewVerifier(8).Verify).Verify
	k := primitives.SecretKeyFromSeed(primitives.ED25519, "a")
	data := make([]byte, 120)
	sig, public := k.Sign(data), k.PublicKey()
	for b.Loop() {
		if !verify(sig, data, public) {
			b.Fatal("not good")
		}
	}
}
