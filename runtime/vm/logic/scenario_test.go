package logic

import (
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// A successful call of every host function, for tests that apply to all of them. Promise 0 exists,
// with a receipt whose first action is a state init. Register 0 is set.

// ends lists the functions that always end the call, with their errors.
var ends = map[string]HostErrorKind{
	"panic": GuestPanic, "panic_utf8": GuestPanic, "abort": GuestPanic,
	"storage_iter_prefix": Deprecated, "storage_iter_range": Deprecated, "storage_iter_next": Deprecated,
}

// scenario returns arguments with which a function succeeds. It must not burn gas.
func (r *harness) scenario(t *testing.T, name string) []uint64 {
	id, hex := r.putString("bob.near"), r.putString("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")
	key, hash := r.putKey(), r.put(make([]byte, 32))
	method, args, text := r.putString("method"), r.putString("args"), r.putString("text")
	wide := r.put(utf16Bytes("text"))
	r.put([]byte{8, 0, 0, 0})
	counted := r.put(utf16Bytes("text"))
	one, index := r.putBalance(1), r.putIndex(0)
	names := r.putString("a,b")
	call := []uint64{method.len, method.ptr, args.len, args.ptr, one, 1}
	switch name {
	case "read_register":
		return []uint64{0, 0}
	case "write_register":
		return []uint64{1, text.len, text.ptr}
	case "validator_stake":
		return []uint64{id.len, id.ptr, one}
	case "panic_utf8", "log_utf8", "value_return":
		return []uint64{text.len, text.ptr}
	case "log_utf16":
		return []uint64{wide.len, wide.ptr}
	case "abort":
		return []uint64{counted.ptr, counted.ptr, 1, 2}
	case "promise_create":
		return append([]uint64{id.len, id.ptr}, call...)
	case "promise_then":
		return append([]uint64{0, id.len, id.ptr}, call...)
	case "promise_and":
		return []uint64{index, 1}
	case "promise_batch_create":
		return []uint64{hex.len, hex.ptr}
	case "promise_batch_then", "promise_set_refund_to", "promise_batch_action_delete_account",
		"promise_batch_action_use_global_contract_by_account_id":
		return []uint64{0, id.len, id.ptr}
	case "promise_batch_action_deploy_contract", "promise_batch_action_deploy_global_contract",
		"promise_batch_action_deploy_global_contract_by_account_id":
		return []uint64{0, text.len, text.ptr}
	case "promise_batch_action_use_global_contract":
		return []uint64{0, hash.len, hash.ptr}
	case "promise_batch_action_state_init":
		return []uint64{0, hash.len, hash.ptr, one}
	case "promise_batch_action_state_init_by_account_id":
		return []uint64{0, id.len, id.ptr, one}
	case "universal_state_init_to_account_id":
		init := r.put(make([]byte, 10))
		return []uint64{init.len, init.ptr, 1}
	case "promise_batch_action_universal_state_init":
		init := r.put(make([]byte, 10))
		return []uint64{0, init.len, init.ptr, one}
	case "set_state_init_data_entry":
		return []uint64{0, 0, text.len, text.ptr, args.len, args.ptr}
	case "promise_batch_action_function_call":
		return append([]uint64{0}, call...)
	case "promise_batch_action_function_call_weight":
		return append(append([]uint64{0}, call...), 2)
	case "promise_batch_action_transfer":
		return []uint64{0, one}
	case "promise_batch_action_stake":
		return []uint64{0, one, key.len, key.ptr}
	case "promise_batch_action_delete_key":
		return []uint64{0, key.len, key.ptr}
	case "promise_batch_action_add_key_with_full_access", "promise_batch_action_add_gas_key_with_full_access":
		return []uint64{0, key.len, key.ptr, 3}
	case "promise_batch_action_transfer_to_gas_key":
		return []uint64{0, key.len, key.ptr, one}
	case "promise_batch_action_add_key_with_function_call", "promise_batch_action_add_gas_key_with_function_call":
		return []uint64{0, key.len, key.ptr, 3, one, id.len, id.ptr, names.len, names.ptr}
	case "promise_yield_create":
		return []uint64{method.len, method.ptr, args.len, args.ptr, 1, 2, 5}
	case "promise_yield_create_with_id":
		return []uint64{method.len, method.ptr, args.len, args.ptr, one, 1, 2, hash.len, hash.ptr}
	case "promise_yield_resume", "promise_yield_resume_with_yield_id":
		return []uint64{hash.len, hash.ptr, text.len, text.ptr}
	case "storage_write":
		r.w.entries["method"] = []byte("old")
		return []uint64{method.len, method.ptr, args.len, args.ptr, 1}
	case "storage_read":
		r.w.entries["method"] = make([]byte, 4001)
		return []uint64{method.len, method.ptr, 1}
	case "storage_remove":
		r.w.entries["method"] = []byte("old")
		return []uint64{method.len, method.ptr, 1}
	case "storage_has_key":
		return []uint64{method.len, method.ptr}
	case "ecrecover":
		h := r.put(unhex(t, "ce0677bb30baa8cf067c88db9811f4333d131bf8bcf12fe7065d211dce971008"))
		s := r.put(unhex(t, "90f27b8b488db00b00606796d2987f6a5f59ae62ea05effe84fef5b8b0e549984a691139ad57a3f0b906637673aa2f63d1f55cb1a69199d4009eea23ceaddc93"))
		return []uint64{h.len, h.ptr, s.len, s.ptr, 1, 0, 1}
	case "ml_dsa_verify":
		sig, msg, key := mlDSA65(t)
		s, m, k := r.put(sig), r.put(msg), r.put(key)
		return []uint64{s.len, s.ptr, m.len, m.ptr, k.len, k.ptr}
	case "ed25519_verify", "p256_verify":
		for _, v := range verifications(t) {
			if v.fn == name {
				s, m, k := r.put(v.sig), r.put(v.msg), r.put(v.key)
				return []uint64{s.len, s.ptr, m.len, m.ptr, k.len, k.ptr}
			}
		}
	case "gas":
		return []uint64{1000}
	}
	i, _ := Index(name)
	n := len(Functions[i].Params)
	if n == 3 { // hashes and curve functions, with empty input
		return []uint64{0, 0, 1}
	}
	return make([]uint64, n)
}

// newScenario returns a call for scenarios, and the arguments for one function. The preparation
// costs no gas.
func newScenario(t *testing.T, name string, set ...func(*harness)) (*harness, []uint64) {
	set = append([]func(*harness){mainnet, func(r *harness) {
		r.c.Results = []action.PromiseResult{{Data: []byte("result")}}
		r.c.OutputReceivers = []primitives.AccountID{"alice", "bob.near"}
		r.c.StorageUsage = 1000
		r.w.nodes = action.NodeCount{Touched: 2, Cached: 1}
	}}, set...)
	r := newHarness(t, set...)
	args := r.scenario(t, name)
	r.registers.all = []register{{0, []byte("zero")}}
	r.registers.usage = 4 + registerOverhead
	r.w.receipts = []*mockReceipt{{receiver: "bob.near", actions: []primitives.Action{&primitives.DeterministicStateInit{}}}}
	r.promises = []promise{{}}
	return r, args
}

// TestEveryFunctionSucceedsInScenario: every function succeeds, and returns a result if the table
// declares one.
func TestEveryFunctionSucceedsInScenario(t *testing.T) {
	for i := range Functions {
		f := &Functions[i]
		r, args := newScenario(t, f.Name)
		v, err := r.Invoke(i, args)
		if kind, ends := ends[f.Name]; ends {
			var host *HostError
			if !errors.As(err, &host) || host.Kind != kind {
				t.Errorf("%s: %v", f.Name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		if len(f.Results) == 0 && v != 0 {
			t.Errorf("%s returned %d", f.Name, v)
		}
		if len(f.Results) == 1 && f.Results[0] == I32 && v>>32 != 0 {
			t.Errorf("%s returned %#x in 32 bits", f.Name, v)
		}
		out, err := r.Outcome()
		if err != nil || out.GasBurnt == 0 || out.Compute == 0 {
			t.Errorf("%s: outcome %+v, %v", f.Name, out, err)
		}
		if _, err := r.Invoke(i, append(args, 0)); err == nil {
			t.Errorf("%s took an argument too many", f.Name)
		}
	}
}

// TestEveryFunctionFailsWithTooLittleGas gives every function less gas than it needs, at many
// amounts. It fails with GasExceeded, all prepaid gas is used, and no more is burnt.
func TestEveryFunctionFailsWithTooLittleGas(t *testing.T) {
	const steps = 40
	for i := range Functions {
		f := &Functions[i]
		if ends[f.Name] == Deprecated {
			continue // free
		}
		full, args := newScenario(t, f.Name)
		_, _ = full.Invoke(i, args)
		want := full.gas.used()
		last := primitives.Gas(0)
		for n := range primitives.Gas(steps) {
			prepaid := want / steps * n
			if n == steps-1 {
				prepaid = want - 1
			}
			r, args := newScenario(t, f.Name, func(r *harness) { r.c.PrepaidGas = prepaid })
			_, err := r.Invoke(i, args)
			if err != fail(GasExceeded) || r.gas.used() != prepaid || r.gas.burnt > prepaid || r.gas.burnt < last {
				t.Errorf("%s with %d of %d gas: %v, burnt %d, used %d", f.Name, prepaid, want, err, r.gas.burnt, r.gas.used())
			}
			r, args = newScenario(t, f.Name, func(r *harness) { r.cfg.Wasm.Limits.MaxGasBurnt = min(prepaid, full.gas.burnt-1) })
			if _, err = r.Invoke(i, args); err != fail(GasLimitExceeded) || r.gas.burnt > prepaid {
				t.Errorf("%s with a limit of %d: %v, burnt %d", f.Name, prepaid, err, r.gas.burnt)
			}
		}
	}
}

// TestErrorTextsMatchNearcore checks the text of every error.
func TestErrorTextsMatchNearcore(t *testing.T) {
	for want, e := range map[string]HostError{
		"String encoding is bad UTF-8 sequence.":                                     {Kind: BadUTF8},
		"3 does not correspond to existing promises":                                 {Kind: InvalidPromiseIndex, A: 3},
		"Accessed invalid promise result index: 3":                                   {Kind: InvalidPromiseResultIndex, A: 3},
		"Accessed invalid register id: 3":                                            {Kind: InvalidRegisterID, A: 3},
		"Action 2 in receipt 1 does not exist or has the wrong type of action.":      {Kind: InvalidActionIndex, A: 1, B: 2},
		"used_gas is not allowed in view calls":                                      {Kind: ProhibitedInView, Text: "used_gas"},
		"The number of logs will exceed the limit 100":                               {Kind: NumberOfLogsExceeded, B: 100},
		"The length of a storage key 2 exceeds the limit 1":                          {Kind: KeyLengthExceeded, A: 2, B: 1},
		"The length of a storage value 2 exceeds the limit 1":                        {Kind: ValueLengthExceeded, A: 2, B: 1},
		"The length of a log message 2 exceeds the limit 1":                          {Kind: TotalLogLengthExceeded, A: 2, B: 1},
		"The number of promises within a FunctionCall 2 exceeds the limit 1":         {Kind: NumberPromisesExceeded, A: 2, B: 1},
		"The number of input data dependencies 2 exceeds the limit 1":                {Kind: NumberInputDataDependenciesExceeded, A: 2, B: 1},
		"The length of a returned value 2 exceeds the limit 1":                       {Kind: ReturnedValueLengthExceeded, A: 2, B: 1},
		"The size of a contract code in DeployContract action 2 exceeds the limit 1": {Kind: ContractSizeExceeded, A: 2, B: 1},
		"Attempted to call deprecated host function f":                               {Kind: Deprecated, Text: "f"},
		"ED25519 signature verification error: x":                                    {Kind: Ed25519VerifyInvalidInput, Text: "x"},
		"ML-DSA-65 signature verification error: x":                                  {Kind: MLDSAVerifyInvalidInput, Text: "x"},
		"P256 signature verification error: x":                                       {Kind: P256VerifyInvalidInput, Text: "x"},
		"BLS12-381 invalid input: x":                                                 {Kind: BLS12381InvalidInput, Text: "x"},
		"AltBn128 invalid input: x":                                                  {Kind: AltBn128InvalidInput, Text: "x"},
		"ECDSA recover error: x":                                                     {Kind: ECRecoverError, Text: "x"},
		"Yield resume payload is 1025 bytes which exceeds the 1024 byte limit":       {Kind: YieldPayloadLength, A: 1025, B: 1024},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, n := range map[string]uint64{
		"0 B": 0, "999 B": 999, "1.0 KB": 1000, "4.0 MB": 4_000_000, "1.5 KB": 1_549, "10.0 KB": 9_999, "18.4 EB": ^uint64(0),
	} {
		if got := byteSize(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	for k := HostErrorKind(1); k < numHostErrors; k++ {
		if (&HostError{Kind: k}).Error() == "" {
			t.Errorf("no text of kind %d", k)
		}
	}
}

// TestFunctionTableMatchesNearcore compares names, parameters and results with nearcore's
// imports.rs at the newest version.
func TestFunctionTableMatchesNearcore(t *testing.T) {
	counts := map[string]int{}
	for i := range Functions {
		f := &Functions[i]
		if counts[f.Name]++; counts[f.Name] > 1 {
			t.Errorf("the table has %s twice", f.Name)
		}
		if len(f.Results) > 1 || f.call == nil {
			t.Errorf("%s: %+v", f.Name, f)
		}
	}
	signatures := map[string]string{ // signatures with types other than i64
		"abort": "iiii", "gas": "i", "promise_yield_resume": "IIII>i", "promise_yield_resume_with_yield_id": "IIII>i",
	}
	letters := func(types []ValType) (s string) {
		for _, v := range types {
			s += map[ValType]string{I32: "i", I64: "I"}[v]
		}
		return s
	}
	for i := range Functions {
		f := &Functions[i]
		got := letters(f.Params)
		if len(f.Results) == 1 {
			got += ">" + letters(f.Results)
		}
		want, odd := signatures[f.Name]
		if odd && got != want {
			t.Errorf("%s is %s, want %s", f.Name, got, want)
		}
		for _, c := range got {
			if !odd && c == 'i' {
				t.Errorf("%s is %s", f.Name, got)
			}
		}
	}
	if len(Functions) != 89+4+2 {
		t.Errorf("%d functions, want 89, 4 of 87 and 2 of 88", len(Functions))
	}
}

// BenchmarkHost measures a host function without the module.
func BenchmarkHost(b *testing.B) {
	for _, name := range []string{"block_index", "read_register", "write_register", "storage_read", "storage_write", "log_utf8", "sha256"} {
		b.Run("fn="+name, func(b *testing.B) {
			t := &testing.T{}
			r, args := newScenario(t, name, func(r *harness) { r.cfg.Wasm.Limits.MaxGasBurnt, r.c.PrepaidGas = 1<<62, 1<<62 })
			i, _ := Index(name)
			b.ReportAllocs()
			for b.Loop() {
				r.Enter(r.Leave())
				if _, err := r.Invoke(i, args); err != nil {
					b.Fatal(err)
				}
				r.logs, r.logBytes, r.gas.burnt = r.logs[:0], 0, 0
				r.gas.ext = [parameters.NumExtCosts]primitives.Gas{}
			}
		})
	}
}

// BenchmarkCall measures a call without its host functions and its module.
func BenchmarkCall(b *testing.B) {
	t := &testing.T{}
	r, _ := newScenario(t, "block_index")
	b.ReportAllocs()
	for b.Loop() {
		l := New(&r.c, r.w, &r.cfg)
		if err := l.PayLoading(100_000); err != nil {
			b.Fatal(err)
		}
		for c := range parameters.ExtCost(12) {
			if err := l.gas.pay(c); err != nil {
				b.Fatal(err)
			}
		}
		l.Enter(l.Leave() - 1_000_000)
		if _, err := l.Outcome(); err != nil {
			b.Fatal(err)
		}
	}
}
