package state

import "testing"

// TestArenaMemoryGrowsWithValues checks that an arena with few values uses little memory, and that
// many values share slabs of the maximum size.
func TestArenaMemoryGrowsWithValues(t *testing.T) {
	for _, most := range []int{0, forkSlab} {
		a := arena{slab: most}
		if a.copyString("key"); cap(a.buf) > slabFirst {
			t.Errorf("3 bytes keep %d", cap(a.buf))
		}
		if n := testing.AllocsPerRun(1, func() {
			for range 10_000 {
				a.copyString("some key of a hundred bytes, or so, which is what most of those that a chunk changes do not come to")
			}
		}); n > 200 || cap(a.buf) != map[int]int{0: slabSize, forkSlab: forkSlab}[most] {
			t.Errorf("%v allocations for 10,000 keys, the last slab has %d bytes", n, cap(a.buf))
		}
		if b := a.copy(make([]byte, 1<<20)); len(b) != 1<<20 || cap(a.buf) != 1<<20 {
			t.Errorf("a megabyte keeps %d", cap(a.buf))
		}
	}
}
