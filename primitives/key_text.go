package primitives

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/sha3"
)

// Texts of keys, handles and signatures: "scheme:base58(raw)", the scheme in any case; without a
// scheme it is ed25519 (nearcore core/crypto/src/signature.rs:69). Lengths must match exactly.

// KeyTextError is the error of an invalid text of a key, handle or signature. RPC clients see its
// words, which are nearcore's (core/crypto/src/errors.rs).
type KeyTextError struct{ Reason string }

func (e *KeyTextError) Error() string { return e.Reason }

// String returns the scheme's prefix without the colon.
func (t KeyType) String() string {
	switch t {
	case ED25519:
		return "ed25519"
	case SECP256K1:
		return "secp256k1"
	case MLDSA65:
		return "ml-dsa-65"
	case mlDSA65Hash:
		return "ml-dsa-65-hash"
	}
	return fmt.Sprintf("KeyType(%d)", byte(t))
}

// IsPostQuantum returns whether the scheme is post-quantum.
func (t KeyType) IsPostQuantum() bool { return t == MLDSA65 }

// ParseKeyType reads a scheme's name in any case.
func ParseKeyType(text string) (KeyType, error) {
	switch name := asciiLower(text); name {
	case "ed25519":
		return ED25519, nil
	case "secp256k1":
		return SECP256K1, nil
	case "ml-dsa-65":
		return MLDSA65, nil
	default:
		return 0, &KeyTextError{"unknown key type '" + name + "'"}
	}
}

// asciiLower lowers A-Z only, as Rust's to_ascii_lowercase does: other letters would change the
// error's text.
func asciiLower(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r >= 'A' && r <= 'Z' }) {
		return s
	}
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// splitKeyText separates the scheme from the digits.
func splitKeyText(text string) (KeyType, string, error) {
	name, digits, ok := strings.Cut(text, ":")
	if !ok {
		return ED25519, text, nil
	}
	t, err := ParseKeyType(name)
	return t, digits, err
}

// parseTagged parses a text into its borsh form. what is "key" or "signature", for errors.
func parseTagged(text, what string, lens *[numKeyTypes]int) (string, error) {
	t, digits, err := splitKeyText(text)
	if err != nil {
		return "", err
	}
	raw, err := decodeKeyDigits(digits, what, lens[t])
	return string(rune(t)) + raw, err // tags are below 0x80, so the rune is one byte
}

// decodeKeyDigits decodes base58 of exactly size bytes. A text that is too long is reported as one
// byte too long, however long it is, because nearcore decodes into a buffer of the right size.
func decodeKeyDigits(digits, what string, size int) (string, error) {
	raw, err := base58Decode(digits, size)
	switch {
	case errors.Is(err, errBase58TooLong):
		return "", keyLengthError(what, size, size+1)
	case err != nil:
		return "", &KeyTextError{"invalid " + what + " data: " + err.Error()}
	case len(raw) != size:
		return "", keyLengthError(what, size, len(raw))
	}
	return string(raw), nil
}

func keyLengthError(what string, want, got int) error {
	return &KeyTextError{fmt.Sprintf("invalid %s length: expected the input of %d bytes, but %d was given", what, want, got)}
}

func appendKeyText(b []byte, tagged string) []byte {
	if tagged == "" {
		return b
	}
	b = append(b, KeyType(tagged[0]).String()...)
	return appendBase58(append(b, ':'), tagged[1:])
}

// ParsePublicKey reads "ed25519:...", "secp256k1:...", "ml-dsa-65:..." or the digits of an ed25519
// key. The text of a handle ("ml-dsa-65-hash:") is refused.
func ParsePublicKey(text string) (PublicKey, error) {
	k, err := parseTagged(text, "key", &publicKeyLen)
	if err != nil {
		return "", err
	}
	return PublicKey(k), nil
}

// MustParsePublicKey is ParsePublicKey for constants; it panics on bad text.
func MustParsePublicKey(text string) PublicKey {
	k, err := ParsePublicKey(text)
	if err != nil {
		panic(fmt.Sprintf("primitives: public key %q: %v", text, err))
	}
	return k
}

// NewPublicKey returns the key with these raw bytes, whose length must be the scheme's. Like
// nearcore, NewPublicKey does not check that the bytes are a point of the curve.
func NewPublicKey(t KeyType, raw []byte) (PublicKey, error) {
	if int(t) >= len(publicKeyLen) {
		return "", &KeyTextError{fmt.Sprintf("unknown key type '%d'", byte(t))}
	}
	if len(raw) != publicKeyLen[t] {
		return "", keyLengthError("key", publicKeyLen[t], len(raw))
	}
	return PublicKey(string(rune(t)) + string(raw)), nil
}

// IsZero returns whether k is no key at all (the zero value, not the key of zero bytes).
func (k PublicKey) IsZero() bool { return k == "" }

// AppendText appends the text.
func (k PublicKey) AppendText(b []byte) ([]byte, error) { return appendKeyText(b, string(k)), nil }

// String returns the text, "" for no key.
func (k PublicKey) String() string { return string(appendKeyText(nil, string(k))) }

