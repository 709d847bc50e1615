package logic

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Tests of nearcore logic/tests/context.rs, view_method.rs, iterators.rs, and those of miscs.rs
// that concern contexts.

func TestContextBytesGoToRegister(t *testing.T) {
	r := newHarness(t)
	for name, want := range map[string]string{
		"current_account_id":     "alice.near",
		"signer_account_id":      "bob.near",
		"signer_account_pk":      "\x00\x01\x02\x03\x04",
		"predecessor_account_id": "carol.near",
		"refund_to_account_id":   "david.near",
		"random_seed":            string(r.c.RandomSeed[:]),
		"input":                  "\x00\x01\x02\x03\x04",
		"chain_id":               "test",
	} {
		r.must(name, 0)
		r.wantReg(0, []byte(want))
	}
}

func TestContextNumbersAreReturned(t *testing.T) {
	r := newHarness(t, func(r *harness) {
		r.c.StorageUsage = 77
		r.c.Results = make([]action.PromiseResult, 3)
	})
	for name, want := range map[string]uint64{
		"block_index": 10, "block_timestamp": 42, "epoch_height": 1, "storage_usage": 77, "prepaid_gas": 100_000_000_000_000,
		"promise_results_count": 3,
	} {
		if got := r.must(name); got != want {
			t.Errorf("%s = %d, want %d", name, got, want)
		}
	}
	for name, want := range map[string]uint64{"account_balance": 110, "account_locked_balance": 50, "attached_deposit": 10} {
		r.must(name, 0)
		if want := primitives.Yocto(want).AppendBorsh(nil); !bytes.Equal(r.Memory[:16], want) {
			t.Errorf("%s = %x, want %x", name, r.Memory[:16], want)
		}
	}
}

func TestViewReadsAttachedDeposit(t *testing.T) {
	for _, amount := range []primitives.Balance{{}, primitives.Yocto(1), primitives.MaxBalance} {
		r := newHarness(t, view, func(r *harness) { r.c.Balance, r.c.Deposit = primitives.Balance{}, amount })
		r.must("attached_deposit", 0)
		if got := r.Memory[:16]; !bytes.Equal(got, amount.AppendBorsh(nil)) {
			t.Errorf("attached_deposit = %x, want %v", got, amount)
		}
	}
}

// TestCopyToRegisterCostsNothingPerByte: copying arguments and results to a register costs nothing
// per byte, since these bytes were paid for when they were sent.
func TestCopyToRegisterCostsNothingPerByte(t *testing.T) {
	want := func() costs { return costs{parameters.ExtBase: 1, parameters.ExtWriteRegisterBase: 1} }
	r := newHarness(t, func(r *harness) { r.c.Args = make([]byte, 100) })
	r.must("input", 0)
	r.wantCosts(want())
	r = newHarness(t, func(r *harness) { r.c.Results = []action.PromiseResult{{Data: make([]byte, 100)}} })
	r.must("promise_result", 0, 0)
	r.wantCosts(want())
	r = newHarness(t)
	r.must("chain_id", 0)
	r.wantCosts(costs{parameters.ExtBase: 1, parameters.ExtWriteRegisterBase: 1, parameters.ExtWriteRegisterByte: 4})
	r.wantReg(0, []byte("test"))
}

func TestPromiseResultReturnsDataOrFailure(t *testing.T) {
	r := newHarness(t, func(r *harness) { r.c.Results = []action.PromiseResult{{Data: []byte("test")}, {Failed: true}} })
	if got := r.must("promise_result", 0, 0); got != 1 {
		t.Errorf("a result is %d", got)
	}
	if got := r.must("promise_result", 1, 0); got != 2 {
		t.Errorf("a failure is %d", got)
	}
	r.wantReg(0, []byte("test"))
	r.fails(HostError{Kind: InvalidPromiseResultIndex, A: 2}, "promise_result", 2, 0)
}

func TestCurrentContractCodeNamesKindAndHash(t *testing.T) {
	hash := primitives.HashBytes([]byte("seed"))
	for _, test := range []struct {
		contract primitives.AccountContract
		code     uint64
		want     []byte
	}{
		{primitives.AccountContract{}, 0, nil},
		{primitives.AccountContract{Kind: primitives.ContractLocal, Hash: hash}, 1, hash[:]},
		{primitives.AccountContract{Kind: primitives.ContractGlobalHash, Hash: hash}, 2, hash[:]},
		{primitives.AccountContract{Kind: primitives.ContractGlobalAccount, Account: "alice.near"}, 3, []byte("alice.near")},
	} {
		r := newHarness(t, func(r *harness) { r.c.Contract = test.contract })
		if got := r.must("current_contract_code", 0); got != test.code {
			t.Errorf("code = %d, want %d", got, test.code)
		}
		if test.code != 0 {
			r.wantReg(0, test.want)
		} else if got := r.must("register_len", 0); got != ^uint64(0) {
			t.Errorf("register of no contract has %d bytes", got)
		}
	}
}

