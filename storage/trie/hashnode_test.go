package trie

import "testing"

// TestFetchedIsBounded: what was read of a subtree is not kept to be used again where any of its pieces is large.
func TestFetchedIsBounded(t *testing.T) {
	for name, g := range map[string]*fetched{
		"paths":   {paths: make([]byte, 0, maxFetched+1)},
		"pairs":   {pairs: flatPairs{data: make([]byte, 0, maxFetched+1)}},
		"entries": {entries: make([]FrontierEntry, 0, maxFetched)},
	} {
		for range 20 { // a pool may drop some
			g.done()
			if got := fetches.Get().(*fetched); got == g {
				t.Errorf("large %s wait to be used again", name)
				break
			}
		}
	}
}
