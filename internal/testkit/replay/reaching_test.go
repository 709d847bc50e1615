package replay

import "testing"

// reaching runs a part of a test with a seed. Whether the part reaches the case that it tests
// depends on chance. If not, it runs again with the next seed, and fails after eight seeds.
func reaching(t *testing.T, seed uint64, part func(seed uint64) (reached bool)) {
	t.Helper()
	for i := range uint64(8) {
		t.Logf("seed %d", seed+i)
		if part(seed+i) || t.Failed() {
			return
		}
	}
	t.Error("the test reaches too little")
}
