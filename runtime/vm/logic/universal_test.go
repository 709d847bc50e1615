package logic

import (
	"bytes"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// Account ids of near-vm-runner 0.38.0 src/logic/tests/miscs.rs: that of ten zero bytes, which are
// the smallest state init, and that of three sevens, which are not a state init.
const (
	emptyInitID   = "0u1kajgpx8a97y8ap8y03pvt8kbm2p2cn9k5h17bgw1wa21j88865g"
	garbageInitID = "0ux21v0ayd887nt762sfhvgfbv9q46vcgsw2s5x5mapcdx6b1x89sg"
)

// TestUniversalStateInitToAccountIDIsDerived: near-vm-runner 0.38.0 src/logic/tests/miscs.rs
// test_universal_state_init_to_account_id, .._from_register.
func TestUniversalStateInitToAccountIDIsDerived(t *testing.T) {
	r := newHarness(t)
	s := r.put(make([]byte, 10))
	if status := r.must("universal_state_init_to_account_id", s.len, s.ptr, 0); status != 0 {
		t.Errorf("status %d", status)
	}
	r.wantReg(0, []byte(emptyInitID))
	const n = uint64(len(emptyInitID))
	r.wantCosts(costs{
		parameters.ExtBase:           2, // of register_len and read_register, by wantReg
		parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: 10, parameters.ExtWriteMemoryBase: 1, parameters.ExtWriteMemoryByte: n,
		parameters.ExtReadRegisterBase: 1, parameters.ExtReadRegisterByte: n, parameters.ExtWriteRegisterBase: 1, parameters.ExtWriteRegisterByte: n,
		parameters.ExtUniversalStateInitToAccountIDBase: 1, parameters.ExtUniversalStateInitToAccountIDByte: 10,
	})
	if err := r.setReg(1, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	r.paid = r.gas.ext
	if status := r.must("universal_state_init_to_account_id", inRegister, 1, 1); status != 0 {
		t.Errorf("status %d", status)
	}
	r.wantCosts(costs{
		parameters.ExtReadRegisterBase: 1, parameters.ExtReadRegisterByte: 10, parameters.ExtWriteRegisterBase: 1, parameters.ExtWriteRegisterByte: n,
		parameters.ExtUniversalStateInitToAccountIDBase: 1, parameters.ExtUniversalStateInitToAccountIDByte: 10,
	})
	r.wantReg(1, []byte(emptyInitID))
}

// TestInvalidUniversalStateInitHasNoAccountID: the size is paid for, and the register is not
// changed (miscs.rs test_universal_state_init_to_account_id_rejects_invalid,
// .._before_canonical..).
func TestInvalidUniversalStateInitHasNoAccountID(t *testing.T) {
	for _, test := range []struct {
		name   string
		init   []byte
		status uint64
	}{
		{"garbage", []byte{7, 7, 7}, 1},
		{"nothing", nil, 1},
		{"more than it is", make([]byte, 11), 1},
		{"the same entry twice", []byte{0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newHarness(t)
			s := r.put(test.init)
			if status := r.must("universal_state_init_to_account_id", s.len, s.ptr, 0); status != test.status {
				t.Errorf("status %d, want %d", status, test.status)
			}
			r.wantCosts(costs{
				parameters.ExtReadMemoryBase: 1, parameters.ExtReadMemoryByte: s.len,
				parameters.ExtUniversalStateInitToAccountIDBase: 1, parameters.ExtUniversalStateInitToAccountIDByte: s.len,
			})
			if r.must("register_len", 0) != inRegister {
				t.Error("the register is set")
			}
		})
	}
	// Before CanonicalUniversalStateInit any bytes have an account id.
	r := newHarness(t, func(r *harness) { r.cfg.Wasm.CanonicalUniversalStateInit = false })
	s := r.put([]byte{7, 7, 7})
	if status := r.must("universal_state_init_to_account_id", s.len, s.ptr, 0); status != 0 {
		t.Errorf("lenient: status %d", status)
	}
	r.wantReg(0, []byte(garbageInitID))
}

// TestUniversalStateInitPaysBeforeDecoding: bytes that are not paid for are not decoded (miscs.rs
// test_universal_state_init_to_account_id_pays_before_checking, promises.rs
// test_promise_batch_action_universal_state_init_pays_before_decoding).
func TestUniversalStateInitPaysBeforeDecoding(t *testing.T) {
	r := newHarness(t, gasLimits(10*tera, 10*tera), func(r *harness) {
		r.cfg.Wasm.Ext[parameters.ExtUniversalStateInitToAccountIDByte] = parameters.GasCost(tera + 1)
	})
	s := r.put(bytes.Repeat([]byte{7}, 10)) // malformed: a check would return a status
	r.fails(HostError{Kind: GasLimitExceeded}, "universal_state_init_to_account_id", s.len, s.ptr, 0)

	r = newHarness(t, gasLimits(10*tera, 10*tera), func(r *harness) {
		r.cfg.Fees.Action[parameters.ActionUniversalStateInitByte].SendNotSIR = parameters.GasCost(tera + 1)
	})
	i, _ := r.batchCreate("rick.test")
	s, amount := r.put(make([]byte, 10)), r.putBalance(0)
	r.fails(HostError{Kind: GasLimitExceeded}, "promise_batch_action_universal_state_init", i, s.len, s.ptr, amount)
	if n := len(r.w.receipts[0].actions); n != 0 {
		t.Errorf("%d actions", n)
	}
	if r.gas.action[parameters.ActionUniversalStateInitEntry] != 0 {
		t.Error("entries are paid for")
	}
}

// TestUniversalStateInitActionIsCharged: near-vm-runner 0.38.0 src/logic/tests/promises.rs:468. The
// mock there counts 2 entries and 1 key in ten bytes. A real state init with that content is
// longer, so the gas of the additional bytes is subtracted.
func TestUniversalStateInitActionIsCharged(t *testing.T) {
	state := primitives.UniversalStateInitV1{
		Data:       []primitives.StateEntry{{Key: []byte("a"), Value: []byte("b")}, {Key: []byte("c"), Value: []byte("d")}},
		AccessKeys: []primitives.PublicKeyHandle{primitives.MustParsePublicKey(testKey).Handle()},
	}
	init := state.Encode()
	more := uint64(len(init) - 10)

	r := newHarness(t)
	i, _ := r.batchCreate("rick.test")
	s, amount := r.put(init), r.putBalance(110)
	r.fails(HostError{Kind: InvalidPromiseIndex, A: 123}, "promise_batch_action_universal_state_init", 123, s.len, s.ptr, amount)
	joint := r.must("promise_and", r.putIndex(i), 1)
	r.fails(HostError{Kind: CannotAppendActionToJointPromise}, "promise_batch_action_universal_state_init", joint, s.len, s.ptr, amount)
	reading := 3 * more * uint64(r.cfg.Wasm.Ext[parameters.ExtReadMemoryByte].Gas)
	r.paid = r.gas.ext
	r.must("promise_batch_action_universal_state_init", i, s.len, s.ptr, amount)
	r.wantCosts(costs{parameters.ExtBase: 1, parameters.ExtReadMemoryBase: 2, parameters.ExtReadMemoryByte: s.len + 16})
	for c, want := range map[parameters.ActionCost]primitives.Gas{
		parameters.ActionUniversalStateInitBase:  500_000_000_000,
		parameters.ActionUniversalStateInitByte:  78_000_000 * primitives.Gas(s.len),
		parameters.ActionAddFullAccessKey:        101_765_125_000,
		parameters.ActionUniversalStateInitEntry: 2 * 3_100_000_000,
	} {
		if got := r.gas.action[c]; got != want {
			t.Errorf("%v: %d, want %d", c, got, want)
		}
	}
	r.wantUsed(8_787_442_525_081 + reading + more*(78_000_000+74_000_000))
	actions := r.w.receipts[0].actions
	if len(actions) != 1 {
		t.Fatalf("%d actions", len(actions))
	}
	a, ok := actions[0].(*primitives.UniversalStateInit)
	if !ok || !bytes.Equal(a.Init, init) || a.Deposit != primitives.Yocto(110) {
		t.Errorf("action %+v", actions[0])
	}
	r.Memory[s.ptr]++ // the action has its own copy of the bytes
	if !bytes.Equal(a.Init, init) {
		t.Error("the action shares the contract's memory")
	}
}

// TestNonCanonicalStateInitPaysUpperBound: bytes that are not canonical are charged for the most
// entries that their length allows. Without CanonicalUniversalStateInit the charge does not depend
// on that.
func TestNonCanonicalStateInitPaysUpperBound(t *testing.T) {
	for _, test := range []struct {
		name          string
		init          []byte
		strict        bool
		entries, keys primitives.Gas
	}{
		{"5000 bytes of garbage", bytes.Repeat([]byte{0xaa}, 5000), true, 625, 152},
		{"nothing", nil, true, 0, 0},
		{"11 zeros", make([]byte, 11), true, 1, 1},
		{"the smallest", make([]byte, 10), true, 0, 0},
		{"5000 bytes of garbage, lenient", bytes.Repeat([]byte{0xaa}, 5000), false, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newHarness(t, gasLimits(1000*tera, 1000*tera), func(r *harness) { r.cfg.Wasm.CanonicalUniversalStateInit = test.strict })
			i, _ := r.batchCreate("rick.test")
			s, amount := r.put(test.init), r.putBalance(1)
			r.must("promise_batch_action_universal_state_init", i, s.len, s.ptr, amount)
			entries := r.gas.action[parameters.ActionUniversalStateInitEntry] / 3_100_000_000
			keys := r.gas.action[parameters.ActionAddFullAccessKey] / 101_765_125_000
			if entries != test.entries || keys != test.keys {
				t.Errorf("%d entries and %d keys, want %d and %d", entries, keys, test.entries, test.keys)
			}
		})
	}
}

// TestInvalidGasKeyFeeCountsDecodedBytes: in the published releases the fees count the decoded key,
// which has no bytes if it is invalid; the June build counts the given length.
func TestInvalidGasKeyFeeCountsDecodedBytes(t *testing.T) {
	for _, test := range []struct {
		version parameters.Version
		bytes   uint64 // of the key
	}{{parameters.June(86), 40}, {parameters.Release(86), 0}, {parameters.Release(87), 0}} {
		r := newHarness(t, func(r *harness) { r.cfg.Version = test.version })
		i, _ := r.batchCreate("rick.test")
		k, amount := r.put(bytes.Repeat([]byte{9}, 40)), r.putBalance(0)
		r.fails(HostError{Kind: InvalidPublicKey}, "promise_batch_action_transfer_to_gas_key", i, k.len, k.ptr, amount)
		if got := r.gas.action[parameters.ActionGasKeyByte]; got != 59_357_464*primitives.Gas(test.bytes) {
			t.Errorf("%v: gas_key_byte %d, want that of %d bytes", test.version, got, test.bytes)
		}
	}
}

// TestProfileNamesOfLaterCostsMatch compares the names of ext costs 88 to 97 and action costs 26 to
// 28 with nearcore's metadata (near-parameters 0.38.0 src/cost.rs:369, 424).
func TestProfileNamesOfLaterCostsMatch(t *testing.T) {
	r := newHarness(t)
	i, _ := r.batchCreate("rick.test")
	s, amount := r.put(make([]byte, 11)), r.putBalance(0) // not canonical: charged as an entry and a key
	for _, hash := range []string{"sha3_256", "sha3_384", "sha3_512"} {
		r.must(hash, s.len, s.ptr, 0)
	}
	sig, msg, key := mlDSA65(t)
	a, b, c := r.put(sig), r.put(msg), r.put(key)
	if r.must("ml_dsa_verify", a.len, a.ptr, b.len, b.ptr, c.len, c.ptr) != 1 {
		t.Error("the signature is not valid")
	}
	r.must("universal_state_init_to_account_id", s.len, s.ptr, 0)
	r.must("promise_batch_action_universal_state_init", i, s.len, s.ptr, amount)
	out, err := r.Outcome()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, e := range out.Profile {
		got[e.Category+" "+e.Cost] = true
	}
	for _, want := range []string{
		"WASM_HOST_COST SHA3_256_BASE", "WASM_HOST_COST SHA3_256_BYTE", "WASM_HOST_COST SHA3_384_BASE", "WASM_HOST_COST SHA3_384_BYTE",
		"WASM_HOST_COST SHA3_512_BASE", "WASM_HOST_COST SHA3_512_BYTE", "WASM_HOST_COST ML_DSA_VERIFY_BASE", "WASM_HOST_COST ML_DSA_VERIFY_BYTE",
		"WASM_HOST_COST UNIVERSAL_STATE_INIT_TO_ACCOUNT_ID_BASE", "WASM_HOST_COST UNIVERSAL_STATE_INIT_TO_ACCOUNT_ID_BYTE",
		"ACTION_COST UNIVERSAL_STATE_INIT_BASE", "ACTION_COST UNIVERSAL_STATE_INIT_BYTE", "ACTION_COST UNIVERSAL_STATE_INIT_ENTRY",
	} {
		if !got[want] {
			t.Errorf("the profile lacks %s", want)
		}
	}
	for cost, n := range map[parameters.ExtCost]parameters.ExtCost{
		parameters.ExtSHA3x256Base: 88, parameters.ExtMLDSAVerifyByte: 95, parameters.ExtUniversalStateInitToAccountIDByte: 97,
	} {
		if cost != n {
			t.Errorf("%v is number %d, want %d", cost, uint8(cost), uint8(n))
		}
	}
	if n := parameters.ActionUniversalStateInitEntry; n != 28 {
		t.Errorf("universal_state_init_entry is number %d, want 28", uint8(n))
	}
}
