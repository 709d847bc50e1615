package workload

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Zipf draws numbers from 0 to n-1 with a probability proportional to 1/rank^skew. Each number has
// a random rank, so that frequent accounts are in different shards and parts of the trie.
type Zipf struct {
	sums []float64 // sums[r] is the sum of the weights of the ranks 0 to r
	at   []int32   // at[r] is the number with rank r
}

// NewZipf returns a Zipf. A skew of 0 is uniform. The Zipf takes 12 bytes of memory per number.
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

// Draw returns a random number from 0 to n-1.
func (z *Zipf) Draw(rng *rand.Rand) int {
	i, _ := slices.BinarySearch(z.sums, rng.Float64()*z.sums[len(z.sums)-1])
	return int(z.at[min(i, len(z.at)-1)])
}
