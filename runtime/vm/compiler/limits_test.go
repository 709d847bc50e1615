package compiler

import (
	"testing"
	"time"
)

// TestChildLimitsExceedDocumentedBounds checks the values of BoundOf, that limits are above them,
// and that the second attempt has higher limits.
func TestChildLimitsExceedDocumentedBounds(t *testing.T) {
	for _, c := range []struct {
		size int
		want Limits
	}{
		{0, Limits{2001500 * time.Microsecond, 256 << 20, 256 << 10}},
		{249_999, Limits{2375 * time.Millisecond, 256 << 20, 256<<10 + 24_999_900}},
		{1_000_000, Limits{3502500 * time.Microsecond, 631<<20 + 1<<19, 256<<10 + 100_000_000}},
	} {
		b := BoundOf(c.size)
		if b != c.want {
			t.Errorf("%d bytes: %+v, want %+v", c.size, b, c.want)
		}
		first, again := LimitsOf(c.size, false), LimitsOf(c.size, true)
		if first.CPU < 4*b.CPU || first.Memory < b.Memory+1<<30 || first.Output < min(4*b.Output, MaxReply) ||
			again.CPU < 4*first.CPU || again.Memory <= first.Memory || again.Output < first.Output {
			t.Errorf("%d bytes: %+v, then %+v", c.size, first, again)
		}
	}
	if l := LimitsOf(4<<20, true); l.Output > MaxReply || l.CPU > 3*time.Minute {
		t.Errorf("of the largest contract: %+v", l)
	}
}
