package trie

import (
	"errors"
	"sync/atomic"
)

// Node memory consists of slabs of 1 MiB (the first ones of a forest are smaller). A reference is a
// uint32: its high half is the slab, its low half the offset in units of 16 bytes.
const (
	unitSize     = 16
	slabSize     = 1 << 20
	firstSlab    = 64 << 10 // bytes of the first slab; each following slab is twice as long, up to slabSize
	maxSlabs     = 1 << 16
	exactClasses = 32 // blocks of 1 to 32 units have one class per size; above that, each doubling has 8 classes
	numClasses   = exactClasses + 8*11
)

// ErrFull means that the 64 GiB of addresses of a forest are used up.
var ErrFull = errors.New("trie: forest is full")

// arena allocates blocks of node memory. Only the writer allocates and frees; a reader uses a mem.
type arena struct {
	slabs    atomic.Pointer[mem]
	next     uint32 // first unused unit of the last slab
	size     uint32 // number of units in the last slab
	free     [numClasses][]uint32
	hugeRest []byte // allocated memory for further slabs
	blocks   uint64 // number of allocated blocks
	inUse    uint64 // bytes in allocated blocks
	poison   bool   // freed memory is filled with a pattern
}

func newArena() *arena {
	a := new(arena)
	a.slabs.Store(new(mem))
	return a
}

// mem is the list of slabs as of some moment. A reader needs a mem to follow references. A mem
// contains all nodes of every root that was held when the mem was taken. Slabs are slices and not
// pointers to arrays. Slicing an array through a pointer first touches the start of the array for
// the nil check, and this touch is one more cache miss.
type mem [][]byte

func (a *arena) mem() mem { return *a.slabs.Load() }

// at returns the memory from ref to the end of its slab.
func (m mem) at(ref uint32) node {
	return m[ref>>16][(ref&0xffff)*unitSize:]
}

// classOf returns the size class of a block of size bytes, and the size of the class in units.
func classOf(size int) (class int, units uint32) {
	u := uint32(size+unitSize-1) / unitSize
	if u <= exactClasses {
		return int(u) - 1, u
	}
	class, units = exactClasses, exactClasses
	for step := uint32(exactClasses / 8); ; step *= 2 {
		for range 8 {
			if units += step; units >= u {
				return class, units
			}
			class++
		}
	}
}

// classUnits is the size of each class in units.
var classUnits = func() (units [numClasses]uint32) {
	for c := range exactClasses {
		units[c] = uint32(c) + 1
	}
	u, step := uint32(exactClasses), uint32(exactClasses/8)
	for c := exactClasses; c < numClasses; step *= 2 {
		for range 8 {
			u += step
			units[c] = u
			c++
		}
	}
	return units
}()

// alloc returns a block of at least size bytes, which is not zeroed, and its size class. alloc
// never returns reference 0.
func (a *arena) alloc(size int) (ref uint32, class uint8, err error) {
	c, units := classOf(size)
	a.blocks++
	a.inUse += uint64(units) * unitSize
	if n := len(a.free[c]); n > 0 {
		ref = a.free[c][n-1]
		a.free[c] = a.free[c][:n-1]
		return ref, uint8(c), nil
	}
	if a.next+units > a.size {
		slabs := a.mem()
		if len(slabs) == maxSlabs {
			return 0, 0, ErrFull
		}
		a.spare()
		// A reader that has the old, shorter slice never looks at the new element, so appending in
		// place is safe.
		slab := a.newSlab(int(units) + 1)
		grown := append(slabs, slab)
		a.slabs.Store(&grown)
		a.next, a.size = 0, uint32(len(slab)/unitSize)
		if len(grown) == 1 {
			a.next = 1
		}
	}
	ref = uint32(len(a.mem())-1)<<16 | a.next
	a.next += units
	return ref, uint8(c), nil
}

// Slabs of a large forest are cut from chunks for which the kernel is asked to use huge pages.
// Walks access memory at random, so with small pages most accesses also miss the TLB. A small
// forest uses no huge pages, because a huge page is resident as a whole.
const (
	hugeChunk = 32 << 20
	hugeFrom  = 16 // huge pages are requested from this number of slabs on
)

// newSlab returns a slab with room for units units, but at most for the units of a full slab.
func (a *arena) newSlab(units int) []byte {
	if len(a.hugeRest) == 0 {
		if n := len(a.mem()); n < hugeFrom {
			size := slabSize
			if n < 4 && units*unitSize <= firstSlab<<n {
				size = firstSlab << n
			}
			return make([]byte, size)
		}
		a.hugeRest = make([]byte, hugeChunk)
		adviseHuge(a.hugeRest)
	}
	s := a.hugeRest[:slabSize:slabSize]
	a.hugeRest = a.hugeRest[slabSize:]
	return s
}

// spare adds the rest of the last slab to the free lists.
func (a *arena) spare() {
	for left := a.size - a.next; left >= 4; left = a.size - a.next {
		c := min(int(left), exactClasses) - 1
		a.free[c] = append(a.free[c], uint32(len(a.mem())-1)<<16|a.next)
		a.next += classUnits[c]
	}
}

// poisonByte fills freed memory in tests.
const poisonByte = 0xdb

func (a *arena) release(ref uint32, class uint8) {
	if a.poison {
		for i, block := 0, a.mem().at(ref)[:classUnits[class]*unitSize]; i < len(block); i++ {
			block[i] = poisonByte
		}
	}
	a.free[class] = append(a.free[class], ref)
	a.blocks--
	a.inUse -= uint64(classUnits[class]) * unitSize
}
