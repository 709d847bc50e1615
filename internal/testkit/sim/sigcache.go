package sim

import (
	"crypto/sha256"
	"sync"

	"github.com/troupe-chain/troupe/consensus"
	"github.com/troupe-chain/troupe/primitives"
)

// memory caches results of signature checks. All nodes of a world check the same signatures, and so
// do worlds that run in parallel. The key is a hash of the signature, the public key and the data.
type memory struct {
	mu  sync.Mutex
	was map[[32]byte]bool
}

var memories [16]memory

// mostRemembered is the number of results in a memory at which the memory is emptied.
const mostRemembered = 1 << 14

func remembered(key [32]byte, find func() bool) bool {
	m := &memories[key[0]%16]
	m.mu.Lock()
	good, ok := m.was[key]
	m.mu.Unlock()
	if ok {
		return good
	}
	good = find()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.was == nil || len(m.was) >= mostRemembered {
		m.was = map[[32]byte]bool{}
	}
	m.was[key] = good
	return good
}

// sign returns a simulated signature: a hash of the public key and the data. Such a signature is
// cheap, and suffices because byzantine validators here sign only with their own keys.
func sign(k primitives.PublicKey, data []byte) primitives.Signature {
	out := signature(k, data)
	return primitives.Signature(out[:])
}

// signature returns the bytes of sign's result without allocating.
func signature(k primitives.PublicKey, data []byte) (out [65]byte) {
	h := sha256.New()
	var key [80]byte
	_, _ = h.Write(append(key[:0], k...))
	_, _ = h.Write(data)
	out[0] = byte(primitives.ED25519)
	h.Sum(out[1:1])
	second := sha256.Sum256(out[1:33])
	copy(out[33:], second[:])
	out[64] &= 0x1f // so that the ed25519 scalar is below 2^253
	return out
}

// verify checks a simulated signature if secretOf made the key, otherwise a real signature.
func verify(s primitives.Signature, data []byte, k primitives.PublicKey) bool {
	if known(k) {
		out := signature(k, data)
		return string(s) == string(out[:])
	}
	b := make([]byte, 0, 512)
	b = append(append(append(b, byte(len(s)), byte(len(k))), s...), k...)
	return remembered(sha256.Sum256(append(b, data...)), func() bool { return s.Verify(data, k) })
}

// cachedVerifier implements consensus.Verifier with the cache.
type cachedVerifier struct{ consensus.PlainVerifier }

// Verify is the function verify.
func (cachedVerifier) Verify(s primitives.Signature, data []byte, k primitives.PublicKey) bool {
	return verify(s, data, k)
}

// verifyVRF is primitives.VerifyVRF with a cache.
func verifyVRF(k primitives.PublicKey, input []byte, value *[32]byte, proof *[64]byte) bool {
	b := append(append(append([]byte("vrf"), value[:]...), proof[:]...), k...)
	return remembered(sha256.Sum256(append(b, input...)), func() bool { return primitives.VerifyVRF(k, input, value, proof) })
}

func verifyTransaction(tx *primitives.SignedTransaction) bool {
	hash := tx.Hash()
	return verify(tx.Signature, hash[:], tx.PublicKey)
}

var (
	keysMu sync.RWMutex
	keys   = map[primitives.AccountID]primitives.SecretKey{}
	owners = map[primitives.PublicKey]bool{}
)

// secretOf returns the key of an account. The key is derived from the account's name and signs with
// sign.
func secretOf(id primitives.AccountID) primitives.SecretKey {
	keysMu.Lock()
	defer keysMu.Unlock()
	k, ok := keys[id]
	if !ok {
		k = primitives.TestKey(id)
		public := k.PublicKey()
		k = k.SignedBy(&primitives.Signer{Sign: func(data []byte) primitives.Signature { return sign(public, data) }})
		keys[id] = k
		owners[public] = true
	}
	return k
}

func known(k primitives.PublicKey) bool {
	keysMu.RLock()
	defer keysMu.RUnlock()
	return owners[k]
}
