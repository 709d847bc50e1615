//go:build race

package replay

// racing tells that the race detector makes everything ten times slower: then less of it runs.
const racing = true
