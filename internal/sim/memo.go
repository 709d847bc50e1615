package sim

import (
	"crypto/sha256"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// A signature is checked by each node of a world, and by worlds that run beside each other: what was found is remembered. Which it was is told by a
// hash of all that decides about it.
type memory struct {
	mu  sync.Mutex
	was map[[32]byte]bool
}

var memories [16]memory

// mostRemembered bounds one memory.
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

// verify is primitives.Signature.Verify. The keys of a world are known, and ed25519 signs one way: a signature of one of them is right if it is the
// one that the key makes, which takes less than to verify it.
func verify(s primitives.Signature, data []byte, k primitives.PublicKey) bool {
	b := make([]byte, 0, 512)
	b = append(append(append(b, byte(len(s)), byte(len(k))), s...), k...)
	return remembered(sha256.Sum256(append(b, data...)), func() bool {
		if key, known := owner(k); known {
			return key.Sign(data) == s
		}
		return s.Verify(data, k)
	})
}

// verifyVRF is primitives.VerifyVRF.
func verifyVRF(k primitives.PublicKey, input []byte, value *[32]byte, proof *[64]byte) bool {
	b := append(append(append([]byte("vrf"), value[:]...), proof[:]...), k...)
	return remembered(sha256.Sum256(append(b, input...)), func() bool { return primitives.VerifyVRF(k, input, value, proof) })
}

func verifyTransaction(tx *primitives.SignedTransaction) bool {
	hash := tx.Hash()
	return verify(tx.Signature, hash[:], tx.PublicKey)
}

var (
	keysMu sync.Mutex
	keys   = map[primitives.AccountID]primitives.SecretKey{}
	owners = map[primitives.PublicKey]primitives.SecretKey{}
)

// secretOf is the key of an account, whose seed is its name.
func secretOf(id primitives.AccountID) primitives.SecretKey {
	keysMu.Lock()
	defer keysMu.Unlock()
	k, ok := keys[id]
	if !ok {
		k = primitives.SecretKeyFromSeed(primitives.ED25519, string(id))
		keys[id] = k
		owners[k.PublicKey()] = k
	}
	return k
}

func owner(k primitives.PublicKey) (primitives.SecretKey, bool) {
	keysMu.Lock()
	defer keysMu.Unlock()
	key, ok := owners[k]
	return key, ok
}
