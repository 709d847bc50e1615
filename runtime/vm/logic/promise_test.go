package logic

import (
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Tests of nearcore logic/tests/promises.rs: the exact gas of every action, and the resulting
// receipts.

const testKey = "ed25519:5do5nkAEVhL8iteDvXNgxi4pWK78Y7DDadX11ArFNyrf"

func (r *harness) putKey() slice { return r.putString(string(primitives.MustParsePublicKey(testKey))) }

func (r *harness) promiseCreate(to string, amount, gas uint64) (uint64, error) {
	id, method, args := r.putString(to), r.putString("promise_create"), r.putString("args")
	return r.do("promise_create", id.len, id.ptr, method.len, method.ptr, args.len, args.ptr, r.putBalance(amount), gas)
}

func (r *harness) batchCreate(to string) (uint64, error) {
	id := r.putString(to)
	return r.do("promise_batch_create", id.len, id.ptr)
}

func (r *harness) batchCall(promise, amount, gas uint64) error {
	return r.batchCallOf(promise, "promise_batch_action", "promise_batch_action_args", amount, gas)
}

func (r *harness) batchCallOf(promise uint64, name, in string, amount, gas uint64) error {
	method, args := r.putString(name), r.putString(in)
	_, err := r.do("promise_batch_action_function_call", promise, method.len, method.ptr, args.len, args.ptr, r.putBalance(amount), gas)
	return err
}

func (r *harness) batchCallWeight(promise, amount, gas, weight uint64) error {
	method, args := r.putString("promise_batch_action"), r.putString("promise_batch_action_args")
	_, err := r.do("promise_batch_action_function_call_weight", promise, method.len, method.ptr, args.len, args.ptr, r.putBalance(amount), gas, weight)
	return err
}

func (r *harness) addCallKeyOf(name string, promise uint64, key string, nonce, allowance uint64, receiver, names string) error {
	k, to, amount, methods := r.putString(key), r.putString(receiver), r.putBalance(allowance), r.putString(names)
	_, err := r.do(name, promise, k.len, k.ptr, nonce, amount, to.len, to.ptr, methods.len, methods.ptr)
	return err
}

var firstCall = &primitives.FunctionCall{Method: "promise_create", Args: []byte("args")}

// wantActions compares the actions of receipt 0 after the call that promiseCreate added.
func (r *harness) wantActions(want ...primitives.Action) {
	r.t.Helper()
	got := r.w.receipts[0]
	if got.receiver != "rick.test" || !reflect.DeepEqual(got.actions, append([]primitives.Action{firstCall}, want...)) {
		r.t.Errorf("receipt to %s with %d actions, the last %+v", got.receiver, len(got.actions), got.actions[len(got.actions)-1])
	}
}

// TestEachActionIsAppendedAndCharged appends each action to a promise that does not exist, to a
// joint one, and to a valid one. The used gas includes all three attempts.
func TestEachActionIsAppendedAndCharged(t *testing.T) {
	key := primitives.MustParsePublicKey(testKey)
	hash := primitives.HashBytes([]byte("arbitrary"))
	allowance := primitives.Yocto(999)
	permission := &primitives.FunctionCallPermission{Allowance: &allowance, ReceiverID: "sam", MethodNames: []string{"foo", "bar"}}
	tests := []struct {
		name    string
		prepare func(r *harness) func(promise uint64) error
		used    uint64 // 0: nearcore's test does not check it
		want    primitives.Action
	}{
		{"function_call", func(r *harness) func(uint64) error {
			return func(p uint64) error { return r.batchCall(p, 0, 0) }
		}, 0, &primitives.FunctionCall{Method: "promise_batch_action", Args: []byte("promise_batch_action_args")}},
		{"create_account", func(r *harness) func(uint64) error {
			return func(p uint64) error { _, err := r.do("promise_batch_action_create_account", p); return err }
		}, 12_578_263_688_564, &primitives.CreateAccount{}},
		{"deploy_contract", func(r *harness) func(uint64) error {
			code := r.putString("sample")
			return func(p uint64) error {
				_, err := r.do("promise_batch_action_deploy_contract", p, code.len, code.ptr)
				return err
			}
		}, 5_255_774_958_146, &primitives.DeployContract{Code: []byte("sample")}},
		{"deploy_global_contract", func(r *harness) func(uint64) error {
			code := r.putString("sample")
			return func(p uint64) error {
				_, err := r.do("promise_batch_action_deploy_global_contract", p, code.len, code.ptr)
				return err
			}
		}, 5_256_154_080_152, &primitives.DeployGlobalContract{Code: []byte("sample")}},
		{"stake", func(r *harness) func(uint64) error {
			k, amount := r.putKey(), r.putBalance(110)
			return func(p uint64) error {
				_, err := r.do("promise_batch_action_stake", p, amount, k.len, k.ptr)
				return err
			}
		}, 5_138_414_976_215, &primitives.Stake{Stake: primitives.Yocto(110), PublicKey: key}},
		{"add_key_with_function_call", func(r *harness) func(uint64) error {
			return func(p uint64) error {
				return r.addCallKeyOf("promise_batch_action_add_key_with_function_call", p, string(key), 1, 999, "sam", "foo,bar")
			}
		}, 5_126_680_499_695, &primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{Nonce: 1, FunctionCall: permission}}},
		{"add_gas_key_with_full_access", func(r *harness) func(uint64) error {
			return func(p uint64) error {
				k := r.putKey()
				_, err := r.do("promise_batch_action_add_gas_key_with_full_access", p, k.len, k.ptr, 4)
				return err
			}
		}, 0, &primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{GasKey: &primitives.GasKeyInfo{NumNonces: 4}}}},
		{"add_gas_key_with_function_call", func(r *harness) func(uint64) error {
			return func(p uint64) error {
				return r.addCallKeyOf("promise_batch_action_add_gas_key_with_function_call", p, string(key), 2, 999, "sam", "foo,bar")
			}
		}, 0, &primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{
			FunctionCall: permission, GasKey: &primitives.GasKeyInfo{NumNonces: 2},
		}}},
		{"use_global_contract_by_account_id", func(r *harness) func(uint64) error {
			id := r.putString("global.near")
			return func(p uint64) error {
				_, err := r.do("promise_batch_action_use_global_contract_by_account_id", p, id.len, id.ptr)
				return err
			}
		}, 0, &primitives.UseGlobalContract{ID: primitives.GlobalContractID{Account: "global.near"}}},
		{"delete_key", func(r *harness) func(uint64) error {
			k := r.putKey()
			return func(p uint64) error { _, err := r.do("promise_batch_action_delete_key", p, k.len, k.ptr); return err }
		}, 0, &primitives.DeleteKey{PublicKey: key}},
		{"add_key_with_full_access", func(r *harness) func(uint64) error {
			k := r.putKey()
			return func(p uint64) error {
				_, err := r.do("promise_batch_action_add_key_with_full_access", p, k.len, k.ptr, 7)
				return err
			}
		}, 0, &primitives.AddKey{PublicKey: key, AccessKey: primitives.AccessKey{Nonce: 7}}},
		{"delete_account", func(r *harness) func(uint64) error {
			id := r.putString("heir.near")
			return func(p uint64) error {
				_, err := r.do("promise_batch_action_delete_account", p, id.len, id.ptr)
				return err
			}
		}, 0, &primitives.DeleteAccount{Beneficiary: "heir.near"}},
		{"deploy_global_contract_by_account_id", func(r *harness) func(uint64) error {
			code := r.putString("sample")
			return func(p uint64) error {
				_, err := r.do("promise_batch_action_deploy_global_contract_by_account_id", p, code.len, code.ptr)
				return err
			}
		}, 0, &primitives.DeployGlobalContract{Code: []byte("sample"), Mode: primitives.GlobalByAccountID}},
		{"state_init", func(r *harness) func(uint64) error {
			h, amount := r.put(hash[:]), r.putBalance(0)
			return func(p uint64) error {
				i, err := r.do("promise_batch_action_state_init", p, h.len, h.ptr, amount)
				if err == nil && i != 1 {
					r.t.Errorf("state init is action %d", i)
				}
				return err
			}
		}, 0, &primitives.DeterministicStateInit{Init: primitives.StateInit{Code: primitives.GlobalContractID{Hash: hash}}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newHarness(t)
			i, err := r.promiseCreate("rick.test", 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			at := r.putIndex(i)
			do := test.prepare(r)
			if err := do(123); err == nil || err.Error() != "123 does not correspond to existing promises" {
				t.Errorf("no promise: %v", err)
			}
			joint := r.must("promise_and", at, 1)
			if err := do(joint); err != fail(CannotAppendActionToJointPromise) {
				t.Errorf("joint promise: %v", err)
			}
			if err := do(i); err != nil {
				t.Fatal(err)
			}
			if test.used != 0 {
				r.wantUsed(test.used)
			}
			r.wantActions(test.want)
		})
	}
}

