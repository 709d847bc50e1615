//go:build !linux

package trie

// adviseHuge does nothing: other systems choose the size of pages themselves.
func adviseHuge([]byte) {}
