//go:build race

package storage

// racing tells that the race detector makes everything ten times slower: then less of it runs.
const racing = true
