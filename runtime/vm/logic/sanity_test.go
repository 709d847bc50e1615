package logic

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// sanityCall is a call to test-contract.alice.near as nearcore's sanity checks make it
// (integration-tests/src/tests/runtime/ sanity_checks.rs): the fees of 86, 300 Tgas, accounts
// alice.near, bob.near and carol.near.
func sanityCall(args string) func(*harness) {
	return func(r *harness) {
		mainnet(r)
		r.c.CurrentAccount, r.c.SignerAccount, r.c.Predecessor = "test-contract.alice.near", "alice.near", "alice.near"
		r.c.SignerKey = primitives.MustParsePublicKey(testKey)
		r.c.Balance, r.c.Deposit, r.c.Args = primitives.NEAR(500_000_000), primitives.Balance{}, []byte(args)
	}
}

// wantProfile compares the gas profile. As in nearcore's snapshots, costs that depend on the
// compiler are left out: instructions and the bytes of the code.
func (r *harness) wantProfile(test string, want map[string]primitives.Gas) {
	r.t.Helper()
	out, err := r.Outcome()
	if err != nil {
		r.t.Fatalf("%s: %v", test, err)
	}
	seen := 0
	for _, e := range out.Profile {
		if e.Cost == "WASM_INSTRUCTION" || e.Cost == "CONTRACT_LOADING_BYTES" {
			continue
		}
		seen++
		if name := e.Category + " " + e.Cost; e.Gas != want[name] {
			r.t.Errorf("%s: %s = %d, want %d", test, name, e.Gas, want[name])
		}
	}
	if seen != len(want) {
		r.t.Errorf("%s: %d costs, want %d", test, seen, len(want))
	}
}

