package logic

import (
	"slices"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Categories and the one cost that is no parameter, as profiles name them (nearcore
// core/primitives/src/views.rs CostGasUsed).
const (
	actionCategory = "ACTION_COST"
	hostCategory   = "WASM_HOST_COST"
	instructions   = "WASM_INSTRUCTION"
)

// profileRow is one cost that a profile may have, as it prints it.
type profileRow struct {
	entry  primitives.CostEntry // without gas
	ext    int                  // in gasCounter.ext; below 0: none
	action int                  // in gasCounter.action; below 0: none; both: instructions
}

// profileRows holds all costs in the order of profiles.
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

// profile is what the gas was burnt for, without zeros; rest is for instructions.
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
