//go:build !race

package workload

// racing tells that the race detector makes everything ten times slower: then less of it runs.
const racing = false
