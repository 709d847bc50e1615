package apply

import (
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// proofNotes is a VM that removes an entry in each call, which raises the upper bound of the recorded size.
// For each call it stores the upper bound at the start of the call, minus the base from which the limit
// counts.
type proofNotes struct{ starts *[]uint64 }

func (v proofNotes) Call(c *action.Call, x *action.External) (action.CallOutcome, error) {
	*v.starts = append(*v.starts, x.RecordedBound()-x.ProofStart())
	_, _, err := x.Remove([]byte("key"), func(uint32) error { return nil })
	return c.Unchanged(), err
}

// TestProofLimitStartsPerCallOrPerReceipt checks the limit of recorded state: in june it counts for
// each call, in the releases from 86 on for all calls of a receipt together.
func TestProofLimitStartsPerCallOrPerReceipt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		version parameters.Version
		all     bool
	}{
		{parameters.Version{Protocol: 85, Numbering: primitives.NumberingJune}, false},
		{parameters.Version{Protocol: 86, Numbering: primitives.NumberingJune}, false},
		{parameters.Version{Protocol: 85, Numbering: primitives.NumberingRelease}, false},
		{parameters.Version{Protocol: 86, Numbering: primitives.NumberingRelease}, true},
	} {
		var starts []uint64
		n := newPair(t)
		n.once = true
		n.give(n.selfReceipt(alice, 1, &primitives.DeployContract{Code: []byte("code")}))
		n.cfg, n.vm = freeConfig(), proofNotes{&starts}
		n.step()
		c := *n.cfg
		c.Version = test.version
		n.cfg = &c
		call := &primitives.FunctionCall{Method: "m", Gas: 1}
		n.give(n.selfReceipt(alice, 2, call, call, call), n.selfReceipt(alice, 3, call))
		n.step()
		want := []uint64{0, 0, 0, 0}
		if test.all && len(starts) == 4 {
			want = []uint64{0, starts[1], starts[1] + 2000, 0}
			if starts[1] < 2000 {
				t.Errorf("%v: the second call starts at %d", test.version, starts[1])
			}
		}
		if !slices.Equal(starts, want) {
			t.Errorf("%v: calls start at %d, want %d", test.version, starts, want)
		}
	}
}
