package backend

import (
	"fmt"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
)

// TestLongCallIsRememberedForItsAddress: a long call is remembered for a while, only for its
// address, and within bounds.
func TestLongCallIsRememberedForItsAddress(t *testing.T) {
	var l longCalls
	now := time.Unix(100, 0)
	key := func(address byte, method string) *longKey {
		return &longKey{[16]byte{address}, primitives.AccountID("a.near"), method}
	}
	if l.has(key(1, "m"), func() time.Time { return now }) {
		t.Error("the call is known before it ran")
	}
	l.add(*key(1, "m"), now)
	for _, c := range []struct {
		k     *longKey
		after time.Duration
		want  bool
	}{
		{key(1, "m"), 0, true}, {key(2, "m"), 0, false}, {key(1, "n"), 0, false}, {key(1, "m"), longKept, true}, {key(1, "m"), longKept + 1, false}, {key(1, "m"), 0, false},
	} {
		if got := l.has(c.k, func() time.Time { return now.Add(c.after) }); got != c.want {
			t.Errorf("%v after %v: %v", c.k, c.after, got)
		}
	}
	for i := range 3 * maxLong {
		l.add(*key(1, fmt.Sprint(i)), now)
	}
	if len(l.at) > maxLong {
		t.Errorf("%d are remembered", len(l.at))
	}
}
