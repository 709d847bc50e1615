package logic

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Tests of nearcore logic/tests/miscs.rs, storage_read_write.rs, storage_usage.rs.

func limit(set func(*parameters.Limits)) func(*harness) {
	return func(r *harness) { set(&r.cfg.Wasm.Limits) }
}

func TestStorageKeyLengthIsLimited(t *testing.T) {
	const n = 1024
	r := newHarness(t, limit(func(l *parameters.Limits) { l.MaxLengthStorageKey = n }))
	r.must("storage_has_key", n, 0)
	r.must("storage_write", n, 0, 5, 0, 0)
	r.must("storage_read", n, 0, 0)
	r.must("storage_remove", n, 0, 0)
	want := HostError{Kind: KeyLengthExceeded, A: n + 1, B: n}
	r.fails(want, "storage_has_key", n+1, 0)
	r.fails(want, "storage_write", n+1, 0, 5, 0, 0)
	r.fails(want, "storage_read", n+1, 0, 0)
	r.fails(want, "storage_remove", n+1, 0, 0)
}

func TestStorageValueLengthIsLimited(t *testing.T) {
	const n = 1024
	r := newHarness(t, limit(func(l *parameters.Limits) { l.MaxLengthStorageValue = n }))
	k := r.putString("hello")
	r.must("storage_write", k.len, k.ptr, n/2, 0, 0)
	r.must("storage_write", k.len, k.ptr, n, 0, 0)
	r.fails(HostError{Kind: ValueLengthExceeded, A: n + 1, B: n}, "storage_write", k.len, k.ptr, n+1, 0, 0)
}

func TestNumberOfPromisesIsLimited(t *testing.T) {
	const n = 10
	r := newHarness(t, limit(func(l *parameters.Limits) { l.MaxPromisesPerFunctionCallAction = n }))
	id := r.putString("alice")
	for range n {
		r.must("promise_batch_create", id.len, id.ptr)
	}
	r.fails(HostError{Kind: NumberPromisesExceeded, A: n + 1, B: n}, "promise_batch_create", id.len, id.ptr)
}

func TestNumberOfJoinedPromisesIsLimited(t *testing.T) {
	const n = 10
	r := newHarness(t, limit(func(l *parameters.Limits) { l.MaxNumberInputDataDependencies = n }))
	id := r.putString("alice")
	i := r.must("promise_batch_create", id.len, id.ptr)
	at := r.putIndex(i)
	for range n {
		r.putIndex(i)
	}
	for k := range uint64(n) {
		r.must("promise_and", at, k)
	}
	want := HostError{Kind: NumberInputDataDependenciesExceeded, A: n + 1, B: n}
	r.fails(want, "promise_and", at, n+1)
	r.fails(HostError{Kind: IntegerOverflow}, "promise_and", at, 1<<61)
}

func TestJoinsOfJoinsAreLimited(t *testing.T) {
	const steps = 10
	r := newHarness(t, limit(func(l *parameters.Limits) { l.MaxNumberInputDataDependencies = 1 << steps }))
	id := r.putString("alice")
	first := r.must("promise_batch_create", id.len, id.ptr)
	i := first
	for range steps - 1 {
		at := r.putIndex(i)
		r.putIndex(i)
		i = r.must("promise_and", at, 2)
	}
	at := r.putIndex(i)
	r.putIndex(i)
	r.must("promise_and", at, 2)
	at = r.putIndex(i)
	r.putIndex(i)
	r.putIndex(first)
	r.fails(HostError{Kind: NumberInputDataDependenciesExceeded, A: 1<<steps + 1, B: 1 << steps}, "promise_and", at, 3)
}

func TestReturnedValueLengthIsLimited(t *testing.T) {
	r := newHarness(t, limit(func(l *parameters.Limits) { l.MaxLengthReturnedData = 1024 }))
	r.must("value_return", 1024, 0)
	r.fails(HostError{Kind: ReturnedValueLengthExceeded, A: 1025, B: 1024}, "value_return", 1025, 0)
	r.Logic.err = nil
	if out, err := r.Outcome(); err != nil || out.Return.Kind != action.ReturnValue || len(out.Return.Value) != 1024 {
		t.Errorf("returned %+v, %v", out.Return, err)
	}
}

