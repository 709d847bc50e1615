package daemon

import (
	"testing"
	"time"
)

// TestIdleCollectionIsDelayed: after a collection without garbage the next one is later, unless the
// configured period is long already.
func TestIdleCollectionIsDelayed(t *testing.T) {
	for _, c := range []struct {
		period time.Duration
		found  bool
		want   time.Duration
	}{
		{500 * time.Millisecond, true, 500 * time.Millisecond}, {500 * time.Millisecond, false, 5 * time.Second},
		{10 * time.Millisecond, false, 100 * time.Millisecond}, {time.Minute, false, time.Minute}, {time.Minute, true, time.Minute},
	} {
		if got := collectAgain(c.period, c.found); got != c.want {
			t.Errorf("period %v, found %v: %v, want %v", c.period, c.found, got, c.want)
		}
	}
}