func TestUseGlobalContractIsAppended(t *testing.T) {
	r := newHarness(t)
	i, _ := r.promiseCreate("rick.test", 0, 0)
	at := r.putIndex(i)
	hash := primitives.HashBytes([]byte("arbitrary"))
	h, bad := r.put(hash[:]), r.putString("not a valid CryptoHash repr")
	const name = "promise_batch_action_use_global_contract"
	r.fails(HostError{Kind: InvalidPromiseIndex, A: 123}, name, 123, h.len, h.ptr)
	joint := r.must("promise_and", at, 1)
	r.fails(HostError{Kind: CannotAppendActionToJointPromise}, name, joint, h.len, h.ptr)
	r.fails(HostError{Kind: ContractCodeHashMalformed}, name, 123, bad.len, bad.ptr)
	r.must(name, i, h.len, h.ptr)
	r.wantUsed(5_262_559_186_522)
	r.wantActions(&primitives.UseGlobalContract{ID: primitives.GlobalContractID{Hash: hash}})
	id := r.putString("not a valid account id")
	r.fails(HostError{Kind: InvalidAccountID}, name+"_by_account_id", i, id.len, id.ptr)
}

func TestTransferIsAppendedWithinBalance(t *testing.T) {
	r := newHarness(t)
	i, _ := r.promiseCreate("rick.test", 0, 0)
	at := r.putIndex(i)
	all, one := r.putBalance(110), r.putBalance(1)
	const name = "promise_batch_action_transfer"
	r.fails(HostError{Kind: InvalidPromiseIndex, A: 123}, name, 123, all)
	joint := r.must("promise_and", at, 1)
	r.fails(HostError{Kind: CannotAppendActionToJointPromise}, name, joint, all)
	r.must(name, i, all)
	r.fails(HostError{Kind: BalanceExceeded}, name, i, one)
	r.wantUsed(5_349_703_444_787)
	r.wantActions(&primitives.Transfer{Deposit: primitives.Yocto(110)})
}

