package logic

import (
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// mainnet sets the fees of the newest version, which version 86 also has, and plenty of gas.
func mainnet(r *harness) {
	r.cfg = *parameters.MustGet(parameters.Release(88))
	r.c.CurrentAccount, r.c.PrepaidGas = "alice", 300*tera
}

// TestHostFunctionFeesMatchMainnet compares burnt and used gas of host functions and actions with
// nearcore's runner at version 86: alice creates a promise to bob.near, method "m", without
// arguments and deposit.
func TestHostFunctionFeesMatchMainnet(t *testing.T) {
	r := newHarness(t, mainnet)
	bob, hex := r.putString("bob.near"), r.putString("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")
	key, method, id := r.putKey(), r.putString("m"), r.put(make([]byte, 32))
	zero := r.putBalance(0)
	batch := func(to slice) uint64 { return r.must("promise_batch_create", to.len, to.ptr) }
	for _, test := range []struct {
		name        string
		do          func()
		burnt, used primitives.Gas
		compute     parameters.Compute // 0: not known
	}{
		{"batch_create", func() { batch(bob) }, 116_408_964_868, 224_468_464_868, 0},
		{"create_account", func() { r.must("promise_batch_action_create_account", batch(bob)) }, 616_673_732_979, 7_924_733_232_979, 0},
		{"transfer to 64 digits", func() { r.must("promise_batch_action_transfer", batch(hex), zero) }, 852_773_986_479, 8_377_721_673_979, 0},
		{"transfer_to_gas_key", func() {
			r.must("promise_batch_action_transfer_to_gas_key", batch(bob), key.len, key.ptr, zero)
		}, 239_161_583_508, 589_998_205_758, 0},
		{"add_gas_key, 1 nonce", func() {
			r.must("promise_batch_action_add_gas_key_with_full_access", batch(bob), key.len, key.ptr, 1)
		}, 222_242_599_520, 501_640_036_720, 0},
		{"promise_create with 1 Tgas", func() {
			r.must("promise_create", bob.len, bob.ptr, method.len, method.ptr, 0, 0, zero, uint64(tera))
		}, 324_615_628_955, 2_212_677_364_889, 0},
		{"yield_create_with_id", func() {
			r.must("promise_yield_create_with_id", method.len, method.ptr, 0, 0, zero, 0, 0, id.len, id.ptr)
		}, 681_941_330_774, 1_570_003_066_708, 0},
		{"resume with 3 bytes", func() { r.must("promise_yield_resume", id.len, id.ptr, 3, 0) }, 1_201_387_877_521, 1_201_387_877_521, 0},
		{"storage_write of 2 and 3 bytes", func() { r.must("storage_write", 2, 0, 3, 0, 0) }, 69_934_258_527, 69_934_258_527, 205_737_522_527},
	} {
		at := r.at
		r = newHarness(t, mainnet, func(fresh *harness) { fresh.at = at })
		copy(r.Memory, "bob.near00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")
		copy(r.Memory[key.ptr:], primitives.MustParsePublicKey(testKey))
		copy(r.Memory[method.ptr:], "m")
		test.do()
		out, err := r.Outcome()
		if err != nil || out.GasBurnt != test.burnt || out.GasUsed != test.used {
			t.Errorf("%s: burnt %d, used %d, %v, want %d and %d", test.name, out.GasBurnt, out.GasUsed, err, test.burnt, test.used)
		}
		if test.compute != 0 && out.Compute != test.compute {
			t.Errorf("%s: compute %d, want %d", test.name, out.Compute, test.compute)
		}
	}
}
