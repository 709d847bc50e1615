package txstatus

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestReachedEqualsLevelOfAllOutcomes: Reached returns the same level as Level with all outcomes,
// for any tree of receipts and any known part of the tree.
func TestReachedEqualsLevelOfAllOutcomes(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	seen := map[view.ExecutionLevel]int{}
	for range 20_000 {
		var all []outcome
		var final, refunds []string
		status := []string{"v", "v", "v", "f{}", "?"}
		open, n := []string{"tx"}, 0
		for len(open) > 0 {
			o := outcome{name: open[0], block: fmt.Sprint(rng.IntN(4)), status: status[rng.IntN(len(status))]}
			open = open[1:]
			if n < 12 {
				for range rng.IntN(4) {
					n++
					o.sends = append(o.sends, fmt.Sprint("r", n))
				}
			}
			if k := len(o.sends); k > 0 && rng.IntN(3) == 0 {
				refunds = append(refunds, o.sends[k-1])
			}
			if rng.IntN(8) > 0 {
				all = append(all, o)
				open = append(open, o.sends...)
			}
		}
		for b := range rng.IntN(5) {
			final = append(final, fmt.Sprint(b))
		}
		f := chain(final, refunds, all...)
		want := Level(Outcomes(id("tx"), f), f)
		got := Reached(id("tx"), func(h primitives.Hash) (x Executed) {
			o, ok := f.outcomes[h]
			if !ok {
				return x
			}
			x = Executed{Known: true, Status: o.Status.Kind, Sends: o.ReceiptIDs, Final: f.IsFinal(o.BlockHash)}
			if k := len(o.ReceiptIDs); k > 0 && f.IsRefund(o.ReceiptIDs[k-1], nil) {
				x.Refund = o.ReceiptIDs[k-1]
			}
			return x
		})
		if got != want {
			t.Fatalf("%v, want %v, of %+v, final %v, refunds %v", got, want, all, final, refunds)
		}
		seen[got]++
	}
	for level := view.LevelNone; level <= view.LevelFinal; level++ {
		if seen[level] < 50 {
			t.Errorf("%v was reached %d times", level, seen[level])
		}
	}
}
