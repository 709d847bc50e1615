package primitives

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mr-tron/base58"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestED25519VectorA32A33A34 compares with nearcore's literals: ed25519 key and signature texts.
func TestED25519VectorA32A33A34(t *testing.T) {
	t.Parallel()
	sk := SecretKeyFromSeed(ED25519, "test")
	if got, want := sk.PublicKey().String(), "ed25519:DcA2MzgpJbrUATQLLceocVckhhAqrkingax4oJ9kZ847"; got != want {
		t.Errorf("A32: public key = %s, want %s", got, want)
	}
	if got, want := sk.String(), "ed25519:3KyUuch8pYP47krBq4DosFEVBMR5wDTMQ8AThzM8kAEcBQEpsPdYTZ2FPX5ZnSoLrerjwg66hwwJaW1wHzprd5k3"; got != want {
		t.Errorf("A33: secret key = %s, want %s", got, want)
	}
	sig := sk.Sign([]byte("123"))
	if got, want := sig.String(), "ed25519:3s1dvZdQtcAjBksMHFrysqvF63wnyMHPA4owNQmCJZ2EBakZEKdtMsLqrHdKWQjJbSRN6kRknN2WdwSBLWGCokXj"; got != want {
		t.Errorf("A34: signature = %s, want %s", got, want)
	}
	if !sig.Verify([]byte("123"), sk.PublicKey()) {
		t.Error("A34: own signature does not verify")
	}
}

// TestSECP256K1VectorA35A36 compares with nearcore's literals: secp256k1 key and signature texts.
func TestSECP256K1VectorA35A36(t *testing.T) {
	t.Parallel()
	sk := SecretKeyFromSeed(SECP256K1, "test")
	if got, want := sk.PublicKey().String(), "secp256k1:5ftgm7wYK5gtVqq1kxMGy7gSudkrfYCbpsjL6sH1nwx2oj5NR2JktohjzB6fbEhhRERQpiwJcpwnQjxtoX3GS3cQ"; got != want {
		t.Errorf("A35: public key = %s, want %s", got, want)
	}
	if got, want := sk.String(), "secp256k1:X4ETFKtQkSGVoZEnkn7bZ3LyajJaK2b3eweXaKmynGx"; got != want {
		t.Errorf("A35: secret key = %s, want %s", got, want)
	}
	data := sha256.Sum256([]byte("123"))
	sig := sk.Sign(data[:])
	if got, want := sig.String(), "secp256k1:5N5CB9H1dmB9yraLGCo4ZCQTcF24zj4v2NT14MHdH3aVhRoRXrX3AhprHr2w6iXNBZDmjMS1Ntzjzq8Bv6iBvwth6"; got != want {
		t.Errorf("A36: signature = %s, want %s", got, want)
	}
	if !sig.Verify(data[:], sk.PublicKey()) {
		t.Error("A36: own signature does not verify")
	}
}

// TestMLDSA65KeyVectorA73 compares with nearcore's literals: an ML-DSA-65 key.
func TestMLDSA65KeyVectorA73(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/ml_dsa_65_kat_public_key.txt") // nearcore signature.rs:1753
	if err != nil {
		t.Fatal(err)
	}
	sk := SecretKeyFromSeed(MLDSA65, "kat-seed-v1")
	pk := sk.PublicKey()
	if got := pk.String(); got != string(want) {
		t.Errorf("public key = %s, want %s", got, want)
	}
	if got, want := fmt.Sprintf("%x", sha256.Sum256([]byte(pk.Raw()))), "d592b03a1d6d202e01cb38b891ab5adb140e1dc7c58abfc0d9f62fd277bcffe0"; got != want {
		t.Errorf("sha256 of the raw key = %s, want %s", got, want)
	}
	sig := sk.Sign([]byte("kat-message-v1"))
	// part B
	if got, want := fmt.Sprintf("%x", sha256.Sum256([]byte(sig.Raw()))), "a102841f6e4ed98b5beb0d7e56d37f16feaf4c4f9c3b56713d1800d522314595"; got != want {
		t.Errorf("sha256 of the signature = %s, want %s", got, want)
	}
	if !sig.Verify([]byte("kat-message-v1"), pk) {
		t.Error("own signature does not verify")
	}
	again, err := ParseSecretKey(sk.String())
	if err != nil || again != sk {
		t.Errorf("secret key text does not survive encoding: %v", err)
	}
}

