package primitives

import (
	"fmt"
	"io"

	"github.com/cloudflare/circl/sign/mldsa/mldsa65"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	// voi signs the same bytes as crypto/ed25519 in 0.6 of the time.
	"github.com/oasisprotocol/curve25519-voi/primitives/ed25519"
	"golang.org/x/crypto/sha3"
)

// secretKeyLen holds the raw lengths by scheme: seed ‖ public key, scalar, and FIPS 204's expanded
// key.
var secretKeyLen = [numKeyTypes]int{64, 32, mldsa65.PrivateKeySize}

// SecretKey signs. It is kept as tag ‖ raw bytes, which were checked when it was made. The zero
// value is no key. String returns the whole secret, as nearcore's Display does: do not log it.
type SecretKey struct {
	tagged string
	by     *Signer // signs instead of the scheme; nil: the scheme signs
}

// Signer replaces the signature scheme of a key. Only verifiers that know the Signer accept its
// signatures. A cluster within one process uses it to avoid the cost of elliptic curves.
type Signer struct{ Sign func(data []byte) Signature }

// SignedBy returns the key with a signer.
func (k SecretKey) SignedBy(s *Signer) SecretKey { return SecretKey{tagged: k.tagged, by: s} }

// ParseSecretKey parses "scheme:base58(raw)"; without a scheme it is ed25519. In addition to
// nearcore's checks (nearcore would panic on first use), the halves of an ed25519 key must match.
func ParseSecretKey(text string) (SecretKey, error) {
	tagged, err := parseTagged(text, "key", &secretKeyLen)
	if err != nil {
		return SecretKey{}, err
	}
	return newSecretKey(tagged)
}

// NewSecretKey returns the key with these raw bytes.
func NewSecretKey(t KeyType, raw []byte) (SecretKey, error) {
	if int(t) >= len(secretKeyLen) {
		return SecretKey{}, &KeyTextError{fmt.Sprintf("unknown key type '%d'", byte(t))}
	}
	if len(raw) != secretKeyLen[t] {
		return SecretKey{}, keyLengthError("key", secretKeyLen[t], len(raw))
	}
	return newSecretKey(string(rune(t)) + string(raw))
}

func newSecretKey(tagged string) (SecretKey, error) {
	k := SecretKey{tagged: tagged}
	switch raw := []byte(tagged[1:]); k.Type() {
	case ED25519:
		if string(ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])) != tagged[1:] {
			return SecretKey{}, &KeyTextError{"invalid key data: Mismatched Keypair detected"}
		}
	case SECP256K1:
		var scalar secp256k1.ModNScalar
		if scalar.SetByteSlice(raw) || scalar.IsZero() {
			return SecretKey{}, &KeyTextError{"invalid key data: malformed or out-of-range secret key"}
		}
	case MLDSA65:
		if !validMLDSA65(raw) {
			return SecretKey{}, &KeyTextError{"invalid key data: InvalidEncoding"}
		}
	}
	return k, nil
}

// validMLDSA65 returns whether raw is the canonical encoding of its key (coefficients in range)
// with the right hash of the public key, which signing uses.
func validMLDSA65(raw []byte) bool {
	sk := mlDSA65Secret(string(raw))
	if string(sk.Bytes()) != string(raw) {
		return false
	}
	var tr [64]byte
	sha3.ShakeSum256(tr[:], sk.Public().(*mldsa65.PublicKey).Bytes())
	return string(tr[:]) == string(raw[64:128])
}

func mlDSA65Secret(raw string) *mldsa65.PrivateKey {
	var buf [mldsa65.PrivateKeySize]byte
	copy(buf[:], raw)
	var sk mldsa65.PrivateKey
	sk.Unpack(&buf)
	return &sk
}

// SecretKeyFromSeed derives the test key that nearcore derives from a word
// (core/crypto/src/test_utils.rs). The word's first 32 bytes, padded with spaces, are the ed25519
// seed, the ML-DSA-65 key generation seed, or the seed of the StdRng that draws the secp256k1
// scalar. It panics for an unknown scheme.
func SecretKeyFromSeed(t KeyType, word string) SecretKey {
	var seed [32]byte
	for i := range seed {
		seed[i] = ' '
	}
	copy(seed[:], word)
	if t == SECP256K1 {
		k, err := GenerateSecretKey(t, NewStdRng(seed))
		if err != nil {
			panic(fmt.Sprintf("primitives: %v", err)) // the generator never fails
		}
		return k
	}
	return secretKeyFromEntropy(t, &seed)
}