func TestDeployedContractSizeIsLimited(t *testing.T) {
	r := newHarness(t, limit(func(l *parameters.Limits) { l.MaxContractSize = 1024 }))
	id := r.putString("alice")
	i := r.must("promise_batch_create", id.len, id.ptr)
	for _, name := range []string{"promise_batch_action_deploy_contract", "promise_batch_action_deploy_global_contract"} {
		r.must(name, i, 1024, 0)
		r.fails(HostError{Kind: ContractSizeExceeded, A: 1025, B: 1024}, name, i, 1025, 0)
	}
}

func TestStorageTakesKeysFromRegisters(t *testing.T) {
	r := newHarness(t)
	for id, s := range map[uint64]string{1: "foo", 2: "bar"} {
		if err := r.setReg(id, []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.must("storage_write", inRegister, 1, inRegister, 2, 0); got != 0 || string(r.w.entries["foo"]) != "bar" {
		t.Errorf("wrote %d, %q", got, r.w.entries)
	}
	if got := r.must("storage_has_key", inRegister, 1); got != 1 {
		t.Errorf("has key: %d", got)
	}
	if got := r.must("storage_read", inRegister, 1, 0); got != 1 {
		t.Errorf("read %d", got)
	}
	r.wantReg(0, []byte("bar"))
	if got := r.must("storage_write", inRegister, 1, inRegister, 1, 1); got != 1 { // the value overwrites the register of the key
		t.Errorf("wrote %d", got)
	}
	r.wantReg(1, []byte("bar"))
	k := r.putString("foo")
	if got := r.must("storage_remove", k.len, k.ptr, 3); got != 1 || len(r.w.entries) != 0 {
		t.Errorf("removed %d", got)
	}
	r.wantReg(3, []byte("foo"))
	for _, name := range []string{"storage_read", "storage_remove"} {
		if got := r.must(name, k.len, k.ptr, 4); got != 0 {
			t.Errorf("%s of nothing: %d", name, got)
		}
	}
	if got := r.must("storage_has_key", k.len, k.ptr); got != 0 {
		t.Errorf("has no key: %d", got)
	}
	if got := r.must("register_len", 4); got != ^uint64(0) {
		t.Errorf("nothing was put into a register: %d bytes", got)
	}
}

func TestStorageUsageFollowsWrites(t *testing.T) {
	r := newHarness(t)
	k, v := r.putString("foo"), r.putString("bar")
	for range 2 {
		r.must("storage_write", k.len, k.ptr, v.len, v.ptr, 0)
		if got := r.must("storage_usage"); got != 46 {
			t.Errorf("usage = %d, want 46", got)
		}
	}
	r.must("storage_write", k.len, k.ptr, 0, 0, 0)
	if got := r.must("storage_usage"); got != 43 {
		t.Errorf("usage of an empty value = %d, want 43", got)
	}
	r.must("storage_remove", k.len, k.ptr, 0)
	if got := r.must("storage_usage"); got != 0 {
		t.Errorf("usage of nothing = %d", got)
	}
	// If the recorded usage of an account is too low, as a patch may set it, removals stop at 0.
	r.w.entries["foo"] = []byte("barbar")
	r.must("storage_write", k.len, k.ptr, v.len, v.ptr, 0)
	if got := r.must("storage_usage"); got != 3 {
		t.Errorf("usage = %d, want 3: the old value was not counted", got)
	}
	r.must("storage_remove", k.len, k.ptr, 0)
	if got := r.must("storage_usage"); got != 0 {
		t.Errorf("removed more than there is: %d", got)
	}
	if _, err := r.Outcome(); err != nil {
		t.Errorf("outcome: %v", err)
	}
}

// TestEachStorageCostIsCharged: evicted bytes, trie nodes and large values are each charged by the
// functions that access them.
func TestEachStorageCostIsCharged(t *testing.T) {
	r := newHarness(t)
	r.w.nodes = action.NodeCount{Touched: 3, Cached: 2}
	k, v := r.putString("ke"), r.putString("val")
	r.must("storage_write", k.len, k.ptr, v.len, v.ptr, 0)
	write := costs{
		parameters.ExtBase: 1, parameters.ExtStorageWriteBase: 1, parameters.ExtReadMemoryBase: 2, parameters.ExtReadMemoryByte: 5,
		parameters.ExtStorageWriteKeyByte: 2, parameters.ExtStorageWriteValueByte: 3, parameters.ExtTouchingTrieNode: 3, parameters.ExtReadCachedTrieNode: 2,
	}
	r.wantCosts(write)
	r.must("storage_write", k.len, k.ptr, v.len, v.ptr, 0)
	write[parameters.ExtStorageWriteEvictedByte] = 3
	write[parameters.ExtWriteRegisterBase], write[parameters.ExtWriteRegisterByte] = 1, 3
	r.wantCosts(write)
	for n, large := range map[int]uint64{4000: 0, 4001: 1} {
		r.w.entries["ke"] = make([]byte, n)
		r.must("storage_read", k.len, k.ptr, 0)
		r.wantCosts(costs{
			parameters.ExtBase: 1, parameters.ExtStorageReadBase: 1, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 2,
			parameters.ExtStorageReadKeyByte: 2, parameters.ExtStorageReadValueByte: uint64(n), parameters.ExtWriteRegisterBase: 1,
			parameters.ExtWriteRegisterByte: uint64(n), parameters.ExtStorageLargeReadOverheadBase: large,
			parameters.ExtStorageLargeReadOverheadByte: large * uint64(n),
		})
	}
	r.must("storage_has_key", k.len, k.ptr)
	r.wantCosts(costs{
		parameters.ExtBase: 1, parameters.ExtStorageHasKeyBase: 1, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 2, parameters.ExtStorageHasKeyByte: 2,
	})
	r.w.entries["ke"] = []byte("val")
	r.must("storage_remove", k.len, k.ptr, 0)
	r.wantCosts(costs{
		parameters.ExtBase: 1, parameters.ExtStorageRemoveBase: 1, parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 2,
		parameters.ExtStorageRemoveKeyByte: 2, parameters.ExtStorageRemoveRetValueByte: 3, parameters.ExtTouchingTrieNode: 3,
		parameters.ExtReadCachedTrieNode: 2, parameters.ExtWriteRegisterBase: 1, parameters.ExtWriteRegisterByte: 3,
	})
}

// TestEveryAccessCountsAsRecordedStorage: every access can exceed the limit of recorded storage,
// also one of a missing key.
func TestEveryAccessCountsAsRecordedStorage(t *testing.T) {
	for _, name := range []string{"storage_write", "storage_read", "storage_remove", "storage_has_key"} {
		r := newHarness(t)
		max := r.cfg.Wasm.Limits.PerReceiptStorageProofSizeLimit
		i, _ := Index(name)
		args := make([]uint64, len(Functions[i].Params))
		r.w.grow = max
		r.must(name, args...)
		r.w.grow = 1
		r.fails(HostError{Kind: RecordedStorageExceeded, B: max}, name, args...)
		const want = "Size of the recorded trie storage proof has exceeded the allowed limit (4.0 MB)"
		if out, _ := r.Outcome(); out.Err == nil || out.Err.Message != want {
			t.Errorf("%s: %v", name, out.Err)
		}
	}
}

// TestStateErrorIsNotAnOutcome: an error of the state is returned by Outcome and is not a failed
// outcome.
func TestStateErrorIsNotAnOutcome(t *testing.T) {
	broken := errors.New("missing node")
	for _, name := range []string{"storage_write", "storage_read", "storage_remove", "storage_has_key"} {
		r := newHarness(t)
		r.w.broken = broken
		i, _ := Index(name)
		if _, err := r.do(name, make([]uint64, len(Functions[i].Params))...); !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := r.Outcome(); !errors.Is(err, broken) {
			t.Errorf("%s: outcome %v", name, err)
		}
	}
}

// TestYieldAndResumeMatchNearcore: nearcore logic/tests/yield_resume.rs.
func TestYieldAndResumeMatchNearcore(t *testing.T) {
	r := newHarness(t, free)
	method, none, args := r.putString("callback"), r.putString(""), r.putString("args")
	id, short := r.put(make([]byte, 32)), r.put(make([]byte, 16))
	payload, large := r.putString("payload"), slice{0, 1025}
	zero := r.putBalance(0)
	const create, createID, resume, resumeID = "promise_yield_create", "promise_yield_create_with_id", "promise_yield_resume", "promise_yield_resume_with_yield_id"
	r.fails(HostError{Kind: EmptyMethodName}, create, none.len, none.ptr, args.len, args.ptr, 0, 1, 0)
	r.fails(HostError{Kind: EmptyMethodName}, createID, none.len, none.ptr, args.len, args.ptr, zero, 0, 1, id.len, id.ptr)
	r.fails(HostError{Kind: YieldIDMalformed}, createID, method.len, method.ptr, args.len, args.ptr, zero, 0, 1, short.len, short.ptr)
	r.fails(HostError{Kind: DataIDMalformed}, resume, short.len, short.ptr, payload.len, payload.ptr)
	r.fails(HostError{Kind: YieldIDMalformed}, resumeID, short.len, short.ptr, payload.len, payload.ptr)
	r.fails(HostError{Kind: YieldPayloadLength, A: 1025, B: 1024}, resume, short.len, short.ptr, large.len, large.ptr)

	if got := r.must(resumeID, id.len, id.ptr, payload.len, payload.ptr); got != 0 {
		t.Errorf("resumed an unknown yield: %d", got)
	}
	i := r.must(create, method.len, method.ptr, args.len, args.ptr, 5, 6, 3)
	if i != 0 || r.must("register_len", 3) != 32 {
		t.Errorf("yield is promise %d", i)
	}
	if got := r.must(resume, inRegister, 3, payload.len, payload.ptr); got != 1 || string(r.w.resumed[0].Data) != "payload" {
		t.Errorf("resumed %d, %+v", got, r.w.resumed)
	}
	i = r.must(createID, method.len, method.ptr, args.len, args.ptr, zero, 7, 8, id.len, id.ptr)
	if i != 1 {
		t.Errorf("yield with an id is promise %d", i)
	}
	if got := r.must(createID, method.len, method.ptr, args.len, args.ptr, zero, 7, 8, id.len, id.ptr); got != noYield {
		t.Errorf("yield with the same id: %d", got)
	}
	if got := r.must(resumeID, id.len, id.ptr, payload.len, payload.ptr); got != 1 {
		t.Errorf("resumed by id: %d", got)
	}
	for n, gas := range []primitives.Gas{5, 7} {
		call := r.w.receipts[n].actions[0].(*primitives.FunctionCall)
		if call.Method != "callback" || string(call.Args) != "args" || call.Gas != gas || r.w.receipts[n].weights[0] != uint64(6+2*n) {
			t.Errorf("call %+v, weight %d", call, r.w.receipts[n].weights)
		}
	}
	if got := r.gas.promises; got != 12 {
		t.Errorf("promises have %d gas, want 12", got)
	}
}

func TestYieldDepositNeedsBalance(t *testing.T) {
	for _, test := range []struct {
		name             string
		balance, deposit uint64
		rule             bool
		err              error
		left, subsidized uint64
	}{
		{"enough", 100, 25, true, nil, 75, 0},
		{"too little", 10, 100, true, fail(BalanceExceeded), 10, 0},
		{"nothing of nothing", 0, 0, true, nil, 0, 0},
		{"one of nothing", 0, 1, true, nil, 0, 1},
		{"two of nothing", 0, 2, true, fail(BalanceExceeded), 0, 0},
		{"one of nothing without the rule", 0, 1, false, fail(BalanceExceeded), 0, 0},
		{"one of one", 1, 1, true, nil, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newHarness(t, free, func(r *harness) {
				r.c.Balance, r.c.Deposit, r.cfg.Wasm.OneYoctoOnPromise = primitives.Yocto(test.balance), primitives.Balance{}, test.rule
			})
			method, args, id, amount := r.putString("callback"), r.putString("args"), r.put(make([]byte, 32)), r.putBalance(test.deposit)
			_, err := r.do("promise_yield_create_with_id", method.len, method.ptr, args.len, args.ptr, amount, 0, 1, id.len, id.ptr)
			if err != test.err || r.balance != primitives.Yocto(test.left) || r.subsidized != primitives.Yocto(test.subsidized) {
				t.Errorf("%v, balance %v, subsidized %v", err, r.balance, r.subsidized)
			}
		})
	}
}

// TestResumePayloadIsPaidByLength: the payload is paid for by the given length, so it can never be
// in a register.
func TestResumePayloadIsPaidByLength(t *testing.T) {
	r := newHarness(t)
	id := r.put(make([]byte, 32))
	r.must("promise_yield_resume", id.len, id.ptr, 3, 0)
	r.wantCosts(costs{
		parameters.ExtBase: 1, parameters.ExtYieldResumeBase: 1, parameters.ExtYieldResumeByte: 3, parameters.ExtReadMemoryBase: 2, parameters.ExtReadMemoryByte: 35,
	})
	if err := r.setReg(0, binary.LittleEndian.AppendUint64(nil, 7)); err != nil {
		t.Fatal(err)
	}
	r.fails(HostError{Kind: IntegerOverflow}, "promise_yield_resume", id.len, id.ptr, inRegister, 0)
}