// TestKeyHandlesVectorB has the handles of part B.
func TestKeyHandlesVectorB(t *testing.T) {
	t.Parallel()
	zero, err := NewPublicKey(MLDSA65, make([]byte, 1952))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		key  PublicKey
		want string
	}{
		{"A73", SecretKeyFromSeed(MLDSA65, "kat-seed-v1").PublicKey(), "8cUHv6GMQBn2tQRkqS6eGaPq8kuReqXXFY5qNQquSa5j"},
		{"zeros", zero, "GsDTSpXDhiutJazktZEpKNQZit7U91LskL2Fq541u8PJ"},
		{"test", SecretKeyFromSeed(MLDSA65, "test").PublicKey(), "6WMAuMMxXMh2vFT2JNc8XE6zVwhqnnTWkpFaTiHEPE73"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := tt.key.Handle()
			if got, want := h.String(), "ml-dsa-65-hash:"+tt.want; got != want {
				t.Errorf("handle = %s, want %s", got, want)
			}
			if again, err := ParsePublicKeyHandle(h.String()); err != nil || again != h {
				t.Errorf("parsed back %q, %v", again, err)
			}
			if _, ok := h.FullKey(); ok || h.Type() != MLDSA65 || len(h) != tt.key.TrieIDLen() {
				t.Errorf("FullKey %v, type %v, length %d", ok, h.Type(), len(h))
			}
		})
	}
	// A75's trie key ends with the handle
	h := SecretKeyFromSeed(MLDSA65, "trie-roundtrip").PublicKey().Handle()
	if got, want := fmt.Sprintf("%x", string(h)), "03a206d195ee9134dfa1d63e8255051ee475a87e7644d5414be9fc5b1579d201d7"; got != want {
		t.Errorf("A75: handle = %s, want %s", got, want)
	}
}

// TestKeyLengthsVectorA74 compares with nearcore's literals: lengths and tags of ML-DSA.
func TestKeyLengthsVectorA74(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		scheme            KeyType
		pk, sig, trieIDLn int
	}{{ED25519, 33, 65, 33}, {SECP256K1, 65, 66, 65}, {MLDSA65, 1953, 3310, 33}} {
		sk := SecretKeyFromSeed(tt.scheme, "x")
		pk, sig := sk.PublicKey(), sk.Sign(make([]byte, 32))
		if len(pk) != tt.pk || len(sig) != tt.sig || pk.TrieIDLen() != tt.trieIDLn || len(pk.Handle()) != tt.trieIDLn {
			t.Errorf("%v: lengths %d %d %d %d", tt.scheme, len(pk), len(sig), pk.TrieIDLen(), len(pk.Handle()))
		}
		if pk[0] != byte(tt.scheme) || sig[0] != byte(tt.scheme) {
			t.Errorf("%v: tags %d %d", tt.scheme, pk[0], sig[0])
		}
		for _, other := range []KeyType{ED25519, SECP256K1, MLDSA65} {
			key := SecretKeyFromSeed(other, "x").PublicKey()
			if got, want := sig.Verify(make([]byte, 32), key), other == tt.scheme; got != want {
				t.Errorf("%v signature with %v key: %v, want %v", tt.scheme, other, got, want)
			}
		}
	}
	if _, err := ParseKeyType("ml-dsa-65-hash"); err == nil {
		t.Error("ml-dsa-65-hash is taken for a scheme")
	}
	if _, err := ParsePublicKey("ml-dsa-65-hash:abc"); err == nil {
		t.Error("a handle's text is taken for a key")
	}
	var k PublicKey
	if err := borsh.Unmarshal(append([]byte{3}, make([]byte, 32)...), &k); err == nil {
		t.Error("tag 3 is taken for a key")
	}
	if err := borsh.Unmarshal(make([]byte, 1953), &k); err == nil {
		t.Error("an ed25519 tag before an ML-DSA length is taken for a key")
	}
	var h PublicKeyHandle
	if err := borsh.Unmarshal(append([]byte{2}, make([]byte, 1952)...), &h); err == nil {
		t.Error("tag 2 is taken for a handle")
	}
}

