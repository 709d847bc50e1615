// Fills storage. {"from": first entry, "count", "size": bytes of each value}.
//
// Storage: h ‖ number big-endian: the value.
#include "json.h"
#include "store.h"

typedef struct {
	u64 from, count, size;
} extent;

static extent read_extent(void) {
	field f[] = {{S("from")}, {S("count")}, {S("size")}};
	FIELDS(args(), f);
	return (extent){number_of(&f[0], 0), number_of(&f[1], 1), number_of(&f[2], 100)};
}

static str entry(u64 i, u8 key[9]) {
	key[0] = 'h';
	for (u32 k = 0; k < 8; k++) key[1 + k] = (u8)(i >> (56 - 8 * k));
	return (str){key, 9};
}

static void give_number(u64 v) {
	buf b = buffer(48);
	put_u64(&b, v);
	give(written(&b));
}

METHOD(fill) {
	extent e = read_extent();
	REQUIRE(e.size <= 4 << 20, "too large");
	str value = {take((u32)e.size), (u32)e.size};
	memset((u8 *)value.p, 'x', value.n);
	u8 key[9];
	for (u64 i = 0; i < e.count; i++) save(entry(e.from + i, key), value);
	give_number(storage_usage());
}

// Reads entries without copying them; returns the sum of their lengths.
METHOD(read) {
	extent e = read_extent();
	u64 sum = 0;
	u8 key[9];
	for (u64 i = 0; i < e.count; i++) {
		str k = entry(e.from + i, key);
		if (storage_read(ARG(k), 0)) sum += register_len(0);
	}
	give_number(sum);
}

METHOD(clear) {
	extent e = read_extent();
	u64 gone = 0;
	u8 key[9];
	for (u64 i = 0; i < e.count; i++) {
		str k = entry(e.from + i, key);
		gone += storage_remove(ARG(k), 0);
	}
	give_number(gone);
}

METHOD(usage) { give_number(storage_usage()); }
