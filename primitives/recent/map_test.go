package recent

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMapKeepsNewestEntries compares maps of several sizes with a list, for random operations.
func TestMapKeepsNewestEntries(t *testing.T) {
	for _, most := range []int{0, 1, 2, 7} {
		m, bound := &Map[int, int]{Max: most}, most
		if bound == 0 {
			bound = DefaultMax
		}
		type pair struct{ key, value int }
		var list []pair // oldest first
		rng := rand.New(rand.NewPCG(uint64(most), 1))
		at := func(key int) int { return slices.IndexFunc(list, func(p pair) bool { return p.key == key }) }
		for step := range 5000 {
			key := rng.IntN(2*bound + 1)
			i := at(key)
			switch rng.IntN(3) {
			case 0, 1:
				if got := m.Put(key, step); got != (i < 0) {
					t.Fatalf("max %d, step %d: put %v", most, step, got)
				}
				if i < 0 {
					if len(list) == bound {
						list = list[1:]
					}
					list = append(list, pair{key, step})
				}
			default:
				value, ok := m.Take(key)
				if ok != (i >= 0) || ok && value != list[i].value {
					t.Fatalf("max %d, step %d: took %d, %v", most, step, value, ok)
				}
				if ok {
					list = slices.Delete(list, i, i+1)
				}
			}
			if m.Len() != len(list) {
				t.Fatalf("max %d, step %d: %d entries, want %d", most, step, m.Len(), len(list))
			}
			for k := range 2*bound + 1 {
				i, has := at(k), m.Has(k)
				value, ok := m.Get(k)
				if ok != (i >= 0) || has != ok || ok && value != list[i].value {
					t.Fatalf("max %d, step %d: key %d has %d, %v", most, step, k, value, ok)
				}
			}
		}
	}
}