func TestTransferToGasKeyIsAppended(t *testing.T) {
	r := newHarness(t)
	i, _ := r.promiseCreate("rick.test", 0, 0)
	k := r.putKey()
	at := r.putIndex(i)
	all, one := r.putBalance(110), r.putBalance(1)
	const name = "promise_batch_action_transfer_to_gas_key"
	r.fails(HostError{Kind: InvalidPromiseIndex, A: 123}, name, 123, k.len, k.ptr, all)
	joint := r.must("promise_and", at, 1)
	r.fails(HostError{Kind: CannotAppendActionToJointPromise}, name, joint, k.len, k.ptr, all)
	r.must(name, i, k.len, k.ptr, all)
	r.fails(HostError{Kind: BalanceExceeded}, name, i, k.len, k.ptr, one)
	r.wantActions(&primitives.TransferToGasKey{PublicKey: primitives.MustParsePublicKey(testKey), Deposit: primitives.Yocto(110)})
}

func TestPromiseThenFollowsEarlierReceipt(t *testing.T) {
	r := newHarness(t)
	i, _ := r.promiseCreate("rick.test", 0, 0)
	id, at := r.putString("rick.test"), r.putIndex(i)
	r.fails(HostError{Kind: InvalidPromiseIndex, A: 123}, "promise_batch_then", 123, id.len, id.ptr)
	joint := r.must("promise_and", at, 1)
	r.must("promise_batch_then", joint, id.len, id.ptr)
	r.must("promise_batch_then", i, id.len, id.ptr)
	r.wantUsed(24_124_999_601_771)
	r.wantActions()
	for _, got := range r.w.receipts[1:] {
		if got.receiver != "rick.test" || len(got.after) != 1 || got.after[0] != 0 {
			t.Errorf("receipt %+v", got)
		}
	}
	if len(r.w.receipts) != 3 {
		t.Errorf("%d receipts", len(r.w.receipts))
	}
}

