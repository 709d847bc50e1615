package txpool

import (
	"fmt"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestClientsTakeTurnsBySize: clients take turns, one item each; a client with large items has
// fewer turns.
func TestClientsTakeTurnsBySize(t *testing.T) {
	t.Parallel()
	q := NewQueue[string](QueueLimits{})
	for i := range 5 {
		q.Put("many", 100, fmt.Sprint("many", i))
	}
	q.Put("one", 100, "one0")
	for i := range 3 {
		q.Put("large", 3*turnBytes, fmt.Sprint("large", i))
	}
	var got []string
	for x, ok := q.Take(); ok; x, ok = q.Take() {
		got = append(got, x)
	}
	if want := []string{"many0", "one0", "large0", "many1", "many2", "many3", "large1", "many4",
		"large2"}; !slices.Equal(got, want) {
		t.Errorf("taken in the order %v, want %v", got, want)
	}
	if q.Len() != 0 || q.Bytes() != 0 || q.Clients() != 0 {
		t.Errorf("%d items, %d bytes, %d clients are left", q.Len(), q.Bytes(), q.Clients())
	}
}

// TestQueueEvictsNewestOfLargestClient: under any sequence of operations only reported items are
// lost, each client's items keep their order, and lost items are the newest of the client with the
// most.
func TestQueueEvictsNewestOfLargestClient(t *testing.T) {
	t.Parallel()
	rng := primitives.NewChaCha8Rng([32]byte{5})
	type item struct {
		client string
		n      int
	}
	for _, limits := range []QueueLimits{{}, {Items: 20}, {Bytes: 3000}, {Items: 30, Bytes: 5000}} {
		q := NewQueue[item](limits)
		model, sizes := map[string][]item{}, map[item]int{}
		weight := func(c string) (w int) {
			for _, x := range model[c] {
				w += sizes[x] + itemWeight
			}
			return w
		}
		for n := range 3000 {
			if rng.Uint32()%5 < 3 {
				x := item{fmt.Sprint("c", rng.Uint32()%uint32(1+n%17)), n}
				sizes[x] = int(rng.Uint32() % 700)
				model[x.client] = append(model[x.client], x)
				for _, lost := range q.Put(x.client, sizes[x], x) {
					l := model[lost.client]
					if l[len(l)-1] != lost {
						t.Fatalf("%v is lost, which is not the newest of its client", lost)
					}
					for c := range model {
						if weight(c) > weight(lost.client) {
							t.Fatalf("%v is lost, though %s has more", lost, c)
						}
					}
					model[lost.client] = l[:len(l)-1]
				}
			} else if x, ok := q.Take(); ok {
				if l := model[x.client]; len(l) == 0 || l[0] != x {
					t.Fatalf("taken %v, want the oldest of %v", x, l)
				}
				model[x.client] = model[x.client][1:]
			}
			items, bytes := 0, 0
			for _, l := range model {
				items += len(l)
				for _, x := range l {
					bytes += sizes[x]
				}
			}
			if q.Len() != items || q.Bytes() != bytes || limits.Items > 0 && items > limits.Items || limits.Bytes > 0 &&
				bytes > limits.Bytes {
				t.Fatalf("step %d: %d items with %d bytes, want %d and %d within %+v", n, q.Len(), q.Bytes(), items, bytes, limits)
			}
		}
	}
}
