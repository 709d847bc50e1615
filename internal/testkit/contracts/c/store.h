// Storage and promises in the words that contracts use.
#pragma once
#include "base.h"

// A key is one letter for the collection, then the entry's own name.
static str key_of(u8 collection, str name) {
	buf b = buffer(name.n + 1);
	put_byte(&b, collection);
	put(&b, name);
	return written(&b);
}

static str load(str key) { return storage_read(ARG(key), 0) ? reg(0) : NONE; }
static void save(str key, str value) { storage_write(ARG(key), ARG(value), 0); }

// Values of a fixed size are read without asking for their length.
static int load_into(str key, void *to) {
	if (!storage_read(ARG(key), 0)) return 0;
	read_register(0, ADDRESS(to));
	return 1;
}

static void save_u128(str key, u128 v) { save(key, (str){(const u8 *)&v, sizeof v}); }

static void pay(str to, u128 amount) {
	u64 p = promise_batch_create(ARG(to));
	promise_batch_action_transfer(p, ADDRESS(&amount));
}

static void call_action(u64 promise, str method, str arguments, u128 amount, u64 gas) {
	promise_batch_action_function_call(promise, ARG(method), ARG(arguments), ADDRESS(&amount), gas);
}

static u64 call(str who, str method, str arguments, u128 amount, u64 gas) {
	return promise_create(ARG(who), ARG(method), ARG(arguments), ADDRESS(&amount), gas);
}

static u64 call_then(u64 after, str who, str method, str arguments, u128 amount, u64 gas) {
	return promise_then(after, ARG(who), ARG(method), ARG(arguments), ADDRESS(&amount), gas);
}