func TestStateInitEntriesAreUniqueAndCharged(t *testing.T) {
	r := newHarness(t)
	i, _ := r.batchCreate("rick.test")
	r.wantCosts(costs{
		parameters.ExtBase: 1, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 9, parameters.ExtUTF8DecodingBase: 1, parameters.ExtUTF8DecodingByte: 9,
	})
	id, key, value, amount := r.putString("global.near"), r.putString("key"), r.putString("value"), r.putBalance(110)
	for n, s := range []string{"key2", "value2"} {
		if err := r.setReg(uint64(n), []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	r.paid = r.gas.ext
	at := r.must("promise_batch_action_state_init_by_account_id", i, id.len, id.ptr, amount)
	r.wantCosts(costs{
		parameters.ExtBase: 1, parameters.ExtReadMemoryBase: 2, parameters.ExtReadMemoryByte: id.len + 16, parameters.ExtUTF8DecodingBase: 1,
		parameters.ExtUTF8DecodingByte: id.len,
	})
	const name = "set_state_init_data_entry"
	r.must(name, i, at, key.len, key.ptr, value.len, value.ptr)
	r.wantCosts(costs{parameters.ExtBase: 1, parameters.ExtReadMemoryBase: 2, parameters.ExtReadMemoryByte: 8})
	r.must(name, i, at, inRegister, 0, inRegister, 1)
	r.wantCosts(costs{parameters.ExtBase: 1, parameters.ExtReadRegisterBase: 2, parameters.ExtReadRegisterByte: 10})
	r.wantUsed(8_586_074_959_513)
	for c, want := range map[parameters.ActionCost]primitives.Gas{
		parameters.ActionDeterministicStateInitBase: 3_850_000_000_000, parameters.ActionDeterministicStateInitEntry: 0,
		parameters.ActionDeterministicStateInitByte: 1_296_000_000, parameters.ActionNewActionReceipt: 108_059_500_000,
	} {
		if got := r.gas.action[c]; got != want {
			t.Errorf("%v = %d, want %d", c, got, want)
		}
	}
	want := &primitives.DeterministicStateInit{Deposit: primitives.Yocto(110), Init: primitives.StateInit{
		Code: primitives.GlobalContractID{Account: "global.near"},
		Data: []primitives.StateEntry{{Key: []byte("key"), Value: []byte("value")}, {Key: []byte("key2"), Value: []byte("value2")}},
	}}
	if got := r.w.receipts[0].actions; len(got) != 1 || !reflect.DeepEqual(got[0], want) {
		t.Errorf("actions = %+v", got)
	}
	r.fails(HostError{Kind: DataEntryAlreadyExists}, name, i, at, key.len, key.ptr, value.len, value.ptr)
	r.fails(HostError{Kind: InvalidActionIndex, A: 0, B: 1}, name, i, 1, key.len, key.ptr, value.len, value.ptr)
	r.fails(HostError{Kind: InvalidActionIndex, A: 0, B: 1 << 63}, name, i, 1<<63, key.len, key.ptr, value.len, value.ptr)
	r.fails(HostError{Kind: InvalidPromiseIndex, A: 9}, name, 9, 0, 0, 1<<40, 0, 0) // fails before the key is read
}

func TestOneYoctoIsSubsidizedOnce(t *testing.T) {
	balance := func(b, deposit uint64) func(*harness) {
		return func(r *harness) { r.c.Balance, r.c.Deposit = primitives.Yocto(b), primitives.Yocto(deposit) }
	}
	r := newHarness(t, balance(0, 0))
	i, _ := r.promiseCreate("rick.test", 0, 0)
	if err := r.batchCallWeight(i, 1, 0, 0); err != nil {
		t.Errorf("one yocto of none: %v", err)
	}
	if err := r.batchCallWeight(i, 2, 0, 0); err != fail(BalanceExceeded) {
		t.Errorf("two yocto of none: %v", err)
	}
	r.fails(HostError{Kind: BalanceExceeded}, "promise_batch_action_transfer", i, r.putBalance(1))
	if r.subsidized != primitives.Yocto(1) {
		t.Errorf("subsidized %v", r.subsidized)
	}

	r = newHarness(t, balance(1, 0))
	i, _ = r.promiseCreate("rick.test", 0, 0)
	if err := r.batchCallWeight(i, 1, 0, 0); err != nil || !r.balance.IsZero() || !r.subsidized.IsZero() {
		t.Errorf("one yocto of one: %v, balance %v, subsidized %v", err, r.balance, r.subsidized)
	}
	if err := r.batchCallWeight(i, 1, 0, 0); err != nil || r.subsidized != primitives.Yocto(1) {
		t.Errorf("one more: %v, subsidized %v", err, r.subsidized)
	}

	r = newHarness(t, balance(0, 0), func(r *harness) { r.cfg.Wasm.OneYoctoOnPromise = false })
	i, _ = r.promiseCreate("rick.test", 0, 0)
	if err := r.batchCallWeight(i, 1, 0, 0); err != fail(BalanceExceeded) {
		t.Errorf("one yocto without the rule: %v", err)
	}
}

func TestRefundToNamesValidAccount(t *testing.T) {
	r := newHarness(t)
	i, _ := r.batchCreate("rick.test")
	id, bad := r.putString("heir.near"), r.putString("X")
	joint := r.must("promise_and", r.putIndex(i), 1)
	const name = "promise_set_refund_to"
	r.must(name, i, id.len, id.ptr)
	if got := r.w.receipts[0].refundTo; got != "heir.near" {
		t.Errorf("refund to %q", got)
	}
	r.fails(HostError{Kind: CannotSetRefundToOnJointPromise}, name, joint, id.len, id.ptr)
	r.fails(HostError{Kind: InvalidPromiseIndex, A: 7}, name, 7, id.len, id.ptr)
	r.fails(HostError{Kind: InvalidAccountID}, name, 7, bad.len, bad.ptr)
}

func TestPromiseReturnNeedsSinglePromise(t *testing.T) {
	r := newHarness(t)
	i, _ := r.batchCreate("rick.test")
	joint := r.must("promise_and", r.putIndex(i), 1)
	r.must("promise_return", i)
	r.fails(HostError{Kind: CannotReturnJointPromise}, "promise_return", joint)
	r.fails(HostError{Kind: InvalidPromiseIndex, A: 2}, "promise_return", 2)
}

// TestInvalidKeyFailsAfterFees: an invalid key fails after the fees, and a method name that is not
// UTF-8 fails after that.
func TestInvalidKeyFailsAfterFees(t *testing.T) {
	r := newHarness(t)
	i, _ := r.batchCreate("rick.test")
	short := r.put(make([]byte, 32))
	before := r.gas.action[parameters.ActionDeleteKey]
	r.fails(HostError{Kind: InvalidPublicKey}, "promise_batch_action_delete_key", i, short.len, short.ptr)
	if got := r.gas.action[parameters.ActionDeleteKey] - before; got != 94_946_625_000 {
		t.Errorf("a bad key burnt %d", got)
	}
	key := string(primitives.MustParsePublicKey(testKey))
	const name = "promise_batch_action_add_key_with_function_call"
	for _, test := range []struct {
		key, names string
		want       HostErrorKind
	}{
		{key, "\xff", InvalidMethodName}, {"", "\xff", InvalidPublicKey}, {key, "a,,b", EmptyMethodName}, {key, ",", EmptyMethodName},
		{key, ",a", EmptyMethodName}, {key, "a,", EmptyMethodName}, {key, "\xc3,\xb8", InvalidMethodName}, {key, ",\xff", EmptyMethodName},
	} {
		if err := r.addCallKeyOf(name, i, test.key, 0, 0, "sam", test.names); err != fail(test.want) {
			t.Errorf("key %x, names %q: %v", test.key, test.names, err)
		}
	}
	if err := r.addCallKeyOf(name, i, key, 0, 0, "sam", ""); err != nil {
		t.Fatal(err)
	}
	p := r.w.receipts[0].actions[0].(*primitives.AddKey).AccessKey.FunctionCall
	if p.Allowance != nil || p.MethodNames != nil {
		t.Errorf("an allowance of 0 and no names: %+v", p)
	}
	if err := r.addCallKeyOf("promise_batch_action_add_gas_key_with_function_call", i, key, 1<<16, 0, "sam", ""); err != fail(IntegerOverflow) {
		t.Errorf("65536 nonces: %v", err)
	}
}

// TestGasKeyFeeCountsDecodedKey: neard's process ends for this call; here the fee counts the
// decoded key (see publicKey).
func TestGasKeyFeeCountsDecodedKey(t *testing.T) {
	inMemory, inReg := newHarness(t), newHarness(t)
	var byteFee [2]primitives.Gas
	for n, r := range []*harness{inMemory, inReg} {
		i, _ := r.batchCreate("rick.test")
		k := r.putKey()
		if n == 1 {
			if err := r.setReg(5, r.Memory[k.ptr:k.ptr+k.len]); err != nil {
				t.Fatal(err)
			}
			k = slice{ptr: 5, len: inRegister}
		}
		r.must("promise_batch_action_add_gas_key_with_full_access", i, k.len, k.ptr, 3)
		r.must("promise_batch_action_transfer_to_gas_key", i, k.len, k.ptr, r.putBalance(1))
		byteFee[n] = r.gas.action[parameters.ActionGasKeyByte]
	}
	if byteFee[0] != byteFee[1] || byteFee[0] == 0 {
		t.Errorf("gas_key_byte of a key in memory %d, in a register %d", byteFee[0], byteFee[1])
	}
	if err := inReg.setReg(6, []byte("none")); err != nil {
		t.Fatal(err)
	}
	inReg.fails(HostError{Kind: InvalidPublicKey}, "promise_batch_action_transfer_to_gas_key", 0, inRegister, 6, inReg.putBalance(1))
	inReg.fails(HostError{Kind: InvalidRegisterID, A: 7}, "promise_batch_action_transfer_to_gas_key", 0, inRegister, 7, inReg.putBalance(1))
}

// TestUnpaidMethodNamesTakeNoMemory: millions of method names from the arguments, whose bytes cost
// nothing to read. Names that are not paid for take no memory, and those that are take little
// memory besides the text.
func TestUnpaidMethodNamesTakeNoMemory(t *testing.T) {
	const n = 2_000_000
	for _, test := range []struct {
		names string
		gas   primitives.Gas
		want  error
		bytes float64 // largest allocation for each name
	}{
		{strings.Repeat("a,", n) + "a", 300 * tera, nil, 25},
		{strings.Repeat("a,", n) + "a", 2 * tera, fail(GasExceeded), 1},
		{strings.Repeat(",", 2*n), 300 * tera, fail(EmptyMethodName), 1},
	} {
		r := newHarness(t, mainnet, func(r *harness) { r.c.Args, r.c.PrepaidGas = []byte(test.names), test.gas })
		i, _ := r.batchCreate("alice")
		r.must("input", 0)
		key, amount, to := r.putKey(), r.putBalance(0), r.putString("sam")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := r.do("promise_batch_action_add_key_with_function_call", i, key.len, key.ptr, 0, amount, to.len, to.ptr, inRegister, 0)
		runtime.ReadMemStats(&after)
		if got := float64(after.TotalAlloc-before.TotalAlloc) / n; err != test.want || got > test.bytes {
			t.Errorf("%d bytes of names with %d gas: %v, %.1f bytes a name, want %v and %.1f", len(test.names), test.gas, err, got, test.want, test.bytes)
		}
		if err == nil {
			if got := r.w.receipts[0].actions[0].(*primitives.AddKey).AccessKey.FunctionCall.MethodNames; len(got) != n+1 || got[n] != "a" {
				t.Errorf("%d names", len(got))
			}
		}
	}
}
