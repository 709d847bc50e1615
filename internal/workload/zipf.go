package workload

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Zipf draws from 0 ... n-1 with probability proportional to 1/rank^skew. Ranks are spread over the
// numbers at random, so that the popular ones lie in different places of a trie and in different
// shards.
type Zipf struct {
	sums []float64 // of the weights up to each rank
	at   []int32   // number of a rank
}

// NewZipf prepares draws; skew 0 is uniform. It takes 12 bytes a number.
func NewZipf(rng *rand.Rand, n int, skew float64) *Zipf {
	z := &Zipf{sums: make([]float64, n), at: make([]int32, n)}
	total := 0.0
	for i := range n {
		total += math.Pow(float64(i+1), -skew)
		z.sums[i] = total
		z.at[i] = int32(i)
	}
	rng.Shuffle(n, func(i, j int) { z.at[i], z.at[j] = z.at[j], z.at[i] })
	return z
}

// Draw returns a number.
func (z *Zipf) Draw(rng *rand.Rand) int {
	i, _ := slices.BinarySearch(z.sums, rng.Float64()*z.sums[len(z.sums)-1])
	return int(z.at[min(i, len(z.at)-1)])
}