// MarshalText returns the text.
func (k PublicKey) MarshalText() ([]byte, error) { return appendKeyText(nil, string(k)), nil }

// UnmarshalText parses a key.
func (k *PublicKey) UnmarshalText(text []byte) error {
	v, err := ParsePublicKey(string(text))
	if err == nil {
		*k = v
	}
	return err
}

// ParseSignature parses the text of a signature. Its scalars are not checked (only borsh decoding
// checks the top bits).
func ParseSignature(text string) (Signature, error) {
	s, err := parseTagged(text, "signature", &signatureLen)
	if err != nil {
		return "", err
	}
	return Signature(s), nil
}

// IsZero returns whether s is no signature at all (the zero value).
func (s Signature) IsZero() bool { return s == "" }

// AppendText appends the text.
func (s Signature) AppendText(b []byte) ([]byte, error) { return appendKeyText(b, string(s)), nil }

// String returns the text, "" for no signature.
func (s Signature) String() string { return string(appendKeyText(nil, string(s))) }

// MarshalText returns the text.
func (s Signature) MarshalText() ([]byte, error) { return appendKeyText(nil, string(s)), nil }

// UnmarshalText parses a signature.
func (s *Signature) UnmarshalText(text []byte) error {
	v, err := ParseSignature(string(text))
	if err == nil {
		*s = v
	}
	return err
}

// mlDSA65HashDomain is the domain separator of hashes of ML-DSA-65 keys
// (core/crypto/src/hash_domain.rs).
const mlDSA65HashDomain = "near:ml-dsa-65-pubkey-hash:v1"

// Handle returns the form of k in the trie: the key itself, or 3 ‖ sha3-256(domain ‖ raw) for
// ML-DSA-65. Storage is charged for its length (nearcore: trie_id_len).
func (k PublicKey) Handle() PublicKeyHandle {
	if k.Type() != MLDSA65 {
		return PublicKeyHandle(k)
	}
	h := sha3.New256()
	h.Write([]byte(mlDSA65HashDomain))
	h.Write([]byte(k.Raw()))
	out := make([]byte, 1, 33)
	out[0] = byte(mlDSA65Hash)
	return PublicKeyHandle(h.Sum(out))
}

// TrieIDLen returns len(k.Handle()) without hashing: 33, 65 or 33 bytes.
func (k PublicKey) TrieIDLen() int {
	if k.Type() == SECP256K1 {
		return 65
	}
	return 33
}

// Type returns the scheme of the key: MLDSA65 for a hash.
func (h PublicKeyHandle) Type() KeyType {
	if KeyType(h[0]) == mlDSA65Hash {
		return MLDSA65
	}
	return KeyType(h[0])
}

// FullKey returns the key that h contains; false if h is only a hash.
func (h PublicKeyHandle) FullKey() (PublicKey, bool) {
	if h.Type() == MLDSA65 {
		return "", false
	}
	return PublicKey(h), true
}

const mlDSA65HashPrefix = "ml-dsa-65-hash:"

// maxHandleDigits bounds the digits of a hash, which are decoded only to report how many bytes they
// are.
const maxHandleDigits = 8192

// ParsePublicKeyHandle parses "ml-dsa-65-hash:..." (prefix in lower case only) or the text of an
// ed25519 or secp256k1 key. A full ML-DSA-65 key is refused.
func ParsePublicKeyHandle(text string) (PublicKeyHandle, error) {
	if digits, ok := strings.CutPrefix(text, mlDSA65HashPrefix); ok {
		raw, err := base58Decode(digits, min(len(digits), maxHandleDigits))
		if err != nil {
			return "", &KeyTextError{"invalid key data: " + err.Error()}
		}
		if len(raw) != 32 {
			return "", keyLengthError("key", 32, len(raw))
		}
		return PublicKeyHandle(string(rune(mlDSA65Hash)) + string(raw)), nil
	}
	t, digits, err := splitKeyText(text)
	if err != nil {
		return "", err
	}
	if t == MLDSA65 {
		return "", &KeyTextError{"invalid key data: full ML-DSA-65 keys cannot appear in a PublicKeyHandle; " +
			"use the `ml-dsa-65-hash:` form instead"}
	}
	raw, err := decodeKeyDigits(digits, "key", publicKeyLen[t])
	if err != nil {
		return "", err
	}
	return PublicKeyHandle(string(rune(t)) + raw), nil
}

// AppendText appends the text.
func (h PublicKeyHandle) AppendText(b []byte) ([]byte, error) {
	return appendKeyText(b, string(h)), nil
}

// String returns the text, "" for no handle.
func (h PublicKeyHandle) String() string { return string(appendKeyText(nil, string(h))) }

// MarshalText returns the text.
func (h PublicKeyHandle) MarshalText() ([]byte, error) { return appendKeyText(nil, string(h)), nil }

// UnmarshalText parses a handle.
func (h *PublicKeyHandle) UnmarshalText(text []byte) error {
	v, err := ParsePublicKeyHandle(string(text))
	if err == nil {
		*h = v
	}
	return err
}
