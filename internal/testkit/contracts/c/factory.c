// Makes sub-accounts and deploys the code that it keeps to them.
//
// Storage: c the code; h the hash of the code that was published as a global contract.
#include "json.h"
#include "store.h"

// The input is the code, which stays in register 0.
METHOD(store) {
	require_private(current());
	input(0);
	storage_write(1, ADDRESS("c"), ~0ull, 0, 1);
}

static str sub_account(str name) {
	str self = current();
	buf b = buffer(name.n + self.n + 1);
	put(&b, name);
	put_byte(&b, '.');
	put(&b, self);
	return written(&b);
}

static void create(int global) {
	field f[] = {{S("name")}, {S("args")}, {S("public_key")}};
	FIELDS(args(), f);
	str name = text_of(&f[0]), account = sub_account(name), by = predecessor();
	u128 paid = deposit(), nothing = 0;
	u64 p = promise_batch_create(ARG(account));
	promise_batch_action_create_account(p);
	promise_batch_action_transfer(p, ADDRESS(&paid));
	if (global) {
		str hash = load(S("h"));
		REQUIRE(hash.p, "nothing is published");
		promise_batch_action_use_global_contract(p, ARG(hash));
	} else {
		REQUIRE(storage_read(1, ADDRESS("c"), 0), "no code is stored");
		promise_batch_action_deploy_contract(p, ~0ull, 0);
	}
	if (f[1].value.p) promise_batch_action_function_call(p, ARG(S("new")), ARG(f[1].value), ADDRESS(&nothing), 10 * TGAS);
	buf b = buffer(account.n + by.n + 128);
	put(&b, S("{\"account\":"));
	put_text(&b, account);
	put(&b, S(",\"by\":"));
	put_text(&b, by);
	put(&b, S(",\"paid\":"));
	put_amount(&b, paid);
	put(&b, S("}"));
	promise_return(call_then(p, current(), S("on_create"), written(&b), 0, 5 * TGAS));
}

METHOD(create) { create(0); }
METHOD(create_global) { create(1); }

// The deposit came back to this contract if the account could not be made; so it goes on to who paid it.
METHOD(on_create) {
	require_private(current());
	field f[] = {{S("account")}, {S("by")}, {S("paid")}};
	FIELDS(args(), f);
	int ok = promise_result(0, 0) == 1;
	str account = text_of(&f[0]);
	buf b = buffer(account.n + 32);
	put(&b, ok ? S("created ") : S("could not create "));
	put(&b, account);
	say(written(&b));
	if (!ok) pay(text_of(&f[1]), amount_of(&f[2]));
	give(ok ? S("true") : S("false"));
}

// Publishes the stored code under its hash.
METHOD(publish) {
	require_private(current());
	REQUIRE(storage_read(1, ADDRESS("c"), 0), "no code is stored");
	sha256(~0ull, 0, 1);
	storage_write(1, ADDRESS("h"), ~0ull, 1, 2);
	str self = current();
	REQUIRE(storage_read(1, ADDRESS("c"), 0), "no code is stored"); // register 0 held the name
	u64 p = promise_batch_create(ARG(self));
	promise_batch_action_deploy_global_contract(p, ~0ull, 0);
	promise_return(p);
}
