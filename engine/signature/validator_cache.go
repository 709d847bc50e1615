package signature

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// cacheSlots is the number of slots of a CachedVerifier, of 32 bytes each. The number is sufficient
// for a block with 20 shards and 100 validators.
const cacheSlots = 1 << 12

// CachedVerifier is a verifier that remembers valid signatures of validators. Without the cache,
// this node would verify a signature up to three times: when the signature arrives in a message of
// its own, when it arrives in a block, and when the node imports that block. The hash of key, data
// and signature selects a slot. The slot contains the hash of the last valid signature that
// selected the slot. Invalid signatures are not remembered. Safe for concurrent use if the verify
// function is.
type CachedVerifier struct {
	verify func(primitives.Signature, []byte, primitives.PublicKey) bool
	mu     sync.Mutex
	slots  [][sha256.Size]byte
}

// NewCachedVerifier returns a CachedVerifier that calls verify for unknown signatures.
func NewCachedVerifier(verify func(primitives.Signature, []byte, primitives.PublicKey) bool) *CachedVerifier {
	return &CachedVerifier{verify: verify, slots: make([][sha256.Size]byte, cacheSlots)}
}

// slot returns the slot of a signature, and the value that the slot contains if the signature is
// remembered.
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

// Verify reports whether s is a valid signature of data by key.
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

// Add remembers a signature that this node has made, without verifying it.
func (r *CachedVerifier) Add(s primitives.Signature, data []byte, key primitives.PublicKey) {
	at, sum := r.slot(s, data, key)
	r.mu.Lock()
	*at = sum
	r.mu.Unlock()
}
