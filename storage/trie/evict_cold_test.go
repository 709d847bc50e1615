package trie

import "testing"

// TestColdIsTrueAfterRecentLoads: Cold returns true if a subtree was loaded recently, and false
// once nothing was loaded for some versions.
func TestColdIsTrueAfterRecentLoads(t *testing.T) {
	t.Parallel()
	d, full, keys := bigDisk(t, 3000)
	f := d.forest(0)
	root, err := f.Import(d.entries(Top), full.Hash())
	if err != nil {
		t.Fatal(err)
	}
	get := func(i int) {
		t.Helper()
		if _, err := root.Get(keys[i], nil); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 3 { // each loads what was not there
		get(round * 1000)
		if !root.Cold() {
			t.Fatalf("round %d: Cold is false after a load", round)
		}
		for range coldVersions + 1 {
			next, err := f.Update(root, []Change{{Key: keys[0], Value: []byte{byte(round)}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			root.Release()
			root = next
			get(round * 1000)
		}
		if root.Cold() {
			t.Fatalf("round %d: cold though nothing was loaded for %d versions", round, coldVersions+1)
		}
	}
}
