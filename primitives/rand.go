package primitives

import (
	"encoding/binary"
	"math/bits"
)

// ChaChaRng is the deterministic generator of the protocol's random choices: the key stream of
// ChaCha with a 64-bit block counter and a zero nonce, read in 32-bit words (rand_chacha 0.3). It
// must not be used for secrets, except keys that are derived from a seed. It is not safe for
// concurrent use.
type ChaChaRng struct {
	key     [8]uint32
	counter uint64 // number of the next block
	rounds  int
	next    int // first unread word of block; 16: none is left
	block   [16]uint32
}

// NewChaCha20Rng returns ChaCha20Rng::from_seed(seed), used for shuffles and sampling.
func NewChaCha20Rng(seed [32]byte) *ChaChaRng { return newChaChaRng(seed, 20) }

// NewStdRng returns rand 0.8's StdRng::from_seed(seed), which is ChaCha12: test keys and test
// layouts come from it.
func NewStdRng(seed [32]byte) *ChaChaRng { return newChaChaRng(seed, 12) }

// NewChaCha8Rng returns ChaCha8Rng::from_seed(seed), which only nearcore's tests use.
func NewChaCha8Rng(seed [32]byte) *ChaChaRng { return newChaChaRng(seed, 8) }

func newChaChaRng(seed [32]byte, rounds int) *ChaChaRng {
	r := &ChaChaRng{rounds: rounds, next: 16}
	for i := range r.key {
		r.key[i] = binary.LittleEndian.Uint32(seed[4*i:])
	}
	return r
}

// RngSeedFromUint64 expands a number to a seed by PCG32, as rand_core 0.6's seed_from_u64 does.
func RngSeedFromUint64(state uint64) (seed [32]byte) {
	for i := range 8 {
		state = state*6364136223846793005 + 11634580027462260723
		x := uint32((state>>18 ^ state) >> 27)
		binary.LittleEndian.PutUint32(seed[4*i:], bits.RotateLeft32(x, -int(state>>59)))
	}
	return seed
}

func (r *ChaChaRng) refill() {
	in := [16]uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}
	copy(in[4:], r.key[:])
	in[12], in[13] = uint32(r.counter), uint32(r.counter>>32)
	x := in
	quarter := func(a, b, c, d int) {
		x[a] += x[b]
		x[d] = bits.RotateLeft32(x[d]^x[a], 16)
		x[c] += x[d]
		x[b] = bits.RotateLeft32(x[b]^x[c], 12)
		x[a] += x[b]
		x[d] = bits.RotateLeft32(x[d]^x[a], 8)
		x[c] += x[d]
		x[b] = bits.RotateLeft32(x[b]^x[c], 7)
	}
	for range r.rounds / 2 {
		for i := range 4 { // columns
			quarter(i, 4+i, 8+i, 12+i)
		}
		for i := range 4 { // diagonals
			quarter(i, 4+(i+1)%4, 8+(i+2)%4, 12+(i+3)%4)
		}
	}
	for i := range x {
		r.block[i] = x[i] + in[i]
	}
	r.counter++
	r.next = 0
}

// Uint32 returns the next word.
func (r *ChaChaRng) Uint32() uint32 {
	if r.next == len(r.block) {
		r.refill()
	}
	r.next++
	return r.block[r.next-1]
}

// Uint64 returns the next two words, the low one first.
func (r *ChaChaRng) Uint64() uint64 {
	low := uint64(r.Uint32())
	return low | uint64(r.Uint32())<<32
}

// Read fills b (fill_bytes). The rest of a partly used last word is dropped. It never fails.
func (r *ChaChaRng) Read(b []byte) (int, error) {
	n := len(b)
	for len(b) >= 4 {
		binary.LittleEndian.PutUint32(b, r.Uint32())
		b = b[4:]
	}
	if len(b) > 0 {
		var last [4]byte
		binary.LittleEndian.PutUint32(last[:], r.Uint32())
		copy(b, last[:])
	}
	return n, nil
}

// UniformUint32 returns gen_range(0..n) of rand 0.8.5 for u32: widening multiplication, and
// rejection beyond the zone. n must not be 0.
func (r *ChaChaRng) UniformUint32(n uint32) uint32 {
	zone := n<<bits.LeadingZeros32(n) - 1
	for {
		if m := uint64(r.Uint32()) * uint64(n); uint32(m) <= zone {
			return uint32(m >> 32)
		}
	}
}

// UniformUint64 returns gen_range(0..n) of rand 0.8.5 for u64 and usize; the result differs from
// the u32 form's result for the same n. n must not be 0.
func (r *ChaChaRng) UniformUint64(n uint64) uint64 {
	zone := n<<bits.LeadingZeros64(n) - 1
	for {
		if hi, lo := bits.Mul64(r.Uint64(), n); lo <= zone {
			return hi
		}
	}
}

// Shuffle permutes s in place as rand 0.8.5's SliceRandom::shuffle: from the end, each index drawn
// in the u32 form (the u64 form only past 2^32 items).
func Shuffle[T any](r *ChaChaRng, s []T) {
	for i := len(s) - 1; i > 0; i-- {
		var j int
		if n := uint64(i) + 1; n <= 1<<32-1 {
			j = int(r.UniformUint32(uint32(n)))
		} else {
			j = int(r.UniformUint64(n))
		}
		s[i], s[j] = s[j], s[i]
	}
}
