package logic

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Categories of profile entries, and the name of the entry for instructions, which has no parameter
// (nearcore core/primitives/src/views.rs CostGasUsed).
const (
	actionCategory = "ACTION_COST"
	hostCategory   = "WASM_HOST_COST"
	instructions   = "WASM_INSTRUCTION"
)

// profileRow is a possible entry of a profile.
type profileRow struct {
	entry  primitives.CostEntry // cost of the row; its field Gas is not set
	ext    int                  // index into gasCounter.ext; negative: the row is no host function cost
	action int                  // index into gasCounter.action; negative: no action cost; both negative: instructions
}

// profileRows lists all possible entries of a gas profile, in the order of profiles.
var profileRows = func() []profileRow {
	rows := []profileRow{{primitives.CostEntry{Category: hostCategory, Cost: instructions}, -1, -1}}
	for c := range parameters.NumExtCosts {
		rows = append(rows, profileRow{primitives.CostEntry{Category: hostCategory, Cost: c.ProfileName()}, int(c), -1})
	}
	for c := range parameters.NumActionCosts {
		rows = append(rows, profileRow{primitives.CostEntry{Category: actionCategory, Cost: c.ProfileName()}, -1, int(c)})
	}
	slices.SortFunc(rows, func(a, b profileRow) int { return action.CompareCosts(a.entry, b.entry) })
	return rows
}()

// profile returns the burnt gas by cost, without zeros. rest is the gas of instructions.
func (g *gasCounter) profile(rest primitives.Gas) []primitives.CostEntry {
	n := 1
	for _, gas := range g.ext {
		if gas != 0 {
			n++
		}
	}
	for _, gas := range g.action {
		if gas != 0 {
			n++
		}
	}
	out := make([]primitives.CostEntry, 0, n)
	for i := range profileRows {
		row, gas := &profileRows[i], rest
		switch {
		case row.ext >= 0:
			gas = g.ext[row.ext]
		case row.action >= 0:
			gas = g.action[row.action]
		}
		if gas != 0 {
			e := row.entry
			e.Gas = gas
			out = append(out, e)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
