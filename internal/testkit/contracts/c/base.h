// What every contract stands on: strings, an arena, buffers, input and output. There is no standard library.
#pragma once
#include "host.h"

// A method is exported by name; it takes and gives nothing, as all methods do.
#define METHOD(name) __attribute__((export_name(#name))) void method_##name(void)
#define METHOD_AS(name, text) __attribute__((export_name(text))) void method_##name(void)

// A string is an address and a length; nothing ends with a zero byte. A null address is a string that is not there.
typedef struct {
	const u8 *p;
	u32 n;
} str;

#define S(literal) ((str){(const u8 *)(literal), sizeof(literal) - 1})
#define NONE ((str){0, 0})
#define ARG(s) (s).n, (u64)(u32)(s).p
#define ADDRESS(x) (u64)(u32)(x)

static const u64 TGAS = 1000000000000ull;

// The compiler may call these for what looks like them.
void *memcpy(void *to, const void *from, unsigned long n) {
	u8 *t = to;
	const u8 *f = from;
	for (; n >= 8; n -= 8, t += 8, f += 8) *(u64 *)t = *(const u64 *)f;
	while (n--) *t++ = *f++;
	return to;
}

void *memset(void *to, int c, unsigned long n) {
	u8 *t = to;
	while (n--) *t++ = (u8)c;
	return to;
}

int memcmp(const void *a, const void *b, unsigned long n) {
	const u8 *x = a, *y = b;
	for (; n--; x++, y++)
		if (*x != *y) return *x < *y ? -1 : 1;
	return 0;
}

static _Noreturn void fail(str why) { panic_utf8(ARG(why)); }

#define REQUIRE(condition, why) \
	do { \
		if (!(condition)) fail(S(why)); \
	} while (0)

static int same(str a, str b) { return a.n == b.n && memcmp(a.p, b.p, a.n) == 0; }

// The arena is all memory above the stack and the data; a call ends before it could matter that nothing is freed.
extern u8 __heap_base;
static u32 arena;

static u8 *take(u32 n) {
	if (arena == 0) arena = ((u32)&__heap_base + 7) & ~7u;
	u32 at = arena;
	REQUIRE(n < 60u << 20 && at + n < 63u << 20, "out of memory");
	arena = (at + n + 7) & ~7u;
	return (u8 *)at;
}

// A buffer grows up to its capacity.
typedef struct {
	u8 *p;
	u32 n, cap;
} buf;

static buf buffer(u32 cap) { return (buf){take(cap), 0, cap}; }
static str written(const buf *b) { return (str){b->p, b->n}; }

static void put(buf *b, str s) {
	REQUIRE(b->n + s.n <= b->cap, "buffer full");
	memcpy(b->p + b->n, s.p, s.n);
	b->n += s.n;
}

static void put_byte(buf *b, u8 c) {
	REQUIRE(b->n < b->cap, "buffer full");
	b->p[b->n++] = c;
}

// What a register holds.
static str reg(u64 r) {
	u64 n = register_len(r);
	if (n == ~0ull) return NONE;
	str s = {take((u32)n), (u32)n};
	read_register(r, ADDRESS(s.p));
	return s;
}

static str args(void) { return input(0), reg(0); }
static str current(void) { return current_account_id(0), reg(0); }
static str predecessor(void) { return predecessor_account_id(0), reg(0); }

static u128 deposit(void) {
	u128 v;
	attached_deposit(ADDRESS(&v));
	return v;
}

static void require_one_yocto(void) { REQUIRE(deposit() == 1, "Requires attached deposit of exactly 1 yoctoNEAR"); }
static void require_private(str who) { REQUIRE(same(predecessor(), who), "Method is private"); }

static void give(str s) { value_return(ARG(s)); }
static void say(str s) { log_utf8(ARG(s)); }
