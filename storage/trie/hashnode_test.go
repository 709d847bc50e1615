package trie

import "testing"

// TestLoadBufferIsBounded: a load buffer is not kept for reuse if any of its pieces is large.
func TestLoadBufferIsBounded(t *testing.T) {
	t.Parallel()
	for name, g := range map[string]*loadBuffer{
		"paths":   {paths: make([]byte, 0, maxLoadBuffer+1)},
		"pairs":   {pairs: flatPairs{data: make([]byte, 0, maxLoadBuffer+1)}},
		"entries": {entries: make([]FrontierEntry, 0, maxLoadBuffer)},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // a pool may drop some
				g.done()
				if got := loadBuffers.Get().(*loadBuffer); got == g {
					t.Errorf("large %s are kept for reuse", name)
					break
				}
			}
		})
	}
}
