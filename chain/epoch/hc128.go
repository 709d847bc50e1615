package epoch

import (
	"encoding/binary"
	"math/bits"
)

// hc128 is the stream cipher HC-128 as in rand_hc's Hc128Rng. The first half of the seed is the
// key, the second half the IV. hc128 is used only to draw the seats of the genesis of mainnet and
// testnet. Each step changes one table entry and outputs one word.
type hc128 struct {
	p, q [512]uint32
	step uint32 // number of the next step, modulo 1024
}

func newHC128(seed [32]byte) *hc128 {
	var w [1280]uint32
	for i := range 4 {
		w[i] = binary.LittleEndian.Uint32(seed[4*i:])
		w[i+4] = w[i]
		w[i+8] = binary.LittleEndian.Uint32(seed[16+4*i:])
		w[i+12] = w[i+8]
	}
	for i := 16; i < len(w); i++ {
		x, y := w[i-15], w[i-2]
		f1 := bits.RotateLeft32(x, -7) ^ bits.RotateLeft32(x, -18) ^ x>>3
		f2 := bits.RotateLeft32(y, -17) ^ bits.RotateLeft32(y, -19) ^ y>>10
		w[i] = f2 + w[i-7] + f1 + w[i-16] + uint32(i)
	}
	h := new(hc128)
	copy(h.p[:], w[256:])
	copy(h.q[:], w[768:])
	for i := range 512 { // run 1024 steps; the output of each step replaces a table entry
		h.p[i] = h.next()
	}
	for i := range 512 {
		h.q[i] = h.next()
	}
	return h
}

func (h *hc128) next() uint32 {
	j := h.step % 512
	first := h.step < 512
	h.step = (h.step + 1) % 1024
	// j-back may wrap around, because 512 divides 2^32.
	at := func(t *[512]uint32, back uint32) uint32 { return t[(j-back)%512] }
	if first {
		h.p[j] += (bits.RotateLeft32(at(&h.p, 3), -10) ^ bits.RotateLeft32(at(&h.p, 511), -23)) +
			bits.RotateLeft32(at(&h.p, 10), -8)
		x := at(&h.p, 12)
		return (h.q[x&0xff] + h.q[256+x>>16&0xff]) ^ h.p[j]
	}
	h.q[j] += (bits.RotateLeft32(at(&h.q, 3), 10) ^ bits.RotateLeft32(at(&h.q, 511), 23)) +
		bits.RotateLeft32(at(&h.q, 10), 8)
	x := at(&h.q, 12)
	return (h.p[x&0xff] + h.p[256+x>>16&0xff]) ^ h.q[j]
}

// Uint64 returns the next two words, the low one first.
func (h *hc128) Uint64() uint64 {
	low := uint64(h.next())
	return low | uint64(h.next())<<32
}

// below returns a random number below bound, as the rand crate of 2020 does. The rand crate of 2020
// rejects a draw at the edge of the zone; newer versions of rand accept the draw.
func (h *hc128) below(bound uint64) uint64 {
	zone := bound<<bits.LeadingZeros64(bound) - 1
	for {
		if hi, lo := bits.Mul64(h.Uint64(), bound); lo < zone {
			return hi
		}
	}
}
