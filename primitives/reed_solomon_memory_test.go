package primitives

import (
	"math/rand/v2"
	"runtime"
	"testing"
)

// TestMatrixCacheIsBounded: the cache of inverted matrices does not grow with each chunk that lacks
// other parts. Each of these would add 20 to 30 KB.
func TestMatrixCacheIsBounded(t *testing.T) {
	rs, err := NewReedSolomon(ChunkPartCounts(100))
	if err != nil {
		t.Fatal(err)
	}
	parts, err := rs.Encode(make([]byte, 33))
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	random, before := rand.New(rand.NewPCG(1, 2)), heap()
	for range 1000 {
		some := make([][]byte, len(parts))
		for _, i := range random.Perm(len(parts))[:rs.DataParts()] {
			some[i] = parts[i]
		}
		if err := rs.Reconstruct(some, 33); err != nil {
			t.Fatal(err)
		}
	}
	if after := heap(); after > before+4<<20 {
		t.Errorf("%d MB are kept of 1000 chunks", (after-before)>>20)
	}
	runtime.KeepAlive(rs)
}
