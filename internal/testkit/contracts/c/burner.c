// Burns gas: by wasm, by host calls, by memory, by depth. {"tgas", "n"}.
#include "json.h"
#include "store.h"

static u64 n_of(u64 otherwise) {
	field f[] = {{S("n")}};
	str in = args();
	if (in.n) FIELDS(in, f);
	return number_of(&f[0], otherwise);
}

static void give_number(u64 v) {
	buf b = buffer(48);
	put_u64(&b, v);
	give(written(&b));
}

// Until all of it is gone, without a host call.
METHOD(spin) {
	for (volatile u32 i = 0;; i++) {}
}

// Until this much was used since the beginning of the call.
METHOD(burn) {
	field f[] = {{S("tgas")}};
	FIELDS(args(), f);
	u64 until = number_of(&f[0], 1) * TGAS;
	while (used_gas() < until)
		for (volatile u32 i = 0; i < 1000; i++) {}
}

static u64 fibonacci(u64 n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
METHOD(fib) { give_number(fibonacci(n_of(20))); }

// Hashes 32 bytes n times.
METHOD(hash) {
	u64 n = n_of(100);
	u8 h[32] = {0};
	for (u64 i = 0; i < n; i++) {
		sha256(32, ADDRESS(h), 0);
		read_register(0, ADDRESS(h));
	}
	give((str){h, 32});
}

// Grows memory by n pages and touches each; the old size in pages, or 4294967295.
METHOD(grow) {
	u64 n = n_of(1);
	u32 old = (u32)__builtin_wasm_memory_grow(0, (u32)n);
	if (old != ~0u)
		for (u64 i = 0; i < n; i++) *(volatile u8 *)(u32)((old + i) << 16) = 1;
	give_number(old);
}

// Logs n lines.
METHOD(logs) {
	u64 n = n_of(100);
	for (u64 i = 0; i < n; i++) say(S("a line"));
}

// Sends n transfers of 1 yoctoNEAR to itself.
METHOD(promises) {
	u64 n = n_of(10);
	str self = current();
	for (u64 i = 0; i < n; i++) pay(self, 1);
}
