// Amounts: 128 bits, decimal in JSON.
#pragma once
#include "base.h"

// What the compiler calls to multiply 128 bits: by 32-bit halves of the lower words; the upper ones only count modulo 2^64.
typedef union {
	u128 all;
	struct {
		u64 lo, hi;
	};
} words;

u128 __multi3(u128 a, u128 b) {
	words x = {a}, y = {b}, out;
	u64 xl = (u32)x.lo, xh = x.lo >> 32, yl = (u32)y.lo, yh = y.lo >> 32;
	u64 low = xl * yl, mid = xh * yl + (low >> 32), mid2 = xl * yh + (u32)mid;
	out.lo = mid2 << 32 | (u32)low;
	out.hi = xh * yh + (mid >> 32) + (mid2 >> 32) + x.hi * y.lo + x.lo * y.hi;
	return out.all;
}

static const u128 MOST_TENTHS = ((u128)0x1999999999999999ull << 64) | 0x9999999999999999ull; // (2^128 - 1) / 10

static u128 parse_u128(str s) {
	REQUIRE(s.n > 0 && s.n <= 39, "a number must have 1 to 39 digits");
	u128 v = 0;
	for (u32 i = 0; i < s.n; i++) {
		u8 d = s.p[i] - '0';
		REQUIRE(d <= 9, "not a number");
		u128 ten = v * 10;
		REQUIRE(v <= MOST_TENTHS && ten + d >= ten, "number too large");
		v = ten + d;
	}
	return v;
}

// Nine digits at a time: the value is four 32-bit limbs, each step divides them by 10^9.
static void put_u128(buf *b, u128 v) {
	u32 limbs[4] = {(u32)v, (u32)(v >> 32), (u32)(v >> 64), (u32)(v >> 96)};
	u8 digits[45];
	u32 at = sizeof digits;
	do {
		u64 rest = 0;
		for (i32 i = 3; i >= 0; i--) {
			u64 x = rest << 32 | limbs[i];
			limbs[i] = (u32)(x / 1000000000u);
			rest = x % 1000000000u;
		}
		u32 part = (u32)rest;
		for (u32 k = 0; k < 9; k++, part /= 10) digits[--at] = '0' + part % 10;
	} while (limbs[0] | limbs[1] | limbs[2] | limbs[3]);
	while (at < sizeof digits - 1 && digits[at] == '0') at++;
	put(b, (str){digits + at, sizeof digits - at});
}

static void put_u64(buf *b, u64 v) { put_u128(b, v); }

static u128 add(u128 a, u128 b) {
	REQUIRE(a + b >= a, "Balance overflow");
	return a + b;
}
