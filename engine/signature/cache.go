package signature

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// cacheSlots is of how many signatures Remember remembers that they were good, 32 bytes each: those of a block of 20 shards and 100 validators.
const cacheSlots = 1 << 12

// CachedVerifier is a verifier with a memory of what it has found good: what a validator has signed comes by itself, then in a block, then in that block again. The place
// of a signature is that of a hash of key, data and signature, and the last one is in it; what was not good is looked at again. Safe for concurrent use, if what it
// asks is.
type CachedVerifier struct {
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	mu     sync.Mutex
	slots  [][sha256.Size]byte
}

// NewCachedVerifier returns one that asks verify.
func NewCachedVerifier(verify func(primitives.Signature, []byte, primitives.PublicKey) bool) *CachedVerifier {
	return &CachedVerifier{verify: verify, slots: make([][sha256.Size]byte, cacheSlots)}
}

// slot is where a signature stands, and what stands there if it is good.
func (r *CachedVerifier) slot(s primitives.Signature, data []byte, key primitives.PublicKey) (at *[sha256.Size]byte, sum [sha256.Size]byte) {
	var room [512]byte
	b := binary.LittleEndian.AppendUint32(room[:0], uint32(len(s)))
	b = binary.LittleEndian.AppendUint32(append(b, s...), uint32(len(key)))
	sum = sha256.Sum256(append(append(b, key...), data...))
	return &r.slots[binary.LittleEndian.Uint32(sum[:])%cacheSlots], sum
}

// Verify tells whether s is key's signature of data.
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

// Add notes a signature that was made here.
func (r *CachedVerifier) Add(s primitives.Signature, data []byte, key primitives.PublicKey) {
	at, sum := r.slot(s, data, key)
	r.mu.Lock()
	*at = sum
	r.mu.Unlock()
}
