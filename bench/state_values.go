package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/troupe-chain/troupe/internal/testkit/workload"
	"github.com/troupe-chain/troupe/primitives"
)

// stateValues are the contract storage entries of a stored state. As on mainnet, few contracts have
// most of them: of the first someContracts accounts, account i has a share proportional to 1/(i+1).
// Keys are those of a map with hashed keys, and values do not compress. Equal options give equal
// entries.
type stateValues struct {
	seed   uint64
	mean   int   // mean length of a value in bytes
	counts []int // numbers of entries by account
	usage  []uint64
}

const (
	someContracts = 1000
	dataKeyBytes  = 33 // length of an entry's key: a byte and a hash
	maxValues     = 1<<31 - 1
	// maxMean is the largest mean length, because values are at most twice as long, and the protocol
	// allows values of 4 MiB.
	maxMean = 2 << 20
	// recordBytes are charged to an account for an entry beside its key and value.
	recordBytes = 40
)

func newStateValues(o *StateOptions) (*stateValues, error) {
	if o.Values < 0 || o.Values > maxValues {
		return nil, fmt.Errorf("bench: the number of values is %d, must be 0 to 2,147,483,647", o.Values)
	}
	if o.Values > 0 && (o.ValueBytes < 1 || o.ValueBytes > maxMean) {
		return nil, fmt.Errorf("bench: the mean length of values is %d, must be 1 to %d", o.ValueBytes, maxMean)
	}
	n := min(someContracts, o.Accounts)
	v := &stateValues{seed: o.Seed, mean: o.ValueBytes, counts: make([]int, n), usage: make([]uint64, n)}
	weight := func(i int) uint64 { return 1_000_000 / uint64(i+1) }
	sum, left := uint64(0), o.Values
	for i := range n {
		sum += weight(i)
	}
	for i := n - 1; i > 0; i-- {
		v.counts[i] = int(uint64(o.Values) * weight(i) / sum)
		left -= v.counts[i]
	}
	v.counts[0] = left
	spread(n, func(i int) {
		var rng rand.PCG
		for k := range v.counts[i] {
			v.begin(&rng, i, k)
			v.usage[i] += uint64(dataKeyBytes + v.length(&rng) + recordBytes)
		}
	})
	return v, nil
}

// begin sets the generator to the start of an entry. The length is drawn first, then the key.
func (v *stateValues) begin(rng *rand.PCG, account, entry int) {
	rng.Seed(v.seed^uint64(account)<<32, uint64(entry))
}

// length draws the length of a value, from 1 to twice the mean minus 1.
func (v *stateValues) length(rng *rand.PCG) int { return 1 + int(rng.Uint64()%uint64(2*v.mean-1)) }

// all yields the trie entries in trie order.
func (v *stateValues) all(yield func(k, v []byte) bool) {
	var rng rand.PCG
	sorted(len(v.counts), func(i int) bool {
		count := v.counts[i]
		if count == 0 {
			return true
		}
		// The first 8 bytes of the keys ascend: each lies in a range of its own.
		room := ^uint64(0) / uint64(count)
		for k := range count {
			v.begin(&rng, i, k)
			value := make([]byte, v.length(&rng))
			name := make([]byte, 0, dataKeyBytes)
			name = binary.BigEndian.AppendUint64(append(name, 't'), uint64(k)*room+rng.Uint64()%room)
			for len(name) < dataKeyBytes {
				name = binary.LittleEndian.AppendUint64(name, rng.Uint64())
			}
			fill(&rng, value)
			if !yield(primitives.AppendContractDataKey(nil, workload.Account(i), name), value) {
				return false
			}
		}
		return true
	})
}

// fill sets b to pseudo-random bytes.
func fill(rng *rand.PCG, b []byte) {
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, rng.Uint64())
		b = b[8:]
	}
	for x := rng.Uint64(); len(b) > 0; x >>= 8 {
		b[0], b = byte(x), b[1:]
	}
}
