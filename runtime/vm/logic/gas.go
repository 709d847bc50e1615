package logic

import (
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// gasCounter counts what a call burns and gives away (nearcore
// runtime/near-vm-runner/src/logic/gas_counter.rs GasCounter). Three amounts, all in gas: burnt is
// gone; promises was given to receipts that the call makes; both together are used, at most
// prepaid. What is still there to burn is limit-burnt, and the instructions count it down in a
// global of the module.
type gasCounter struct {
	burnt    primitives.Gas
	limit    primitives.Gas // of burnt: min(maxBurnt, prepaid-promises)
	promises primitives.Gas
	maxBurnt primitives.Gas // of one call
	prepaid  primitives.Gas // all of u64 in a view
	view     bool

	prices *[parameters.NumExtCosts]parameters.Cost
	// What was burnt for what; the rest of burnt is instructions.
	ext         [parameters.NumExtCosts]primitives.Gas
	action      [parameters.NumActionCosts]primitives.Gas
	sendCompute parameters.Compute // of actions
}

const allGas = ^primitives.Gas(0)

func newGasCounter(prices *[parameters.NumExtCosts]parameters.Cost, maxBurnt, prepaid primitives.Gas, view bool) gasCounter {
	if view { // then only maxBurnt counts
		prepaid = allGas
	}
	return gasCounter{prices: prices, maxBurnt: maxBurnt, prepaid: prepaid, limit: min(maxBurnt, prepaid), view: view}
}

func (g *gasCounter) used() primitives.Gas { return g.burnt + g.promises } // at most prepaid

// remaining is what instructions may still burn: the module's global.
func (g *gasCounter) remaining() primitives.Gas { return g.limit - g.burnt } // limit is never below burnt

// burn takes gas for work that was done. A failure burns what there is.
func (g *gasCounter) burn(n primitives.Gas) error {
	burnt := g.burnt + n
	if burnt < n {
		return fail(IntegerOverflow)
	}
	if burnt > g.limit {
		return g.exceed(burnt, burnt+g.promises) // the sum may wrap, as in nearcore: then less is used
	}
	g.burnt = burnt
	return nil
}

// deduct burns some of use, and gives the rest of use to a promise. burn is at most use.
func (g *gasCounter) deduct(burn, use primitives.Gas) error {
	given := use - burn
	promises, c1 := bits.Add64(uint64(g.promises), uint64(given), 0)
	burnt, c2 := bits.Add64(uint64(g.burnt), uint64(burn), 0)
	used, c3 := bits.Add64(promises, burnt, 0)
	if burn > use || c1|c2|c3 != 0 {
		return fail(IntegerOverflow)
	}
	if primitives.Gas(burnt) > g.maxBurnt || primitives.Gas(used) > g.prepaid {
		return g.exceed(primitives.Gas(burnt), primitives.Gas(used))
	}
	g.burnt, g.promises = primitives.Gas(burnt), primitives.Gas(promises)
	if given != 0 && !g.view {
		g.limit = min(g.maxBurnt, g.prepaid-g.promises)
	}
	return nil
}

// exceed ends the call: all that may be burnt of burnt is, and what used has above that stays used,
// though no promise will be kept (nearcore process_gas_limit, nearcore issue 5148).
func (g *gasCounter) exceed(burnt, used primitives.Gas) error {
	g.burnt = min(burnt, g.prepaid, g.maxBurnt)
	g.promises = max(min(g.prepaid, used), g.burnt) - g.burnt
	g.limit = max(g.limit, g.burnt)
	if burnt > g.maxBurnt {
		return fail(GasLimitExceeded)
	}
	return fail(GasExceeded)
}

// pay burns one unit of a cost.
func (g *gasCounter) pay(c parameters.ExtCost) error { return g.payGas(c, g.prices[c].Gas) }

// payPer burns n units.
func (g *gasCounter) payPer(c parameters.ExtCost, n uint64) error {
	hi, gas := bits.Mul64(uint64(g.prices[c].Gas), n)
	if hi != 0 {
		return fail(IntegerOverflow)
	}
	return g.payGas(c, primitives.Gas(gas))
}

func (g *gasCounter) payGas(c parameters.ExtCost, n primitives.Gas) error {
	before := g.burnt
	err := g.burn(n)
	g.ext[c] += g.burnt - before // sums up to burnt at most
	return err
}

// payAction burns the sending part of an action's fee and sets aside the executing part: use is
// both.
func (g *gasCounter) payAction(send parameters.Cost, use primitives.Gas, a parameters.ActionCost) error {
	before := g.burnt
	err := g.deduct(send.Gas, use)
	burnt := g.burnt - before
	g.action[a] += burnt
	compute := send.Compute
	if err != nil {
		compute = parameters.Compute(burnt) // nearcore: the last step counts as gas
	}
	sum := g.sendCompute + compute
	if sum < compute {
		return fail(IntegerOverflow)
	}
	g.sendCompute = sum
	return err
}

// prepay sets gas aside for a call that the contract makes.
func (g *gasCounter) prepay(n primitives.Gas) error { return g.deduct(0, n) }

// instructions is what was burnt for nothing else.
func (g *gasCounter) instructions() primitives.Gas {
	n := g.burnt
	for _, v := range g.ext {
		n -= v
	}
	for _, v := range g.action {
		n -= v
	}
	return n
}

// compute is the work of the call (nearcore profile.rs total_compute_usage): what was burnt for a
// cost, in proportion; rest is for instructions.
func (g *gasCounter) compute(rest primitives.Gas) parameters.Compute {
	sum := satAdd(g.sendCompute, parameters.Compute(rest))
	for c, gas := range g.ext {
		price := &g.prices[c]
		if gas == 0 || price.Gas == 0 {
			continue
		}
		if uint64(price.Gas) == uint64(price.Compute) { // nearly all
			sum = satAdd(sum, parameters.Compute(gas))
			continue
		}
		hi, lo := bits.Mul64(uint64(gas), uint64(price.Compute))
		if hi >= uint64(price.Gas) {
			return ^parameters.Compute(0) // no table has such prices
		}
		q, _ := bits.Div64(hi, lo, uint64(price.Gas))
		sum = satAdd(sum, parameters.Compute(q))
	}
	return sum
}

func satAdd(a, b parameters.Compute) parameters.Compute {
	if a+b < a {
		return ^parameters.Compute(0)
	}
	return a + b
}
