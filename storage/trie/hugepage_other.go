//go:build !linux

package trie

// adviseHuge does nothing: other systems choose page sizes themselves.
func adviseHuge([]byte) {}
