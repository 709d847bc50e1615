package node

import "testing"

// TestPluralOfPeers: only the number 1 has no ending.
func TestPluralOfPeers(t *testing.T) {
	for n, want := range map[int]string{0: "s", 1: "", 2: "s", 11: "s"} {
		if got := plural(n); got != want {
			t.Errorf("plural of %d: %q, want %q", n, got, want)
		}
	}
}
