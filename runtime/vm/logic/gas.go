package logic

import (
	"math/bits"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// gasCounter counts the gas that a call burns and attaches to promises (nearcore
// runtime/near-vm-runner/src/logic/gas_counter.rs GasCounter). burnt is the gas burnt so far.
// promises is the gas attached to receipts that the call creates. The sum of burnt and promises is
// the used gas, which is at most prepaid. The call may still burn limit - burnt; the instructions
// subtract their gas from that number in the module's gas global.
type gasCounter struct {
	burnt    primitives.Gas // gas burnt so far
	limit    primitives.Gas // maximum value of burnt: min(maxBurnt, prepaid-promises)
	promises primitives.Gas // gas attached to receipts that the call creates
	maxBurnt primitives.Gas // maximum gas that a single call may burn
	prepaid  primitives.Gas // gas attached to the call; maxBurnt in a view
	view     bool

	prices      *[parameters.NumExtCosts]parameters.Cost
	ext         [parameters.NumExtCosts]primitives.Gas    // gas burnt by host functions, by cost
	action      [parameters.NumActionCosts]primitives.Gas // gas burnt for sending actions, by cost
	sendCompute parameters.Compute                        // compute time used for sending actions
}

func newGasCounter(prices *[parameters.NumExtCosts]parameters.Cost, maxBurnt, prepaid primitives.Gas, view bool) gasCounter {
	if view { // maxBurnt is the only limit of a view (near-vm-runner 0.38.0 src/logic/gas_counter.rs:101)
		prepaid = maxBurnt
	}
	return gasCounter{prices: prices, maxBurnt: maxBurnt, prepaid: prepaid, limit: min(maxBurnt, prepaid), view: view}
}

func (g *gasCounter) used() primitives.Gas { return g.burnt + g.promises } // at most prepaid, so it cannot overflow

// remaining returns the gas that instructions may still burn, which is the value of the module's
// gas global.
func (g *gasCounter) remaining() primitives.Gas { return g.limit - g.burnt } // limit is never below burnt

// burn burns n gas. If less gas is left, burn burns all gas that is left and fails.
func (g *gasCounter) burn(n primitives.Gas) error {
	burnt := g.burnt + n
	if burnt < n {
		return fail(IntegerOverflow)
	}
	if burnt > g.limit {
		return g.exceed(burnt, burnt+g.promises) // the sum may overflow, as in nearcore; then less gas counts as used
	}
	g.burnt = burnt
	return nil
}

// deduct uses use gas: it burns the part burn of this gas, and attaches the rest to a promise. burn
// must be at most use.
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

// exceed ends the call because burnt or used exceeds a limit. exceed burns as much of burnt as the
// limits allow. The gas in used beyond burnt stays used although the promises are dropped, as in
// nearcore's process_gas_limit.
func (g *gasCounter) exceed(burnt, used primitives.Gas) error {
	g.burnt = min(burnt, g.prepaid, g.maxBurnt)
	g.promises = max(min(g.prepaid, used), g.burnt) - g.burnt
	g.limit = max(g.limit, g.burnt)
	if burnt > g.maxBurnt {
		return fail(GasLimitExceeded)
	}
	return fail(GasExceeded)
}

// pay burns the gas of one unit of a cost.
func (g *gasCounter) pay(c parameters.ExtCost) error { return g.payGas(c, g.prices[c].Gas) }

// payPer burns the gas of n units of a cost.
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
	g.ext[c] += g.burnt - before // cannot overflow, because the sum over ext is at most burnt
	return err
}

// payAction burns the send part of an action's fee and sets the execution part aside. use is the
// sum of the send part and the execution part.
func (g *gasCounter) payAction(send parameters.Cost, use primitives.Gas, a parameters.ActionCost) error {
	before := g.burnt
	err := g.deduct(send.Gas, use)
	burnt := g.burnt - before
	g.action[a] += burnt
	compute := send.Compute
	if err != nil {
		compute = parameters.Compute(burnt) // as in nearcore, the compute of the last step equals its gas
	}
	sum := g.sendCompute + compute
	if sum < compute {
		return fail(IntegerOverflow)
	}
	g.sendCompute = sum
	return err
}

// prepay attaches gas to a function call in a promise.
func (g *gasCounter) prepay(n primitives.Gas) error { return g.deduct(0, n) }

// instructions returns the gas that was burnt by instructions.
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

// compute returns the compute of the call (nearcore profile.rs total_compute_usage). Each cost
// contributes the gas burnt for it times the ratio of the cost's compute to the cost's gas. rest is
// the gas of instructions.
func (g *gasCounter) compute(rest primitives.Gas) parameters.Compute {
	sum := satAdd(g.sendCompute, parameters.Compute(rest))
	for c, gas := range g.ext {
		price := &g.prices[c]
		if gas == 0 || price.Gas == 0 {
			continue
		}
		if uint64(price.Gas) == uint64(price.Compute) { // fast path for nearly all costs
			sum = satAdd(sum, parameters.Compute(gas))
			continue
		}
		hi, lo := bits.Mul64(uint64(gas), uint64(price.Compute))
		if hi >= uint64(price.Gas) {
			return ^parameters.Compute(0) // unreachable with the prices of all versions
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
