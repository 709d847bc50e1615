package signature

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// cacheSlots is the number of slots of a CachedVerifier, 32 bytes each: enough for a block with 20
// shards and 100 validators.
const cacheSlots = 1 << 12

// CachedVerifier is a verifier that remembers valid signatures: a validator's signature arrives
// alone first, then in a block, then with that block again. A slot is chosen by the hash of key,
// data and signature, and holds the hash of its last valid signature. Invalid signatures are not
// remembered. Safe for concurrent use if verify is.
type CachedVerifier struct {
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	mu     sync.Mutex
	slots  [][sha256.Size]byte
}

// NewCachedVerifier returns a cache of the results of verify.
func NewCachedVerifier(verify func(primitives.Signature, []byte, primitives.PublicKey) bool) *CachedVerifier {
	return &CachedVerifier{verify: verify, slots: make([][sha256.Size]byte, cacheSlots)}
}

// slot returns the slot of a signature, and the value that it has if the signature is known.
func (r *CachedVerifier) slot(
	s primitives.Signature,
	data []byte,
	key primitives.PublicKey,
) (at *[sha256.Size]byte, sum [sha256.Size]byte) {
	var room [512]byte
	b := binary.LittleEndian.AppendUint32(room[:0], uint32(len(s)))
	b = binary.LittleEndian.AppendUint32(append(b, s...), uint32(len(key)))
	sum = sha256.Sum256(append(append(b, key...), data...))
	return &r.slots[binary.LittleEndian.Uint32(sum[:])%cacheSlots], sum
}

// Verify reports whether s is key's signature of data.
func (r *CachedVerifier) Verify(s primitives.Signature, data []byte, key primitives.PublicKey) bool {
	at, sum := r.slot(s, data, key)
	r.mu.Lock()
	known := *at == sum
	r.mu.Unlock()
	if known {
		return true
	}
	good := r.verify(s, data, key)
	if good {
		r.mu.Lock()
		*at = sum
		r.mu.Unlock()
	}
	return good
}

// Add adds a signature that was made by this node, without verifying it.
func (r *CachedVerifier) Add(s primitives.Signature, data []byte, key primitives.PublicKey) {
	at, sum := r.slot(s, data, key)
	r.mu.Lock()
	*at = sum
	r.mu.Unlock()
}
