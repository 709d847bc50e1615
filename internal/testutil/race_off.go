//go:build !race

package testutil

// Racing tells that the race detector makes everything ten times slower: then less of it runs.
const Racing = false
