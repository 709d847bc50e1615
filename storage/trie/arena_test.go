package trie

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestArenaBlocksDoNotOverlap: blocks of all sizes lie within their slabs without overlap, also at
// the ends of slabs and in the short first ones. Freed blocks are reused, and a reader with an
// older list of slabs finds what it refers to.
func TestArenaBlocksDoNotOverlap(t *testing.T) {
	t.Parallel()
	type block struct {
		ref   uint32
		class uint8
		mark  byte
	}
	sizes := []int{1, 15, 16, 17, 511, 512, 513, 4 << 10, 10 << 10, 32 << 10, firstSlab - 2*unitSize, firstSlab - unitSize, firstSlab, firstSlab + 1, 2 * firstSlab, 8 * firstSlab, slabSize - firstSlab}
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		a := newArena()
		var held []block
		var old mem
		var oldest []block
		var units uint64
		for step := range 3000 {
			if len(held) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(held))
				b := held[i]
				held = slices.Delete(held, i, i+1)
				oldest = slices.DeleteFunc(oldest, func(x block) bool { return x.ref == b.ref })
				units -= uint64(classUnits[b.class])
				a.release(b.ref, b.class)
				continue
			}
			size := 1 + rng.IntN(600)
			if rng.IntN(200) == 0 || step < 3 {
				size = sizes[rng.IntN(len(sizes))]
			}
			ref, class, err := a.alloc(size)
			if err != nil {
				t.Fatal(err)
			}
			n := int(classUnits[class]) * unitSize
			if room := a.mem().at(ref); ref == 0 || n < size || len(room) < n {
				t.Fatalf("seed %d, step %d: reference %x of %d bytes, %d in its class, has room for %d", seed, step, ref, size, n, len(room))
			}
			b := block{ref, class, byte(step)}
			for i := range a.mem().at(ref)[:n] {
				a.mem().at(ref)[i] = b.mark
			}
			held = append(held, b)
			if units += uint64(classUnits[class]); step%500 == 0 {
				old, oldest = a.mem(), slices.Clone(held)
			}
		}
		if a.blocks != uint64(len(held)) || a.inUse != units*unitSize {
			t.Errorf("seed %d: %d blocks of %d bytes, want %d of %d", seed, a.blocks, a.inUse, len(held), units*unitSize)
		}
		for in, list := range map[*mem][]block{new(a.mem()): held, &old: oldest} {
			for _, b := range list {
				for i, x := range in.at(b.ref)[:int(classUnits[b.class])*unitSize] {
					if x != b.mark {
						t.Fatalf("seed %d: byte %d of %x is another block's", seed, i, b.ref)
					}
				}
			}
		}
	}
}

// TestSmallForestTakesLittleMemory: a forest takes as much memory as it needs and grows in
// proportion: 64 KiB at first, and never a slab beyond 1 MiB.
func TestSmallForestTakesLittleMemory(t *testing.T) {
	t.Parallel()
	a := newArena()
	reserved := func() (n uint64) {
		for _, s := range a.mem() {
			n += uint64(len(s))
		}
		return n
	}
	for range 6 << 20 / 128 {
		if _, _, err := a.alloc(128); err != nil {
			t.Fatal(err)
		}
		if r := reserved(); r > max(firstSlab, min(2*a.inUse+firstSlab, a.inUse+slabSize+firstSlab)) {
			t.Fatalf("%d bytes are reserved for %d", r, a.inUse)
		}
	}
	if s := len(a.mem()[0]); s != firstSlab {
		t.Errorf("the first slab is of %d bytes", s)
	}
	for i, s := range a.mem() {
		if len(s) > slabSize {
			t.Errorf("slab %d is of %d bytes", i, len(s))
		}
	}
}