func TestKeyTextErrorsAreNearcores(t *testing.T) {
	t.Parallel()
	const ed = "DcA2MzgpJbrUATQLLceocVckhhAqrkingax4oJ9kZ847"
	tests := []struct{ text, want string }{
		{"ed25519:" + ed, ""},
		{"ED25519:" + ed, ""},
		{ed, ""},
		{"ed25519:Ldp", "invalid key length: expected the input of 32 bytes, but 3 was given"},
		{"", "invalid key length: expected the input of 32 bytes, but 0 was given"},
		{"rsa:abc", "unknown key type 'rsa'"},
		{"RSA:abc", "unknown key type 'rsa'"},
		{"ml-dsa-65-hash:abc", "unknown key type 'ml-dsa-65-hash'"},
		{":abc", "unknown key type ''"},
		{"ed25519:a:b", `invalid key data: provided string contained invalid character ':' at byte 1`},
		{"ed25519:0", `invalid key data: provided string contained invalid character '0' at byte 0`},
		{"ed25519:1\n", `invalid key data: provided string contained invalid character '\n' at byte 1`},
		{"ed25519:1\x01", `invalid key data: provided string contained invalid character '\u{1}' at byte 1`},
		{"ed25519:ab\u00e9", "invalid key data: provided string contained non-ascii character starting at byte 2"},
		{ed + ed, "invalid key length: expected the input of 32 bytes, but 33 was given"},
		{strings.Repeat("1", 40), "invalid key length: expected the input of 32 bytes, but 33 was given"},
		// the overflow comes first
		{ed + ed + "0", "invalid key length: expected the input of 32 bytes, but 33 was given"},
		{"secp256k1:2xVqteU8PWhadHTv99TGh3bSf", "invalid key length: expected the input of 64 bytes, but 18 was given"},
	}
	for _, tt := range tests {
		_, err := ParsePublicKey(tt.text)
		if got := errText(err); got != tt.want {
			t.Errorf("ParsePublicKey(%q): %s, want %s", tt.text, got, tt.want)
		}
	}
	_, err := ParseSignature("ed25519:abc")
	if got, want := errText(err), "invalid signature length: expected the input of 64 bytes, but 3 was given"; got != want {
		t.Errorf("signature: %s, want %s", got, want)
	}
	_, err = ParsePublicKeyHandle("ml-dsa-65:abc")
	if got, want := errText(err), "invalid key data: full ML-DSA-65 keys cannot appear in a PublicKeyHandle; use the `ml-dsa-65-hash:` form instead"; got != want {
		t.Errorf("handle: %s, want %s", got, want)
	}
	_, err = ParsePublicKeyHandle("ml-dsa-65-hash:" + strings.Repeat("1", 40))
	if got, want := errText(err), "invalid key length: expected the input of 32 bytes, but 40 was given"; got != want {
		t.Errorf("handle: %s, want %s", got, want)
	}
	_, err = ParseSecretKey("secp256k1:" + strings.Repeat("1", 32))
	if got, want := errText(err), "invalid key data: malformed or out-of-range secret key"; got != want {
		t.Errorf("secret key: %s, want %s", got, want)
	}
	if _, err = ParseSecretKey("ml-dsa-65:" + strings.Repeat("1", 4032)); err == nil {
		t.Error("zeros are taken for an ML-DSA-65 secret key")
	}
	half := SecretKeyFromSeed(ED25519, "a").Raw()[:32] + SecretKeyFromSeed(ED25519, "b").Raw()[32:]
	if _, err = NewSecretKey(ED25519, []byte(half)); err == nil {
		t.Error("halves of two ed25519 keys are taken for one")
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestKeyJSONHasTypePrefix(t *testing.T) {
	t.Parallel()
	in := `{"PK":"DcA2MzgpJbrUATQLLceocVckhhAqrkingax4oJ9kZ847","H":"ed25519:DcA2MzgpJbrUATQLLceocVckhhAqrkingax4oJ9kZ847"}`
	var v struct {
		PK PublicKey
		H  PublicKeyHandle
	}
	if err := json.Unmarshal([]byte(in), &v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(&v)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out), strings.Replace(in, `"Dc`, `"ed25519:Dc`, 1); got != want {
		t.Errorf("JSON = %s, want %s", got, want)
	}
	err = json.Unmarshal([]byte(`{"PK":"rsa:1"}`), &v)
	if got, want := errText(err), "unknown key type 'rsa'"; got != want {
		t.Errorf("JSON error = %s, want %s", got, want)
	}
}

func TestBase58EqualsLibrary(t *testing.T) {
	t.Parallel()
	rng := NewStdRng([32]byte{58})
	for i := range 300 {
		raw := make([]byte, i%80)
		rng.Read(raw)
		for j := range min(i%5, len(raw)) { // leading zeros
			raw[j] = 0
		}
		text := string(appendBase58(nil, string(raw)))
		if want := base58.Encode(raw); text != want {
			t.Fatalf("base58(%x) = %s, want %s", raw, text, want)
		}
		if got, err := base58Decode(text, len(raw)); err != nil || !bytes.Equal(got, raw) {
			t.Fatalf("%s decodes to %x, %v", text, got, err)
		}
		if _, err := base58Decode(text, len(raw)-1); len(raw) > 0 && err != errBase58TooLong {
			t.Fatalf("%s decoded into too few bytes: %v", text, err)
		}
	}
	for _, word := range []string{"1", "z", strings.Repeat("z", 11), strings.Repeat("z", 43), strings.Repeat("1z", 22)} {
		want, err := base58.Decode(word)
		if got, err2 := base58Decode(word, 64); err != nil || err2 != nil || !bytes.Equal(got, want) {
			t.Errorf("%s decodes to %x, %v, want %x, %v", word, got, err2, want, err)
		}
	}
}

func FuzzKeyText(f *testing.F) {
	for _, s := range []string{"ed25519:DcA2MzgpJbrUATQLLceocVckhhAqrkingax4oJ9kZ847", "secp256k1:X4ETFKtQkSGVoZEnkn7bZ3LyajJaK2b3eweXaKmynGx",
		"ml-dsa-65:1", "ml-dsa-65-hash:6WMAuMMxXMh2vFT2JNc8XE6zVwhqnnTWkpFaTiHEPE73", ":", "é", "ED25519:0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := ParsePublicKey(text); err == nil {
			if again, err := ParsePublicKey(k.String()); err != nil || again != k {
				t.Errorf("key %q printed %q, parsed %v, %v", text, k, again, err)
			}
		}
		if s, err := ParseSignature(text); err == nil {
			if again, err := ParseSignature(s.String()); err != nil || again != s {
				t.Errorf("signature %q printed %q, parsed %v, %v", text, s, again, err)
			}
		}
		if h, err := ParsePublicKeyHandle(text); err == nil {
			if again, err := ParsePublicKeyHandle(h.String()); err != nil || again != h {
				t.Errorf("handle %q printed %q, parsed %v, %v", text, h, again, err)
			}
		}
		_, _ = ParseSecretKey(text)
		raw, err := base58Decode(text, 64)
		want, err2 := base58.Decode(text)
		if err == nil && text != "" && (err2 != nil || !bytes.Equal(raw, want)) || err2 == nil && len(want) <= 64 && err != nil || text == "" && err != nil {
			t.Errorf("base58 %q: %x, %v, want %x, %v", text, raw, err, want, err2)
		}
	})
}