func TestValidatorStakeIsZeroForUnknownAccount(t *testing.T) {
	r := newHarness(t)
	r.w.validators["bob.near"], r.w.validators["carol.near"] = primitives.Yocto(3), primitives.NEAR(1)
	id, nobody := r.putString("bob.near"), r.putString("nobody")
	out := r.putBalance(0)
	amount := func() []byte { return r.Memory[out : out+16] }
	r.must("validator_stake", id.len, id.ptr, out)
	r.wantCosts(costs{
		parameters.ExtBase: 1, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 8, parameters.ExtUTF8DecodingBase: 1,
		parameters.ExtUTF8DecodingByte: 8, parameters.ExtValidatorStakeBase: 1, parameters.ExtWriteMemoryBase: 1, parameters.ExtWriteMemoryByte: 16,
	})
	if want := primitives.Yocto(3).AppendBorsh(nil); !bytes.Equal(amount(), want) {
		t.Errorf("stake = %x", amount())
	}
	r.must("validator_stake", nobody.len, nobody.ptr, out)
	if want := (primitives.Balance{}).AppendBorsh(nil); !bytes.Equal(amount(), want) {
		t.Errorf("stake of an unknown account = %x", amount())
	}
	r.must("validator_total_stake", out)
	total, _ := primitives.NEAR(1).Add(primitives.Yocto(3))
	if want := total.AppendBorsh(nil); !bytes.Equal(amount(), want) {
		t.Errorf("total stake = %x", amount())
	}
	bad := r.putString("Not An Account")
	r.fails(HostError{Kind: InvalidAccountID}, "validator_stake", bad.len, bad.ptr, out)
	bad = r.putString("\xff\xff")
	r.fails(HostError{Kind: BadUTF8}, "validator_stake", bad.len, bad.ptr, out)
}

// TestProhibitedFunctionFailsInView: in a view, each prohibited function fails with
// ProhibitedInView after the base price alone, and no other function returns that error.
func TestProhibitedFunctionFailsInView(t *testing.T) {
	names := map[string]string{ // functions that the error text calls by another name
		"promise_create": "promise_batch_create",
		"promise_then":   "promise_batch_then",
		"promise_batch_action_function_call_weight": "promise_batch_action_function_call",
	}
	for i := range Functions {
		f := &Functions[i]
		r := newHarness(t, view)
		_, err := r.do(f.Name, make([]uint64, len(f.Params))...)
		var host *HostError
		refused := errors.As(err, &host) && host.Kind == ProhibitedInView
		if refused == f.View {
			t.Errorf("%s in a view: %v", f.Name, err)
		}
		if f.View {
			continue
		}
		want := f.Name
		if names[want] != "" {
			want = names[want]
		}
		if host.Text != want {
			t.Errorf("%s is refused as %s", f.Name, host.Text)
		}
		paid := costs{parameters.ExtBase: 1}
		if f.Name == "promise_return" {
			paid[parameters.ExtPromiseReturn] = 1
		}
		r.wantCosts(paid)
	}
}

func TestStorageIteratorsAreDeprecated(t *testing.T) {
	r := newHarness(t)
	r.fails(HostError{Kind: Deprecated, Text: "storage_iter_prefix"}, "storage_iter_prefix", 1, 0)
	r.fails(HostError{Kind: Deprecated, Text: "storage_iter_range"}, "storage_iter_range", 1, 0, 1, 0)
	r.fails(HostError{Kind: Deprecated, Text: "storage_iter_next"}, "storage_iter_next", 0, 0, 1)
	r.wantCosts(costs{})
}

// TestIndexFindsEachFunctionByName: Index returns the function of each name, and In returns whether
// each version has it.
func TestIndexFindsEachFunctionByName(t *testing.T) {
	w := parameters.MustGet(parameters.Version{Protocol: 86, Numbering: primitives.NumberingJune}).Wasm
	later := []string{"sha3_256", "sha3_384", "sha3_512", "ml_dsa_verify",
		"universal_state_init_to_account_id", "promise_batch_action_universal_state_init"}
	for i := range Functions {
		name := Functions[i].Name
		if got, ok := Index(name); !ok || got != i {
			t.Errorf("Index(%s) = %d, %v, want %d", name, got, ok, i)
		}
		if Functions[i].In(&w) == slices.Contains(later, name) {
			t.Errorf("%s.In(86) = %v", name, Functions[i].In(&w))
		}
	}
	for _, name := range []string{"", "sandbox_debug_log", "burn_gas", "sleep_nanos", "Gas"} {
		if i, ok := Index(name); ok {
			t.Errorf("Index(%q) = %d", name, i)
		}
	}
	w.ChainIDHostFn, w.P256VerifyHostFn = false, false
	w.GasKeyHostFns, w.YieldWithIDHostFns, w.GlobalContractHostFns = false, false, false
	gone := 0
	for i := range Functions {
		if !Functions[i].In(&w) {
			gone++
		}
	}
	if want := 2 + 3 + 2 + 4 + len(later); gone != want {
		t.Errorf("%d functions fail as deprecated, want %d", gone, want)
	}
}
