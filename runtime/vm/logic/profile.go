package logic

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/config"
)

// Categories and the one cost that is no parameter, as profiles name them (nearcore core/primitives/src/views.rs
// CostGasUsed).
const (
	actionCategory = "ACTION_COST"
	hostCategory   = "WASM_HOST_COST"
	instructions   = "WASM_INSTRUCTION"
)

// profileOrder holds all costs sorted by category, then name: below NumActionCosts actions, then host costs, the last
// number instructions.
var profileOrder = func() []int {
	order := make([]int, int(config.NumActionCosts)+int(config.NumExtCosts)+1)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := profileEntry(i), profileEntry(j)
		return action.CompareCosts(a, b)
	})
	return order
}()

func profileEntry(i int) primitives.CostEntry {
	if i < int(config.NumActionCosts) {
		return primitives.CostEntry{Category: actionCategory, Cost: config.ActionCost(i).ProfileName()}
	}
	if i -= int(config.NumActionCosts); i < int(config.NumExtCosts) {
		return primitives.CostEntry{Category: hostCategory, Cost: config.ExtCost(i).ProfileName()}
	}
	return primitives.CostEntry{Category: hostCategory, Cost: instructions}
}

// profile is what the gas was burnt for, without zeros.
func (l *Logic) profile() []primitives.CostEntry {
	g := &l.gas
	gasOf := func(i int) primitives.Gas {
		if i < int(config.NumActionCosts) {
			return g.action[i]
		}
		if i -= int(config.NumActionCosts); i < int(config.NumExtCosts) {
			return g.ext[i]
		}
		return g.instructions()
	}
	n := 0
	for _, i := range profileOrder {
		if gasOf(i) != 0 {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]primitives.CostEntry, 0, n)
	for _, i := range profileOrder {
		if gas := gasOf(i); gas != 0 {
			e := profileEntry(i)
			e.Gas = gas
			out = append(out, e)
		}
	}
	return out
}
