package signature

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"github.com/troupe-chain/troupe/primitives"
)

// remembered is of how many signatures Remember remembers that they were good, 32 bytes each: those of a block of 20 shards and 100 validators.
const remembered = 1 << 12

// Remember returns verify with a memory of what it has found good: what a validator has signed comes by itself, then in a block, then in that block again. A place
// is that of a hash of key, data and signature, and its last one is in it; what was not good is looked at again. Safe for concurrent use, as verify is.
func Remember(verify func(primitives.Signature, []byte, primitives.PublicKey) bool) func(primitives.Signature, []byte, primitives.PublicKey) bool {
	var mu sync.Mutex
	places := make([][sha256.Size]byte, remembered)
	return func(s primitives.Signature, data []byte, key primitives.PublicKey) bool {
		var room [512]byte
		b := binary.LittleEndian.AppendUint32(room[:0], uint32(len(s)))
		b = binary.LittleEndian.AppendUint32(append(b, s...), uint32(len(key)))
		b = append(append(b, key...), data...)
		sum := sha256.Sum256(b)
		place := &places[binary.LittleEndian.Uint32(sum[:])%remembered]
		mu.Lock()
		known := *place == sum
		mu.Unlock()
		if known {
			return true
		}
		good := verify(s, data, key)
		if good {
			mu.Lock()
			*place = sum
			mu.Unlock()
		}
		return good
	}
}
