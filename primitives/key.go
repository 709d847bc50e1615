package primitives

import (
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// KeyType is the borsh tag of a key or signature scheme.
type KeyType byte

// The schemes (nearcore core/crypto/src/signature.rs), and the tag of a hashed ML-DSA key in the
// trie.
const (
	ED25519     KeyType = 0
	SECP256K1   KeyType = 1
	MLDSA65     KeyType = 2
	mlDSA65Hash KeyType = 3
	numKeyTypes         = 3
)

// Raw lengths by scheme, without the tag.
var (
	publicKeyLen = [numKeyTypes]int{32, 64, 1952}
	signatureLen = [numKeyTypes]int{64, 65, 3309}
)

// PublicKey is the borsh form of a public key, tag ‖ raw bytes. PublicKey is a string so that keys
// can be compared and used as map keys. Only parsers and decoders make one. The empty string is no
// key.
type PublicKey string

// Signature is the borsh form of a signature, tag ‖ raw bytes. The empty string is no signature.
type Signature string

// PublicKeyHandle is the borsh form of a key in the trie: the key itself, or 3 ‖ hash for ML-DSA-65
// (nearcore signature.rs:498).
type PublicKeyHandle string

// Type returns the scheme.
func (k PublicKey) Type() KeyType { return KeyType(k[0]) }

// Raw returns the bytes without the tag.
func (k PublicKey) Raw() string { return string(k[1:]) }

// Type returns the scheme.
func (s Signature) Type() KeyType { return KeyType(s[0]) }

// Raw returns the bytes without the tag.
func (s Signature) Raw() string { return string(s[1:]) }

// ZeroED25519Key is the signer key of deposit refunds: all zeros.
const ZeroED25519Key PublicKey = "\x00" + zero32

// ZeroED25519Signature is the signature of genesis chunks and blocks: all zeros.
const ZeroED25519Signature Signature = "\x00" + zero32 + zero32

const zero32 = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// readTagged reads tag ‖ raw. unknown is the format of the error for an unknown tag.
func readTagged(r *borsh.Reader, unknown string, lens *[numKeyTypes]int) string {
	tag, ok := r.Peek(0)
	if !ok {
		r.Fail(borsh.ErrEOF)
		return ""
	}
	switch {
	case int(tag) >= len(lens):
		r.Failf(unknown, tag)
		return ""
	case KeyType(tag) == MLDSA65:
		r.Take(1)
		if raw := r.Fill(lens[tag]); raw != nil {
			return string(append([]byte{tag}, raw...))
		}
		return ""
	}
	return string(r.Take(1 + lens[tag]))
}

// AppendBorsh appends tag ‖ raw.
func (k PublicKey) AppendBorsh(b []byte) []byte { return append(b, k...) }

// DecodeBorsh reads tag ‖ raw; tag 3 is refused.
func (k *PublicKey) DecodeBorsh(r *borsh.Reader) {
	if tag, ok := r.Peek(0); ok && KeyType(tag) == mlDSA65Hash {
		r.Failf("borsh tag 3 is reserved for PublicKeyHandle (ML-DSA-65 hash); not a valid PublicKey")
		return
	}
	*k = PublicKey(readTagged(r, "unknown KeyTag: %d", &publicKeyLen))
}

// ReadPublicKey reads tag ‖ raw.
func ReadPublicKey(r *borsh.Reader) PublicKey {
	var k PublicKey
	k.DecodeBorsh(r)
	return k
}

// AppendBorsh appends tag ‖ raw.
func (s Signature) AppendBorsh(b []byte) []byte { return append(b, s...) }

// DecodeBorsh reads tag ‖ raw. An ed25519 signature with one of the top three bits of its last byte
// set is refused (nearcore signature.rs:1180); nothing else is checked.
func (s *Signature) DecodeBorsh(r *borsh.Reader) {
	v := readTagged(r, "unknown key type '%d'", &signatureLen)
	if r.Err() == nil && KeyType(v[0]) == ED25519 && v[64]&0xe0 != 0 {
		r.Failf("signature error")
		return
	}
	*s = Signature(v)
}

// ReadSignature reads tag ‖ raw.
func ReadSignature(r *borsh.Reader) Signature {
	var s Signature
	s.DecodeBorsh(r)
	return s
}

// AppendBorsh appends the trie form.
func (h PublicKeyHandle) AppendBorsh(b []byte) []byte { return append(b, h...) }

// DecodeBorsh reads the trie form: tags 0, 1 and 3; tag 2 is refused.
func (h *PublicKeyHandle) DecodeBorsh(r *borsh.Reader) {
	*h = PublicKeyHandle(takeHandle(r))
}

// takeHandle reads the trie form in place: the result aliases the input.
func takeHandle(r *borsh.Reader) []byte {
	tag, ok := r.Peek(0)
	if !ok {
		r.Fail(borsh.ErrEOF)
		return nil
	}
	switch KeyType(tag) {
	case ED25519, mlDSA65Hash:
		return r.Take(33)
	case SECP256K1:
		return r.Take(65)
	}
	if KeyType(tag) == MLDSA65 {
		r.Failf("borsh tag 2 is reserved for PublicKey (full ML-DSA-65 key); not a valid PublicKeyHandle")
		return nil
	}
	r.Failf("unknown KeyTag: %d", tag)
	return nil
}

// ReadPublicKeyHandle reads the trie form.
func ReadPublicKeyHandle(r *borsh.Reader) PublicKeyHandle {
	var h PublicKeyHandle
	h.DecodeBorsh(r)
	return h
}
