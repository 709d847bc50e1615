package replay

import "testing"

// reaching runs a part of a test by a seed. What the part is for is a matter of chance there: where
// it was not reached the part runs again, by the next seed, and only what eight seeds do not reach
// is an error.
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
