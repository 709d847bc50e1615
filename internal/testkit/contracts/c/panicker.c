// Ends in every way that a call can fail; the method says which.
#include "json.h"
#include "store.h"

// What the compiler is not to know.
static volatile i32 zero;
static volatile u64 far = ~0ull;

METHOD_AS(host_panic, "panic") { panic(); }
METHOD(panic_utf8) { fail(S("I meant to")); }
METHOD(panic_args) { fail(args()); }
METHOD(panic_bad_utf8) { panic_utf8(2, ADDRESS("\xff\xfe")); }

// The text is UTF-16 behind its length in bytes, as AssemblyScript has it.
static const struct {
	u32 size;
	u16 text[4];
} oops = {8, {'o', 'o', 'p', 's'}};
METHOD_AS(assembly_abort, "abort") { abort((u32)oops.text, (u32)oops.text, 7, 9); }

// Traps.
METHOD_AS(trap, "unreachable") { __builtin_trap(); }
METHOD(divide) {
	volatile i32 one = 1;
	zero = one / zero;
}
METHOD(truncate) {
	volatile double d = 1e300;
	zero = __builtin_wasm_trunc_s_i32_f64(d);
}
METHOD(out_of_bounds) { zero = *(volatile i32 *)(u32)0xfffffff0; }
METHOD(null_call) { ((void (*)(void))(u32)zero)(); }

static i32 takes_two(i32 a, i32 b) { return a + b + zero; }
static i32 (*volatile pointer)(i32, i32) = takes_two;
METHOD(wrong_type) { ((void (*)(u64))pointer)(1); }

static i32 deeper(i32 n) { return n + zero == -1 ? 0 : deeper(n + 1) + deeper(n + 2); }
METHOD(stack) { zero = deeper(1); }
METHOD(spin) {
	for (;;) zero = zero + 1;
}

// Errors of host functions.
METHOD(read_memory) { log_utf8(100, far - 200); }
METHOD(write_memory) { current_account_id(0), read_register(0, far - 200); }
METHOD(no_register) { read_register(9, 0); }
METHOD(many_registers) {
	for (u32 i = 0; i <= 100; i++) write_register(i, 1, 0);
}
METHOD(bad_account) { promise_batch_create(ARG(S("NOT AN ACCOUNT"))); }
METHOD(bad_promise) { promise_return(7); }
METHOD(joint_action) {
	u64 p[2] = {promise_batch_create(ARG(S("a.near"))), promise_batch_create(ARG(S("b.near")))};
	u128 nothing = 0;
	promise_batch_action_transfer(promise_and(ADDRESS(p), 2), ADDRESS(&nothing));
}
METHOD(bad_result) { promise_result(3, 0); }
METHOD(no_method) { call(current(), S(""), S(""), 0, 1); }
METHOD(balance) { pay(current(), (u128)1 << 120); }
METHOD(gas_overflow) { call(current(), S("noop"), S(""), 0, far); }
METHOD(gas_exceeded) { call(current(), S("noop"), S(""), 0, 999 * TGAS); }
METHOD(bad_key) {
	u64 p = promise_batch_create(ARG(current()));
	promise_batch_action_add_key_with_full_access(p, 3, ADDRESS("\1\2\3"), 0);
}
METHOD(long_key) { save((str){take(2049), 2049}, S("v")); }
METHOD(long_value) { save(S("k"), (str){take(5 << 20), (4 << 20) + 1}); }
METHOD(long_return) { give((str){take(5 << 20), (4 << 20) + 1}); }
METHOD(long_log) {
	u8 *p = take(16385);
	memset(p, 'x', 16385);
	say((str){p, 16385});
}
METHOD(many_logs) {
	for (u32 i = 0; i <= 100; i++) say(S("x"));
}
METHOD(many_promises) {
	str self = current();
	for (u32 i = 0; i <= 1024; i++) promise_batch_create(ARG(self));
}
METHOD(bad_utf8) { log_utf8(2, ADDRESS("\xff\xfe")); }
METHOD(bad_utf16) { log_utf16(3, ADDRESS("\x61\0\x62")); }
METHOD(deprecated) { storage_iter_prefix(0, 0); }
METHOD(large_contract) {
	u64 p = promise_batch_create(ARG(current()));
	promise_batch_action_deploy_contract(p, (4 << 20) + 1, ADDRESS(take((4 << 20) + 1)));
}
METHOD(bad_yield) { promise_yield_resume(5, ADDRESS("short"), 0, 0); }

// Leaves things behind that its failure must undo.
METHOD(after_work) {
	save(S("left"), S("behind"));
	say(S("I was here"));
	pay(current(), 1);
	fail(S("after work"));
}

// May not be done in a view, or may.
METHOD(writes) { save(S("w"), S("1")); }
METHOD(signer) { signer_account_id(0); }
METHOD(context) {
	u128 v;
	account_balance(ADDRESS(&v));
	give(current());
}

// A method with a parameter, which nobody can call.
__attribute__((export_name("takes_a_parameter"))) i32 takes_a_parameter(i32 n) { return n; }
METHOD(noop) {}