// TestSanityCheckCostsMatchNearcore makes the host calls of the method sanity_check of nearcore's
// test contract in its order (runtime/near-test-contracts/test-contract-rs/src/lib.rs:1426), and
// those of its callbacks. Expected profiles are from
// integration-tests/src/tests/runtime/snapshots/..receipts_gas_profile.snap, test
// sanity_checks.rs:96, except those of receipts that only load the contract.
func TestSanityCheckCostsMatchNearcore(t *testing.T) {
	trivial := "\x00asm\x01\x00\x00\x00\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x08\x01\x04main\x00\x00\x0a\x04\x01\x02\x00\x0b"
	r := newHarness(t, sanityCall(fmt.Sprintf(`{
            "contract_code": %q,
            "method_name": "main",
            "method_args": "",
            "validator_id": "bob.near"
        }`, base64.StdEncoding.EncodeToString([]byte(trivial)))))
	r.w.validators["bob.near"] = primitives.NEAR(50_000)
	if err := r.PayLoading(1); err != nil {
		t.Fatal(err)
	}
	// Register contents are read into a separate part of the memory.
	read := func(id uint64) slice {
		s := slice{r.at, r.must("register_len", id)}
		r.at += s.len
		r.must("read_register", id, s.ptr)
		return s
	}
	wantIndex := func(want uint64, name string, args ...uint64) {
		t.Helper()
		if got := r.must(name, args...); got != want {
			t.Errorf("%s = %d, want %d", name, got, want)
		}
	}
	r.must("input", 0)
	read(0)
	r.must("current_account_id", 1)
	self := read(1)
	r.must("signer_account_pk", 1)
	key := read(1)
	r.must("signer_account_id", 1)
	r.must("predecessor_account_id", 1)
	for _, name := range []string{"block_index", "block_timestamp", "epoch_height", "storage_usage"} {
		r.must(name)
	}
	sixteen := r.putBalance(0)
	r.must("account_balance", sixteen)
	r.must("attached_deposit", sixteen)
	gas := (r.must("prepaid_gas") - r.must("used_gas")) / 50
	r.must("random_seed", 1)
	value := r.putString("hello")
	r.must("sha256", value.len, value.ptr, 1)
	r.must("value_return", value.len, value.ptr)

	none, zero := r.putString(""), r.putBalance(0)
	call := func(name string) []uint64 {
		method := r.putString(name)
		return []uint64{self.len, self.ptr, method.len, method.ptr, none.len, none.ptr, zero, gas}
	}
	wantIndex(0, "promise_create", call("sanity_check_panic")...)
	wantIndex(1, "promise_create", call("sanity_check_panic_utf8")...)
	r.must("log_utf8", value.len, value.ptr)
	wide := r.put(utf16Bytes("hello"))
	r.must("log_utf16", wide.len, wide.ptr)
	wantIndex(2, "promise_create", call("noop")...)
	wantIndex(3, "promise_then", append([]uint64{2}, call("noop")...)...)
	wantIndex(4, "promise_then", append([]uint64{2}, call("noop")...)...)
	both := r.putIndex(3)
	r.putIndex(4)
	wantIndex(5, "promise_and", both, 2)
	wantIndex(6, "promise_batch_create", self.len, self.ptr)
	wantIndex(7, "promise_batch_then", 4, self.len, self.ptr)

	foo, some, code, method := r.putString("foo.test-contract.alice.near"), r.put(milliNEAR(50)), r.putString(trivial), r.putString("main")
	wantIndex(8, "promise_batch_create", foo.len, foo.ptr)
	r.must("promise_batch_action_create_account", 8)
	r.must("promise_batch_action_transfer", 8, some.ptr)
	r.must("promise_batch_action_deploy_contract", 8, code.len, code.ptr)
	r.must("promise_batch_action_deploy_global_contract", 8, code.len, code.ptr)
	r.must("promise_batch_action_deploy_global_contract_by_account_id", 8, code.len, code.ptr)
	r.must("promise_batch_action_function_call", 8, method.len, method.ptr, none.len, none.ptr, zero, gas)
	r.must("promise_batch_action_function_call_weight", 8, method.len, method.ptr, none.len, none.ptr, zero, 0, 1)
	r.must("promise_batch_action_add_key_with_full_access", 8, key.len, key.ptr, 0)
	r.must("promise_batch_action_delete_key", 8, key.len, key.ptr)
	r.must("promise_batch_action_add_key_with_function_call", 8, key.len, key.ptr, 1, zero, foo.len, foo.ptr, method.len, method.ptr)
	r.must("promise_batch_action_delete_account", 8, self.len, self.ptr)

	bar, stake := r.putString("bar.test-contract.alice.near"), r.put(milliNEAR(30))
	wantIndex(9, "promise_batch_create", bar.len, bar.ptr)
	r.must("promise_batch_action_create_account", 9)
	r.must("promise_batch_action_transfer", 9, some.ptr)
	r.must("promise_batch_action_stake", 9, stake.ptr, key.len, key.ptr)
	wantIndex(10, "promise_create", call("noop")...)
	wantIndex(11, "promise_then", append([]uint64{10}, call("sanity_check_promise_results")...)...)
	r.must("promise_return", 11)

	hi, unused := r.putString("hi"), r.putString("abcdefg")
	// In nearcore's test, each access touches two trie nodes and finds two in its cache.
	r.w.nodes = action.NodeCount{Touched: 2, Cached: 2}
	wantIndex(0, "storage_write", hi.len, hi.ptr, value.len, value.ptr, 1)
	r.w.nodes = action.NodeCount{}
	wantIndex(1, "storage_write", hi.len, hi.ptr, value.len, value.ptr, 1)
	wantIndex(0, "storage_read", unused.len, unused.ptr, 1)
	wantIndex(1, "storage_read", hi.len, hi.ptr, 1)
	wantIndex(0, "storage_has_key", unused.len, unused.ptr)
	wantIndex(1, "storage_has_key", hi.len, hi.ptr)
	wantIndex(0, "storage_remove", unused.len, unused.ptr, 1)
	wantIndex(1, "storage_remove", hi.len, hi.ptr, 1)
	r.must("gas", 1)
	bob := r.putString("bob.near")
	r.must("validator_stake", bob.len, bob.ptr, sixteen)
	r.must("validator_total_stake", sixteen)
	ten := r.putString("AAAAAAAAAA")
	r.must("ripemd160", ten.len, ten.ptr, 1)
	for _, f := range []struct{ name, in string }{
		{"alt_bn128_g1_multiexp", "10ee5ba1f116ac9e8afccad488256ee776dc082d0e997dd9e357eeee1f8ae208eeb90c9b5d7e90f8c8b12ef528a2a95096d39d0d0a242ce8" +
			"ad2020737b02092fbe94b55b4506532841defb4651493c8e82d9b014454b28a729b4f4058ed78723"},
		{"alt_bn128_g1_sum", "000b315e1d986f748af802b8089f50a92d95302031250685" +
			"69abc2782cc311b423899a04c0d3f45dc8022c00401a6c8b9358ebf217fd346eec4363b002bac6e419"},
		{"alt_bn128_pairing_check", "500c04b53dfe99347fe4ae18905feb1ac5bcdb5b042f6262cac75e43d3dfc51541ddb84b45ca0d3806e9d9929f8d74d0" +
			"51e0927c9672dac4c0e9fd1f8298901d2236e552500dc835fec1fa01cd3c26aced1d1252bb627198b8fbdf2a6894fd19" +
			"4f27a512c3a5d79ba8fbfa02d7d6c1acbb5436a81b64a19b905fc7ee58eeca2ef76121384eaeab0ff505799058516685" +
			"76de51d64aa91b5b1b1750372b616518a81d4b88e502374d3cc8e3d2acc2e82d972ef8cec1fa91544eb04ad2006aa81e"},
	} {
		s := r.put(unhex(t, f.in))
		if args := []uint64{s.len, s.ptr, 1}; f.name == "alt_bn128_pairing_check" {
			r.must(f.name, args[:2]...)
		} else {
			r.must(f.name, args...)
		}
	}
	r.wantProfile("sanity_check", map[string]primitives.Gas{
		"ACTION_COST ADD_FULL_ACCESS_KEY": 101_765_125_000, "ACTION_COST ADD_FUNCTION_CALL_KEY_BASE": 102_217_625_000,
		"ACTION_COST ADD_FUNCTION_CALL_KEY_BYTE": 238_418_575, "ACTION_COST CREATE_ACCOUNT": 1_000_000_000_000,
		"ACTION_COST DELETE_ACCOUNT": 147_489_000_000, "ACTION_COST DELETE_KEY": 94_946_625_000,
		"ACTION_COST DEPLOY_CONTRACT_BASE": 184_765_750_000, "ACTION_COST DEPLOY_CONTRACT_BYTE": 1_621_246_310,
		"ACTION_COST DEPLOY_GLOBAL_CONTRACT_BASE": 369_531_500_000, "ACTION_COST DEPLOY_GLOBAL_CONTRACT_BYTE": 3_242_492_620,
		"ACTION_COST FUNCTION_CALL_BASE": 1_800_000_000_000, "ACTION_COST FUNCTION_CALL_BYTE": 571_524_110,
		"ACTION_COST NEW_ACTION_RECEIPT": 1_480_548_358_496, "ACTION_COST STAKE": 141_715_687_500,
		"ACTION_COST TRANSFER": 230_246_125_000, "WASM_HOST_COST ALT_BN128_G1_MULTIEXP_BASE": 713_000_000_000,
		"WASM_HOST_COST ALT_BN128_G1_MULTIEXP_ELEMENT": 320_000_000_000, "WASM_HOST_COST ALT_BN128_G1_SUM_BASE": 3_000_000_000,
		"WASM_HOST_COST ALT_BN128_G1_SUM_ELEMENT": 5_000_000_000, "WASM_HOST_COST ALT_BN128_PAIRING_CHECK_BASE": 9_686_000_000_000,
		"WASM_HOST_COST ALT_BN128_PAIRING_CHECK_ELEMENT": 5_102_000_000_000, "WASM_HOST_COST BASE": 17_739_463_437,
		"WASM_HOST_COST CONTRACT_LOADING_BASE": 35_445_963, "WASM_HOST_COST LOG_BASE": 7_086_626_100,
		"WASM_HOST_COST LOG_BYTE": 131_987_910, "WASM_HOST_COST PROMISE_AND_BASE": 1_465_013_400,
		"WASM_HOST_COST PROMISE_AND_PER_PROMISE": 87_234_816, "WASM_HOST_COST PROMISE_RETURN": 560_152_386,
		"WASM_HOST_COST READ_CACHED_TRIE_NODE": 4_560_000_000, "WASM_HOST_COST READ_MEMORY_BASE": 187_910_150_400,
		"WASM_HOST_COST READ_MEMORY_BYTE": 5_002_554_228, "WASM_HOST_COST READ_REGISTER_BASE": 7_551_495_558,
		"WASM_HOST_COST READ_REGISTER_BYTE": 25_034_748, "WASM_HOST_COST RIPEMD160_BASE": 853_675_086,
		"WASM_HOST_COST RIPEMD160_BLOCK": 680_107_584, "WASM_HOST_COST SHA256_BASE": 4_540_970_250,
		"WASM_HOST_COST SHA256_BYTE": 120_586_755, "WASM_HOST_COST STORAGE_HAS_KEY_BASE": 108_079_793_250,
		"WASM_HOST_COST STORAGE_HAS_KEY_BYTE": 277_117_605, "WASM_HOST_COST STORAGE_READ_BASE": 112_713_691_498,
		"WASM_HOST_COST STORAGE_READ_KEY_BYTE": 278_572_797, "WASM_HOST_COST STORAGE_READ_VALUE_BYTE": 28_055_020,
		"WASM_HOST_COST STORAGE_REMOVE_BASE": 106_946_061_000, "WASM_HOST_COST STORAGE_REMOVE_KEY_BYTE": 343_983_456,
		"WASM_HOST_COST STORAGE_REMOVE_RET_VALUE_BYTE": 57_657_780, "WASM_HOST_COST STORAGE_WRITE_BASE": 128_393_472_000,
		"WASM_HOST_COST STORAGE_WRITE_EVICTED_BYTE": 160_586_535, "WASM_HOST_COST STORAGE_WRITE_KEY_BYTE": 281_931_468,
		"WASM_HOST_COST STORAGE_WRITE_VALUE_BYTE": 310_185_390, "WASM_HOST_COST TOUCHING_TRIE_NODE": 4_560_000_000,
		"WASM_HOST_COST UTF16_DECODING_BASE": 3_543_313_050, "WASM_HOST_COST UTF16_DECODING_BYTE": 1_635_774_930,
		"WASM_HOST_COST UTF8_DECODING_BASE": 46_676_685_915, "WASM_HOST_COST UTF8_DECODING_BYTE": 98_262_621_423,
		"WASM_HOST_COST VALIDATOR_STAKE_BASE": 911_834_726_400, "WASM_HOST_COST VALIDATOR_TOTAL_STAKE_BASE": 911_834_726_400,
		"WASM_HOST_COST WRITE_MEMORY_BASE": 19_626_564_027, "WASM_HOST_COST WRITE_MEMORY_BYTE": 866_159_496,
		"WASM_HOST_COST WRITE_REGISTER_BASE": 37_251_792_318, "WASM_HOST_COST WRITE_REGISTER_BYTE": 1_155_675_456,
	})
	if want := []string{"hello", "hello"}; fmt.Sprint(r.logs) != fmt.Sprint(want) {
		t.Errorf("logs = %q, want %q", r.logs, want)
	}

	// The callbacks follow.
	loaded := func(set ...func(*harness)) *harness {
		r := newHarness(t, append([]func(*harness){sanityCall("")}, set...)...)
		if err := r.PayLoading(1); err != nil {
			t.Fatal(err)
		}
		return r
	}
	r = loaded()
	r.fails(HostError{Kind: GuestPanic, Text: "explicit guest panic"}, "panic")
	r.wantProfile("sanity_check_panic", map[string]primitives.Gas{
		"WASM_HOST_COST BASE": 264_768_111, "WASM_HOST_COST CONTRACT_LOADING_BASE": 35_445_963,
	})
	r = loaded()
	xyz := r.putString("xyz")
	r.fails(HostError{Kind: GuestPanic, Text: "xyz"}, "panic_utf8", xyz.len, xyz.ptr)
	r.wantProfile("sanity_check_panic_utf8", map[string]primitives.Gas{
		"WASM_HOST_COST BASE": 264_768_111, "WASM_HOST_COST CONTRACT_LOADING_BASE": 35_445_963,
		"WASM_HOST_COST READ_MEMORY_BASE": 2_609_863_200, "WASM_HOST_COST READ_MEMORY_BYTE": 11_403_999,
		"WASM_HOST_COST UTF8_DECODING_BASE": 3_111_779_061, "WASM_HOST_COST UTF8_DECODING_BYTE": 874_741_437,
	})
	r = loaded(func(r *harness) { r.c.Results = []action.PromiseResult{{}} })
	if n, got := r.must("promise_results_count"), r.must("promise_result", 0, 0); n != 1 || got != 1 {
		t.Errorf("%d results, the first %d", n, got)
	}
	r.wantProfile("sanity_check_promise_results", map[string]primitives.Gas{
		"WASM_HOST_COST BASE": 529_536_222, "WASM_HOST_COST CONTRACT_LOADING_BASE": 35_445_963,
		"WASM_HOST_COST WRITE_REGISTER_BASE": 2_865_522_486,
	})
}

// milliNEAR encodes n milliNEAR as a contract encodes an amount.
func milliNEAR(n uint64) []byte {
	amount, _ := primitives.NEAR(n).DivMod64(1000)
	return amount.AppendBorsh(nil)
}