func secretKeyFromEntropy(t KeyType, seed *[32]byte) SecretKey {
	switch t {
	case ED25519:
		return SecretKey{tagged: string(rune(t)) + string(ed25519.NewKeyFromSeed(seed[:]))}
	case MLDSA65:
		_, sk := mldsa65.NewKeyFromSeed(seed)
		return SecretKey{tagged: string(rune(t)) + string(sk.Bytes())}
	}
	panic(fmt.Sprintf("primitives: no case for %v", t))
}

// GenerateSecretKey makes a key from 32 bytes of random (or more, in the unlikely case that they
// are not a secp256k1 scalar). The error is the reader's.
func GenerateSecretKey(t KeyType, random io.Reader) (SecretKey, error) {
	for {
		var seed [32]byte
		if _, err := io.ReadFull(random, seed[:]); err != nil {
			return SecretKey{}, fmt.Errorf("generate a key: %w", err)
		}
		if t != SECP256K1 {
			return secretKeyFromEntropy(t, &seed), nil
		}
		if k, err := NewSecretKey(t, seed[:]); err == nil {
			return k, nil
		}
	}
}

// IsZero returns whether k is no key.
func (k SecretKey) IsZero() bool { return k.tagged == "" }

// Type returns the scheme.
func (k SecretKey) Type() KeyType { return KeyType(k.tagged[0]) }

// Raw returns the secret bytes without the tag.
func (k SecretKey) Raw() string { return k.tagged[1:] }

// PublicKey returns the public key of k.
func (k SecretKey) PublicKey() PublicKey {
	switch raw := k.Raw(); k.Type() {
	case ED25519:
		return PublicKey(string(rune(ED25519)) + raw[ed25519.SeedSize:])
	case SECP256K1:
		full := secp256k1.PrivKeyFromBytes([]byte(raw)).PubKey().SerializeUncompressed()
		full[0] = byte(SECP256K1) // replaces the 4 that means "uncompressed"
		return PublicKey(full)
	default:
		pk := mlDSA65Secret(raw).Public().(*mldsa65.PublicKey)
		return PublicKey(string(rune(MLDSA65)) + string(pk.Bytes()))
	}
}

// Sign signs data. For secp256k1 data must be 32 bytes (a hash), else it panics. Every scheme is
// deterministic here: RFC 8032, RFC 6979 with a low s, and FIPS 204's deterministic variant with an
// empty context (nearcore's ML-DSA-65 signatures are randomized; verifiers accept both kinds of
// signatures).
func (k SecretKey) Sign(data []byte) Signature {
	if k.by != nil {
		return k.by.Sign(data)
	}
	switch raw := k.Raw(); k.Type() {
	case ED25519:
		return Signature(string(rune(ED25519)) + string(ed25519.Sign(ed25519.PrivateKey(raw), data)))
	case SECP256K1:
		if len(data) != 32 {
			panic(fmt.Sprintf("primitives: secp256k1 signs 32 bytes, not %d", len(data)))
		}
		// 27 + recovery id, then r and s
		compact := ecdsa.SignCompact(secp256k1.PrivKeyFromBytes([]byte(raw)), data, false)
		out := append(make([]byte, 0, 66), byte(SECP256K1))
		out = append(out, compact[1:]...)
		return Signature(append(out, compact[0]-27))
	default:
		out := make([]byte, 1+mldsa65.SignatureSize)
		out[0] = byte(MLDSA65)
		if err := mldsa65.SignTo(mlDSA65Secret(raw), data, nil, false, out[1:]); err != nil {
			panic(fmt.Sprintf("primitives: ML-DSA-65 signing: %v", err)) // only a context that is too long fails
		}
		return Signature(out)
	}
}

// String returns the whole secret as text, "" for no key.
func (k SecretKey) String() string { return string(appendKeyText(nil, k.tagged)) }

// MarshalText returns the whole secret as text.
func (k SecretKey) MarshalText() ([]byte, error) { return appendKeyText(nil, k.tagged), nil }

// UnmarshalText parses a secret key.
func (k *SecretKey) UnmarshalText(text []byte) error {
	v, err := ParseSecretKey(string(text))
	if err == nil {
		*k = v
	}
	return err
}
