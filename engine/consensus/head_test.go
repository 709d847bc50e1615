package consensus

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// TestSettled: a block that could be made waits for an endorsement that is missing, from the last one that came on, but not for long, and not at all if the last
// came long ago.
func TestSettled(t *testing.T) {
	for name, c := range map[string]struct {
		endorsed, enough, now, want int64
	}{
		"now":                   {100 * ms, 0, 100 * ms, 110 * ms},
		"one came since":        {106 * ms, 100 * ms, 106 * ms, 116 * ms},
		"they come and come":    {119 * ms, 100 * ms, 119 * ms, 120 * ms},
		"long ago":              {100 * ms, 0, 600 * ms, 110 * ms},
		"one for another block": {900 * ms, 100 * ms, 900 * ms, 120 * ms},
	} {
		n := &Node{head: &head{enough: c.enough}, endorsed: c.endorsed, now: c.now}
		if got := n.settled(); got != c.want || n.head.enough == 0 {
			t.Errorf("%s: until %d ms, not %d", name, got/ms, c.want/ms)
		}
	}
}

// TestHurries: who votes at once waits for nobody while there is something to do.
func TestHurries(t *testing.T) {
	for _, c := range []struct {
		eager        bool
		height, upTo primitives.Height
		want         bool
	}{{true, 5, 8, true}, {true, 8, 8, false}, {false, 5, 8, false}} {
		n := &Node{o: Options{Eager: c.eager}, head: &head{height: c.height}, lively: c.upTo}
		if n.hurries() != c.want {
			t.Errorf("%+v: %v", c, !c.want)
		}
	}
}
