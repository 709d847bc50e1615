package logic

import (
	"errors"
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Tests of nearcore logic/gas_counter.rs and logic/tests/gas_counter.rs.

const (
	tera   primitives.Gas = 1_000_000_000_000
	allGas                = ^primitives.Gas(0)
)

// gasLimits sets how much gas a call may burn, and its prepaid gas.
func gasLimits(maxBurnt, prepaid primitives.Gas) func(*harness) {
	return func(r *harness) { r.cfg.Wasm.Limits.MaxGasBurnt, r.c.PrepaidGas = maxBurnt, prepaid }
}

func counter(maxBurnt, prepaid primitives.Gas, view bool) *gasCounter {
	cfg := parameters.MustGet(parameters.Version{Protocol: 86, Numbering: primitives.NumberingJune})
	g := newGasCounter(&cfg.Wasm.Ext, maxBurnt, prepaid, view)
	return &g
}

func TestBurnAndDeductStopAtGasLimits(t *testing.T) {
	g := counter(10, 10, false)
	if err := g.deduct(5, 10); err != nil || g.burnt != 5 || g.used() != 10 {
		t.Errorf("deduct: %v, burnt %d, used %d", err, g.burnt, g.used())
	}
	tests := []struct {
		maxBurnt, prepaid primitives.Gas
		view              bool
		burn, deduct      error
	}{
		{5, 7, false, fail(GasLimitExceeded), fail(GasLimitExceeded)},
		{5, 7, true, fail(GasLimitExceeded), fail(GasLimitExceeded)},
		{5, 5, false, fail(GasLimitExceeded), fail(GasLimitExceeded)},
		{5, 5, true, fail(GasLimitExceeded), fail(GasLimitExceeded)},
		{7, 5, false, fail(GasLimitExceeded), fail(GasLimitExceeded)},
		{7, 5, true, fail(GasLimitExceeded), fail(GasLimitExceeded)},
		{5, 8, false, fail(GasLimitExceeded), fail(GasLimitExceeded)},
		{5, 8, true, fail(GasLimitExceeded), fail(GasLimitExceeded)},
		{8, 5, false, fail(GasExceeded), fail(GasExceeded)},
		{8, 5, true, nil, nil},
	}
	for _, test := range tests {
		g := counter(test.maxBurnt, test.prepaid, test.view)
		if err := g.burn(5); err != nil {
			t.Errorf("%+v: burn 5: %v", test, err)
		}
		if err := g.burn(3); err != test.burn {
			t.Errorf("%+v: burn 3: %v", test, err)
		}
		g = counter(test.maxBurnt, test.prepaid, test.view)
		if err := g.deduct(5, 5); err != nil {
			t.Errorf("%+v: deduct 5: %v", test, err)
		}
		if err := g.deduct(3, 3); err != test.deduct {
			t.Errorf("%+v: deduct 3: %v", test, err)
		}
	}
	g = counter(10, 10, false)
	if err := g.deduct(5, 2); err != fail(IntegerOverflow) {
		t.Errorf("burn more than is used: %v", err)
	}
	for _, overflow := range []func() error{
		func() error { return g.burn(allGas) }, func() error { return g.deduct(allGas, allGas) }, func() error { return g.deduct(0, allGas) },
		func() error { return g.payPer(parameters.ExtBase, 1<<63) },
	} {
		g = counter(allGas, allGas, false)
		_ = g.burn(1)
		_ = g.deduct(0, 1)
		if err := overflow(); err != fail(IntegerOverflow) || g.burnt != 1 || g.used() != 2 {
			t.Errorf("overflow: %v, burnt %d, used %d", err, g.burnt, g.used())
		}
	}
}

// TestComputeIsProportionalToBurntGas: compute is in proportion to the burnt gas, including that of
// a failed charge.
func TestComputeIsProportionalToBurntGas(t *testing.T) {
	price := parameters.MustGet(parameters.Version{Protocol: 86, Numbering: primitives.NumberingJune}).Wasm.Ext
	g := counter(300*tera, 300*tera, false)
	for _, err := range []error{
		g.pay(parameters.ExtStorageWriteBase), g.payPer(parameters.ExtStorageWriteValueByte, 10),
		g.payAction(parameters.GasCost(100), 100, parameters.ActionNewDataReceiptByte), g.burn(7),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := price[parameters.ExtStorageWriteBase].Compute + 10*price[parameters.ExtStorageWriteValueByte].Compute + 100 + 7
	if got := g.compute(g.instructions()); got != want || g.instructions() != 7 {
		t.Errorf("compute = %d, want %d; instructions %d", got, want, g.instructions())
	}
	for _, test := range []struct {
		maxBurnt, prepaid primitives.Gas
		want              error
	}{{300 * tera, tera / 1000, fail(GasExceeded)}, {tera / 1000, 300 * tera, fail(GasLimitExceeded)}, {tera / 1000, tera / 1000, fail(GasLimitExceeded)}} {
		g := counter(test.maxBurnt, test.prepaid, false)
		if err := g.payPer(parameters.ExtStorageWriteValueByte, 100); err != test.want {
			t.Errorf("%+v: %v", test, err)
		}
		if got := g.compute(g.instructions()); uint64(got) != uint64(g.burnt) || g.burnt != tera/1000 {
			t.Errorf("%+v: compute %d, burnt %d", test, got, g.burnt)
		}
		g = counter(test.maxBurnt, test.prepaid, false)
		if err := g.payAction(parameters.Cost{Gas: tera / 100, Compute: 9e9}, tera/100, parameters.ActionTransfer); err != test.want {
			t.Errorf("%+v: action: %v", test, err)
		}
		if got := g.compute(g.instructions()); uint64(got) != uint64(g.burnt) || g.burnt != tera/1000 {
			t.Errorf("%+v: action: compute %d, burnt %d", test, got, g.burnt)
		}
	}
}

// ops burns about n gas with env.gas, the function with which old contracts count instructions.
func (r *harness) ops(n primitives.Gas) error {
	_, err := r.do("gas", uint64(n/r.cfg.Wasm.RegularOpCost))
	return err
}

func (r *harness) wantOutcome(test string, burnt, used primitives.Gas) {
	r.t.Helper()
	out, err := r.Outcome()
	if err != nil || out.GasBurnt != burnt || out.GasUsed != used {
		r.t.Errorf("%s: burnt %d, used %d, %v, want %d and %d", test, out.GasBurnt, out.GasUsed, err, burnt, used)
	}
	if uint64(out.Compute) != uint64(out.GasBurnt) {
		r.t.Errorf("%s: compute %d, burnt %d", test, out.Compute, out.GasBurnt)
	}
}

func TestLowerGasLimitDecidesError(t *testing.T) {
	r := newHarness(t, gasLimits(200*tera, 100*tera))
	i, _ := r.promiseCreate("rick.test", 0, 0)
	before := r.gas.burnt
	if err := r.batchCall(i, 0, uint64(200*tera)); err != fail(GasExceeded) {
		t.Errorf("more than there is: %v", err)
	}
	if r.gas.burnt < before || r.gas.burnt > 50*tera {
		t.Errorf("burnt %d", r.gas.burnt)
	}
	r.wantOutcome("more than there is", r.gas.burnt, 100*tera)

	r = newHarness(t, gasLimits(200*tera, 100*tera))
	i, _ = r.promiseCreate("rick.test", 0, 0)
	if err := r.batchCall(i, 0, uint64(50*tera)); err != nil {
		t.Fatal(err)
	}
	if err := r.ops(50 * tera); err != fail(GasExceeded) {
		t.Errorf("ops after gas was given away: %v", err)
	}
	if r.gas.burnt <= 50*tera || r.gas.burnt >= 100*tera {
		t.Errorf("burnt %d", r.gas.burnt)
	}
	r.wantOutcome("ops after gas was given away", r.gas.burnt, 100*tera)

	r = newHarness(t, gasLimits(100*tera, 200*tera))
	if err := r.ops(300 * tera); err != fail(GasLimitExceeded) {
		t.Errorf("above the most: %v", err)
	}
	r.wantOutcome("above the most", 100*tera, 200*tera)

	r = newHarness(t, gasLimits(200*tera, 100*tera))
	if err := r.ops(300 * tera); err != fail(GasLimitExceeded) { // both limits are exceeded
		t.Errorf("above what is prepaid: %v", err)
	}
	r.wantOutcome("above what is prepaid", 100*tera, 100*tera)

	r = newHarness(t, gasLimits(100*tera, 300*tera))
	if _, err := r.promiseCreate("brick.test", 0, uint64(50*tera)); err != nil {
		t.Fatal(err)
	}
	if err := r.ops(200 * tera); err != fail(GasLimitExceeded) {
		t.Errorf("above the most, with a promise: %v", err)
	}
	if r.gas.used() <= 200*tera {
		t.Errorf("used %d", r.gas.used())
	}
	r.wantOutcome("above the most, with a promise", 100*tera, r.gas.used())

	r = newHarness(t, gasLimits(300*tera, 100*tera))
	if _, err := r.promiseCreate("brick.test", 0, uint64(50*tera)); err != nil {
		t.Fatal(err)
	}
	if err := r.ops(200 * tera); err != fail(GasExceeded) {
		t.Errorf("above what is prepaid, with a promise: %v", err)
	}
	r.wantOutcome("above what is prepaid, with a promise", 100*tera, 100*tera)
}

// TestGasByWeightIsNotUsedGas: gas that is distributed by weight after the call does not count as
// used during the call.
func TestGasByWeightIsNotUsedGas(t *testing.T) {
	r := newHarness(t, gasLimits(100*tera, 100*tera))
	i, _ := r.batchCreate("rick.test")
	if err := r.batchCallWeight(i, 0, 1000, 0); err != nil {
		t.Fatal(err)
	}
	if r.gas.used() >= 100*tera {
		t.Errorf("used %d", r.gas.used())
	}
	r.wantOutcome("weight 0", r.gas.burnt, r.gas.used())
}

// TestOverflowingChargeFails: a charge that is so large that the sum of used gas overflows.
func TestOverflowingChargeFails(t *testing.T) {
	huge := func(r *harness) error {
		id, amount := r.putString("rick.test"), r.putBalance(100)
		i, _ := r.batchCreate("rick.test")
		r.must("promise_batch_action_transfer", i, amount)
		then := r.must("promise_batch_then", i, id.len, id.ptr)
		n := (^uint64(0) - uint64(r.gas.used()) - 1) / uint64(r.cfg.Wasm.Ext[parameters.ExtReadMemoryByte].Gas)
		_, err := r.do("promise_batch_action_function_call", then, n, 0, 0, 0, amount, 10_000)
		return err
	}
	r := newHarness(t, gasLimits(300*tera, 300*tera))
	if err := huge(r); err != fail(GasLimitExceeded) {
		t.Errorf("at both limits: %v", err)
	}
	if r.gas.used() != 300*tera {
		t.Errorf("used %d", r.gas.used())
	}
	r = newHarness(t, gasLimits(300*tera, 150*tera))
	id, amount := r.putString("rick.test"), r.putBalance(100)
	i, _ := r.batchCreate("rick.test")
	r.must("promise_batch_action_transfer", i, amount)
	r.must("promise_batch_then", i, id.len, id.ptr)
	prepaid := r.gas.used()
	r = newHarness(t, gasLimits(300*tera, prepaid))
	if err := huge(r); err != fail(GasExceeded) { // all gas is used, so the base price exceeds it
		t.Errorf("at what is prepaid: %v", err)
	}
	if r.gas.used() != prepaid {
		t.Errorf("used %d, want %d", r.gas.used(), prepaid)
	}
}

// exercises trigger the fee of an action, each by one host function.
var exercises = map[string]func(r *harness) error{
	"receipt": func(r *harness) error { _, err := r.batchCreate("rick.test"); return err },
	"dependency": func(r *harness) error {
		i, err := r.batchCreate("rick.test")
		if err != nil {
			return err
		}
		id := r.putString("rick.test")
		_, err = r.do("promise_batch_then", i, id.len, id.ptr)
		return err
	},
	"return": func(r *harness) error {
		v := r.putString("lorem ipsum")
		_, err := r.do("value_return", 11, v.ptr)
		return err
	},
	"create account": batchOf("rick.test", func(r *harness, i uint64) error {
		_, err := r.do("promise_batch_action_create_account", i)
		return err
	}),
	"delete account": batchOf("bob.test", func(r *harness, i uint64) error {
		id := r.putString("alice.test")
		_, err := r.do("promise_batch_action_delete_account", i, id.len, id.ptr)
		return err
	}),
	"deploy":        batchOf("rick.test", deploys("promise_batch_action_deploy_contract")),
	"deploy global": batchOf("rick.test", deploys("promise_batch_action_deploy_global_contract")),
	"use": batchOf("rick.test", func(r *harness, i uint64) error {
		h := primitives.HashBytes([]byte("arbitrary"))
		at := r.put(h[:])
		_, err := r.do("promise_batch_action_use_global_contract", i, at.len, at.ptr)
		return err
	}),
	"use by id": batchOf("rick.test", func(r *harness, i uint64) error {
		id := r.putString("alice.near")
		_, err := r.do("promise_batch_action_use_global_contract_by_account_id", i, id.len, id.ptr)
		return err
	}),
	"call": batchOf("rick.test", func(r *harness, i uint64) error {
		return r.batchCallOf(i, "fn_with_len_14", "lorem ipsum with length 26", 1, 1)
	}),
	"call with weight": batchOf("rick.test", func(r *harness, i uint64) error {
		args, method := r.putString("lorem ipsum with length 26"), r.putString("fn_with_len_14")
		_, err := r.do("promise_batch_action_function_call_weight", i, method.len, method.ptr, args.len, args.ptr, r.putBalance(1), 1, 1)
		return err
	}),
	"transfer": batchOf("alice.test", func(r *harness, i uint64) error {
		_, err := r.do("promise_batch_action_transfer", i, r.putBalance(1))
		return err
	}),
	"stake": batchOf("pool.test", func(r *harness, i uint64) error {
		amount, k := r.putBalance(1), r.putKey()
		_, err := r.do("promise_batch_action_stake", i, amount, k.len, k.ptr)
		return err
	}),
	"full key": batchOf("alice.test", func(r *harness, i uint64) error {
		k := r.putKey()
		_, err := r.do("promise_batch_action_add_key_with_full_access", i, k.len, k.ptr, 0)
		return err
	}),
	"call key": batchOf("alice.test", func(r *harness, i uint64) error {
		key := string(primitives.MustParsePublicKey(testKey))
		return r.addCallKeyOf("promise_batch_action_add_key_with_function_call", i, key, 0, 1, "alice.test", "foo,baz")
	}),
	"delete key": batchOf("alice.test", func(r *harness, i uint64) error {
		k := r.putKey()
		_, err := r.do("promise_batch_action_delete_key", i, k.len, k.ptr)
		return err
	}),
	"state init": batchOf("rick.test", func(r *harness, i uint64) error {
		_, err := stateInitOf(r, i)
		return err
	}),
	"state init by id": batchOf("rick.test", func(r *harness, i uint64) error {
		id := r.putString("global.near")
		_, err := r.do("promise_batch_action_state_init_by_account_id", i, id.len, id.ptr, r.putBalance(110))
		return err
	}),
	"universal state init": batchOf("rick.test", func(r *harness, i uint64) error {
		init, amount := r.put(make([]byte, 10)), r.putBalance(110)
		_, err := r.do("promise_batch_action_universal_state_init", i, init.len, init.ptr, amount)
		return err
	}),
	"state init with an entry": batchOf("rick.test", func(r *harness, i uint64) error {
		at, err := stateInitOf(r, i)
		if err != nil {
			return err
		}
		k, v := r.putString("key"), r.putString("value")
		_, err = r.do("set_state_init_data_entry", i, at, k.len, k.ptr, v.len, v.ptr)
		return err
	}),
}

func batchOf(to string, f func(r *harness, i uint64) error) func(r *harness) error {
	return func(r *harness) error {
		i, err := r.batchCreate(to)
		if err != nil {
			return err
		}
		return f(r, i)
	}
}

func deploys(name string) func(r *harness, i uint64) error {
	return func(r *harness, i uint64) error {
		code := r.putString("lorem ipsum with length 26")
		_, err := r.do(name, i, code.len, code.ptr)
		return err
	}
}

func stateInitOf(r *harness, i uint64) (uint64, error) {
	h := primitives.HashBytes([]byte("some code"))
	at, amount := r.put(h[:]), r.putBalance(110)
	return r.do("promise_batch_action_state_init", i, at.len, at.ptr, amount)
}

// TestGasBurntBeforeFailureShowsChargeOrder raises one fee so that it cannot be paid; times is how
// often it is charged. The gas burnt before the failure shows the order of the charges.
func TestGasBurntBeforeFailureShowsChargeOrder(t *testing.T) {
	set := func(c parameters.ActionCost, self, other, exec primitives.Gas) func(*harness) {
		return func(r *harness) {
			r.cfg.Fees.Action[c] = parameters.Fee{SendSIR: parameters.GasCost(self), SendNotSIR: parameters.GasCost(other), Exec: parameters.GasCost(exec)}
			r.c.OutputReceivers = []primitives.AccountID{"alice.test"}
		}
	}
	for _, test := range []struct {
		cost     parameters.ActionCost
		exercise string
		limit    primitives.Gas // charges that exceed the limit of burnt gas; 0: not tested
		attached primitives.Gas // charges that exceed the attached gas; 0: not tested
		want     string
	}{
		{parameters.ActionNewActionReceipt, "receipt", 1, 1, "8644846690 burnt 10000000000000 used"},
		{parameters.ActionNewActionReceipt, "dependency", 2, 2, "9411968532130 burnt 10000000000000 used"},
		{parameters.ActionNewDataReceiptBase, "dependency", 1, 1, "10000000000000 burnt 10000000000000 used"},
		{parameters.ActionNewDataReceiptByte, "return", 11, 11, "10000000000000 burnt 10000000000000 used"},
		{parameters.ActionCreateAccount, "create account", 1, 1, "116969114801 burnt 10000000000000 used"},
		{parameters.ActionDeleteAccount, "delete account", 1, 1, "125349193370 burnt 10000000000000 used"},
		{parameters.ActionDeployContractBase, "deploy", 1, 1, "119677812659 burnt 10000000000000 used"},
		{parameters.ActionDeployContractByte, "deploy", 26, 26, "304443562909 burnt 10000000000000 used"},
		{parameters.ActionDeployGlobalContractBase, "deploy global", 1, 1, "119677812659 burnt 10000000000000 used"},
		{parameters.ActionDeployGlobalContractByte, "deploy global", 26, 26, "304443562909 burnt 10000000000000 used"},
		{parameters.ActionUseGlobalContractBase, "use", 1, 1, "119700620657 burnt 10000000000000 used"},
		{parameters.ActionUseGlobalContractBase, "use by id", 1, 1, "125644575182 burnt 10000000000000 used"},
		{parameters.ActionUseGlobalContractByte, "use", 32, 32, "304466370967 burnt 10000000000000 used"},
		{parameters.ActionUseGlobalContractByte, "use by id", 10, 10, "310410325272 burnt 10000000000000 used"},
		{parameters.ActionFunctionCallBase, "call", 1, 1, "125011579049 burnt 10000000000000 used"},
		{parameters.ActionFunctionCallBase, "call with weight", 1, 1, "125011579049 burnt 10000000000000 used"},
		{parameters.ActionFunctionCallByte, "call", 40, 40, "2444873079439 burnt 10000000000000 used"},
		{parameters.ActionFunctionCallByte, "call with weight", 40, 40, "2444873079439 burnt 10000000000000 used"},
		{parameters.ActionTransfer, "transfer", 1, 1, "119935181141 burnt 10000000000000 used"},
		{parameters.ActionStake, "stake", 1, 1, "122375106518 burnt 10000000000000 used"},
		{parameters.ActionAddFullAccessKey, "full key", 1, 1, "119999803802 burnt 10000000000000 used"},
		{parameters.ActionAddFunctionCallKeyBase, "call key", 1, 1, "133982421242 burnt 10000000000000 used"},
		{parameters.ActionAddFunctionCallKeyByte, "call key", 7, 7, "236200046312 burnt 10000000000000 used"},
		{parameters.ActionDeleteKey, "delete key", 1, 1, "119999803802 burnt 10000000000000 used"},
		{parameters.ActionUniversalStateInitBase, "universal state init", 1, 1, "122287675859 burnt 10000000000000 used"},
		{parameters.ActionUniversalStateInitByte, "universal state init", 10, 10, "622287675949 burnt 10000000000000 used"},
		{parameters.ActionDeterministicStateInitBase, "state init", 1, 1, "122371305185 burnt 10000000000000 used"},
		{parameters.ActionDeterministicStateInitBase, "state init by id", 1, 0, ""},
		{parameters.ActionDeterministicStateInitEntry, "state init with an entry", 1, 1, "3977886210360 burnt 10000000000000 used"},
		{parameters.ActionDeterministicStateInitByte, "state init with an entry", 1, 8, "3977886210430 burnt 10000000000000 used"},
	} {
		name := fmt.Sprintf("%v by %s", test.cost, test.exercise)
		r := newHarness(t, gasLimits(10*tera, 10*tera), set(test.cost, 10*tera/test.limit+1, 10*tera/test.limit+10, 1))
		if err := exercises[test.exercise](r); err != fail(GasLimitExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		r.wantOutcome(name, 10*tera, 10*tera)
		if test.attached == 0 {
			continue
		}
		r = newHarness(t, gasLimits(100*tera, 10*tera), set(test.cost, 1, 10, 10*tera/test.attached+1))
		if err := exercises[test.exercise](r); err != fail(GasExceeded) {
			t.Errorf("%s: %v", name, err)
		}
		if got := fmt.Sprintf("%d burnt %d used", r.gas.burnt, r.gas.used()); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		r.wantOutcome(name, r.gas.burnt, r.gas.used())
	}
}

// TestGasMovesBetweenModuleAndCounter moves gas between the module's global and the counter, as an
// engine does.
func TestGasMovesBetweenModuleAndCounter(t *testing.T) {
	r := newHarness(t, gasLimits(1000*tera, 20*tera))
	left := r.Leave()
	if left != int64(20*tera) {
		t.Fatalf("a call starts with %d", left)
	}
	r.Enter(left - 1000)
	if r.gas.burnt != 1000 || r.gas.instructions() != 1000 {
		t.Errorf("burnt %d, instructions %d", r.gas.burnt, r.gas.instructions())
	}
	if err := r.gas.prepay(10 * tera); err != nil {
		t.Fatal(err)
	}
	if left = r.Leave(); left != int64(10*tera)-1000 {
		t.Errorf("left %d", left)
	}
	// The next charge exceeds the gas by 5. It burns what is left of the call's gas, whether or not
	// there are promises.
	r.Enter(-5)
	if r.Err() != fail(GasExceeded) {
		t.Errorf("err = %v", r.Err())
	}
	r.wantOutcome("out of gas in the module", 10*tera+5, 20*tera)
	if _, err := r.Invoke(0, []uint64{0, 0}); err != fail(GasExceeded) {
		t.Errorf("a host function of a call that is over: %v", err)
	}

	r = newHarness(t, gasLimits(tera, 20*tera))
	r.Enter(-int64(30 * tera))
	if r.Err() != fail(GasLimitExceeded) {
		t.Errorf("err = %v", r.Err())
	}
	r.wantOutcome("above the most in the module", tera, 20*tera)

	r = newHarness(t, view, func(r *harness) { r.c.PrepaidGas = 7 * tera })
	if r.Leave() != int64(7*tera) {
		t.Errorf("a view starts with %d", r.Leave())
	}
	r.Enter(-1)
	if r.Err() != fail(GasLimitExceeded) {
		t.Errorf("err of a view = %v", r.Err())
	}
	r.wantOutcome("a view that is out of gas", 7*tera, 7*tera)
	r = newHarness(t, view, func(r *harness) { r.c.PrepaidGas = allGas })
	if r.Leave() != int64(maxViewGas) {
		t.Errorf("a view without a bound starts with %d", r.Leave())
	}
	r = newHarness(t)
	r.OutOfStack()
	if r.Err() != fail(MemoryAccessViolation) {
		t.Errorf("err = %v", r.Err())
	}
}

func TestLoadingIsChargedByCodeLength(t *testing.T) {
	r := newHarness(t)
	if err := r.PayLoading(38); err != nil || r.gas.burnt != 35_445_963+41_393_210 {
		t.Errorf("%v, burnt %d", err, r.gas.burnt)
	}
	for _, prepaid := range []primitives.Gas{41_393_209, 41_393_210 + 35_445_962} {
		r = newHarness(t, gasLimits(prepaid, prepaid)) // both limits are equal: GasExceeded, because the prepaid gas is exceeded
		if err := r.PayLoading(38); err != fail(GasExceeded) || r.Err() != err {
			t.Errorf("%v, %v", err, r.Err())
		}
		r.wantOutcome("loading", prepaid, prepaid)
	}
}

// TestProfileIsSortedAndSumsToBurntGas: a profile is sorted, contains no zeros, and its sum is the
// burnt gas.
func TestProfileIsSortedAndSumsToBurntGas(t *testing.T) {
	r := newHarness(t)
	i, _ := r.batchCreate("rick.test")
	r.must("promise_batch_action_create_account", i)
	r.must("storage_has_key", 3, 0)
	r.must("gas", 10)
	out, err := r.Outcome()
	if err != nil {
		t.Fatal(err)
	}
	names, sum := "", primitives.Gas(0)
	for _, e := range out.Profile {
		names += e.Category[:1] + " " + e.Cost + "\n"
		sum += e.Gas
	}
	const want = "A CREATE_ACCOUNT\nA NEW_ACTION_RECEIPT\nW BASE\nW READ_MEMORY_BASE\nW READ_MEMORY_BYTE\nW STORAGE_HAS_KEY_BASE\n" +
		"W STORAGE_HAS_KEY_BYTE\nW UTF8_DECODING_BASE\nW UTF8_DECODING_BYTE\nW WASM_INSTRUCTION\n"
	if names != want || sum != out.GasBurnt {
		t.Errorf("profile of %d, burnt %d:\n%s", sum, out.GasBurnt, names)
	}
	if r = newHarness(t); r.gas.profile(0) != nil {
		t.Errorf("profile of nothing: %v", r.gas.profile(0))
	}
}

// TestFailedCallKeepsOnlyGasAndLogs: only gas and logs of a failed call are kept.
func TestFailedCallKeepsOnlyGasAndLogs(t *testing.T) {
	r := newHarness(t)
	s := r.putString("said")
	r.must("log_utf8", s.len, s.ptr)
	r.must("value_return", s.len, s.ptr)
	r.Fail(TrapError(primitives.TrapUnreachable))
	r.Fail(LinkError("later"))
	out, err := r.Outcome()
	if err != nil || out.Err == nil || out.Err.Message != "WebAssembly trap: An `unreachable` opcode was executed." {
		t.Errorf("%+v, %v", out.Err, err)
	}
	if len(out.Logs) != 1 || out.Return.Kind != 0 || !out.Balance.IsZero() || out.GasBurnt == 0 {
		t.Errorf("outcome %+v", out)
	}
	if got := LoadingError("x").Message; got != "Loading Error: x" {
		t.Error(got)
	}
	if got := LinkError("x").Message; got != "Link Error: x" {
		t.Error(got)
	}
	if !errors.Is(fail(BadUTF8), &HostError{Kind: BadUTF8}) || errors.Is(fail(BadUTF8), &HostError{Kind: BadUTF16}) {
		t.Error("Is")
	}
}
