package waiter

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestTableMatchesGoMap compares a table with a Go map, with few rows and with many.
func TestTableMatchesGoMap(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var got table[int]
		want := map[primitives.Hash]int{}
		var order []primitives.Hash
		for range rng.IntN(40) {
			id := id(fmt.Sprint(rng.IntN(30)))
			if _, ok := want[id]; !ok {
				order = append(order, id)
			}
			v := rng.Int()
			want[id] = v
			got.put(id, v)
		}
		for i := range 30 {
			id := id(fmt.Sprint(i))
			v, ok := want[id]
			if at := got.get(id); (at != nil) != ok || ok && *at != v {
				t.Fatalf("%v, want %d, %v", at, v, ok)
			}
		}
		for i, id := range order {
			if got.rows[i].id != id {
				t.Fatalf("row %d is %v, want %v", i, got.rows[i].id, id)
			}
		}
		if got.clear(); got.get(id("1")) != nil {
			t.Error("the cleared table has an entry")
		}
	}
}

// TestWaitForTransferTakesLittleMemory bounds the memory of a wait for a transfer, from its first
// message to the last block, because thousands of them exist.
func TestWaitForTransferTakesLittleMemory(t *testing.T) {
	allocs := testing.AllocsPerRun(100, func() {
		c := NewMachine(id("tx"), 5)
		for i := range story {
			c.Step(&story[i])
		}
	})
	if allocs > 10 {
		t.Errorf("%v allocations", allocs)
	}
}
