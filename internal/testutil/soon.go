package testutil

import (
	"testing"
	"time"
)

// Soon wants something to take no longer than a limit: f does it and tells how long it took. Where
// others have the machine it may take longer now and then, for what is none of its own doing, but
// not each time: it is done again until it was fast enough once, at most as often as tries says.
func Soon(t testing.TB, what string, limit time.Duration, tries int, f func() time.Duration) {
	t.Helper()
	best := time.Duration(-1)
	for range tries {
		took := f()
		if took <= limit || t.Failed() {
			return
		}
		if best < 0 || took < best {
			best = took
		}
	}
	t.Errorf("%s takes %v at best in %d tries, want %v at most", what, best, tries, limit)
}
