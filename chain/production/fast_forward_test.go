package production

import (
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestFastForwardVisitsEpochBoundaries compares the heights of the blocks on the way to a target,
// and the final block, which is computed by the rule that a block is final two blocks later if no
// height was skipped.
func TestFastForwardVisitsEpochBoundaries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at, first, length, target primitives.Height
		want                      []primitives.Height
	}{
		{at: 7, first: 1, length: 100, target: 8, want: []primitives.Height{9}},
		{at: 7, first: 1, length: 100, target: 50, want: []primitives.Height{51}},
		{at: 7, first: 1, length: 100, target: 98, want: []primitives.Height{99}},
		{at: 7, first: 1, length: 100, target: 99, want: []primitives.Height{100}},
		{at: 7, first: 1, length: 100, target: 100, want: []primitives.Height{98, 99, 100}},
		{at: 7, first: 1, length: 100, target: 205, want: []primitives.Height{98, 99, 100, 101, 198, 199, 200, 201, 206}},
		{at: 97, first: 1, length: 100, target: 99, want: []primitives.Height{98, 99}},
		{at: 594, first: 541, length: 60, target: 794, want: []primitives.Height{598, 599, 600, 601, 658, 659, 660, 661, 718, 719, 720, 721, 778, 779, 780, 781, 795}},
		{at: 100, first: 1, length: 100, target: 103, want: []primitives.Height{101, 102, 103}},
		{at: 7, first: 1, length: 500, target: 499, want: []primitives.Height{500}},
		{at: 7, first: 1, length: 500, target: 498, want: []primitives.Height{499}},
		{at: 7, first: 1, length: 500, target: 1007, want: []primitives.Height{498, 499, 500, 501, 998, 999, 1000, 1001, 1008}},
		{at: 7, first: 1, length: 43_200, target: 10_007, want: []primitives.Height{9998, 9999, 10_000, 10_001, 10_008}},
		{at: 7, first: 1, length: 43_200, target: 499, want: []primitives.Height{500}},
		{at: 7, first: 1, length: 43_200, target: 500, want: []primitives.Height{498, 499, 500}},
		{at: 497, first: 1, length: 43_200, target: 510, want: []primitives.Height{498, 499, 500, 501, 511}},
		{at: 500, first: 1, length: 43_200, target: 510, want: []primitives.Height{501, 511}},
		{at: 501, first: 1, length: 43_200, target: 510, want: []primitives.Height{511}},
		{at: 7, first: 1, length: 43_200, target: 43_205, want: []primitives.Height{43_198, 43_199, 43_200, 43_201, 43_206}},
		{at: 7, first: 1, length: 43_200, target: 43_705, want: []primitives.Height{43_198, 43_199, 43_200, 43_201, 43_498, 43_499, 43_500, 43_501, 43_706}},
		{at: 1, first: 1, length: 4, target: 7, want: []primitives.Height{2, 3, 4, 5, 6, 7}},
	} {
		var got []primitives.Height
		e, run, final := Epoch{First: c.first, Length: c.length}, primitives.Height(1), c.first
		for at := c.at; at < c.target; {
			next := Forward(at, c.target, e)
			if run++; next > at+1 {
				run = 1
			}
			if e.Last {
				e = Epoch{First: next, Length: c.length}
			}
			if run >= 3 {
				final = next - 2
			}
			e.Last = e.First < next && final+3 >= e.First+e.Length
			got, at = append(got, next), next
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("from %d to %d, epoch of %d from %d on: %v, want %v", c.at, c.target, c.length, c.first, got, c.want)
		}
	}
}