func FuzzKeyBorsh(f *testing.F) { // every input is rejected, or is the one encoding of its value
	for _, scheme := range []KeyType{ED25519, SECP256K1, MLDSA65} {
		sk := SecretKeyFromSeed(scheme, "fuzz")
		f.Add([]byte(sk.PublicKey()))
		f.Add([]byte(sk.Sign(make([]byte, 32))))
		f.Add([]byte(sk.PublicKey().Handle()))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var k PublicKey
		if borsh.Unmarshal(in, &k) == nil && (string(k) != string(in) || k.Handle() == "" || k.String() == "") {
			t.Errorf("key %x", in)
		}
		var s Signature
		if borsh.Unmarshal(in, &s) == nil {
			if string(s) != string(in) || s.String() == "" {
				t.Errorf("signature %x", in)
			}
			s.Verify(make([]byte, 32), k) // must not panic
		}
		var h PublicKeyHandle
		if borsh.Unmarshal(in, &h) == nil && (string(h) != string(in) || h.String() == "") {
			t.Errorf("handle %x", in)
		}
	})
}

func BenchmarkKeyText(b *testing.B) {
	for _, scheme := range []KeyType{ED25519, SECP256K1, MLDSA65} {
		k := SecretKeyFromSeed(scheme, "bench").PublicKey()
		text := k.String()
		b.Run(fmt.Sprintf("scheme=%v/op=print", scheme), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = k.String()
			}
		})
		b.Run(fmt.Sprintf("scheme=%v/op=parse", scheme), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = ParsePublicKey(text)
			}
		})
	}
}
