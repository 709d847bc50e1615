// A fungible token: NEP-141 with resolve and refund, NEP-145 storage, NEP-148 metadata, NEP-297 events; minting and upgrades
// by its owner. Built twice: FT_VERSION 2 is what the first is upgraded to.
//
// Storage: o owner; t total supply; m metadata; v version of the state; a ‖ account: balance, 16 bytes.
#include "json.h"
#include "store.h"

#ifndef FT_VERSION
#define FT_VERSION 1
#endif

// 125 bytes at 10^19: an account of 64 bytes with its balance.
static u128 storage_price(void) { return (u128)1250000000000ull * 1000000000ull; }

static const u64 GAS_FOR_RESOLVE = 5 * 1000000000000ull, GAS_FOR_TRANSFER_CALL = 30 * 1000000000000ull;

static str owner_key(void) { return S("o"); }

static _Noreturn void not_registered(str account) {
	buf b = buffer(account.n + 64);
	put(&b, S("The account "));
	put(&b, account);
	put(&b, S(" is not registered"));
	fail(written(&b));
}

static int balance_or_none(str account, u128 *out) { return load_into(key_of('a', account), out); }

static u128 balance_of(str account) {
	u128 v;
	if (!balance_or_none(account, &v)) not_registered(account);
	return v;
}

static void set_balance(str account, u128 v) { save_u128(key_of('a', account), v); }

static u128 supply(void) {
	u128 v = 0;
	load_into(S("t"), &v);
	return v;
}

static void require_owner(void) { REQUIRE(same(predecessor(), load(owner_key())), "Only the owner may do this"); }

// One event with one entry, NEP-297.
static buf event(str name, u32 room) {
	buf b = buffer(room + 256);
	put(&b, S("EVENT_JSON:{\"standard\":\"nep141\",\"version\":\"1.0.0\",\"event\":"));
	put_text(&b, name);
	put(&b, S(",\"data\":[{"));
	return b;
}

static void emit(buf *b, u128 amount, str memo) {
	put(b, S(",\"amount\":"));
	put_amount(b, amount);
	if (memo.p) {
		put(b, S(",\"memo\":"));
		put_text(b, memo);
	}
	put(b, S("}]}"));
	say(written(b));
}

static void event_transfer(str from, str to, u128 amount, str memo) {
	buf b = event(S("ft_transfer"), from.n + to.n + 6 * memo.n);
	put(&b, S("\"old_owner_id\":"));
	put_text(&b, from);
	put(&b, S(",\"new_owner_id\":"));
	put_text(&b, to);
	emit(&b, amount, memo);
}

static void event_owner(str name, str owner, u128 amount, str memo) {
	buf b = event(name, owner.n + memo.n);
	put(&b, S("\"owner_id\":"));
	put_text(&b, owner);
	emit(&b, amount, memo);
}

static void move(str from, str to, u128 amount, str memo) {
	REQUIRE(!same(from, to), "Sender and receiver should be different");
	REQUIRE(amount > 0, "The amount should be a positive number");
	u128 had = balance_of(from);
	REQUIRE(had >= amount, "The account doesn't have enough balance");
	set_balance(from, had - amount);
	set_balance(to, add(balance_of(to), amount));
	event_transfer(from, to, amount, memo);
}

static void give_amount(u128 v) {
	buf b = buffer(48);
	put_amount(&b, v);
	give(written(&b));
}

METHOD(new) {
	REQUIRE(!storage_has_key(ARG(owner_key())), "Already initialized");
	field f[] = {{S("owner_id")}, {S("total_supply")}, {S("metadata")}};
	FIELDS(args(), f);
	str owner = text_of(&f[0]);
	u128 total = amount_of(&f[1]);
	if (f[2].value.p == 0) missing(f[2].name);
	field m[] = {{S("spec")}, {S("name")}, {S("symbol")}, {S("decimals")}};
	FIELDS(f[2].value, m);
	REQUIRE(same(text_of(&m[0]), S("ft-1.0.0")), "Metadata must have the spec ft-1.0.0");
	text_of(&m[1]);
	text_of(&m[2]);
	REQUIRE(m[3].value.p && number_of(&m[3], 256) < 256, "Metadata must have decimals, 0 to 255");
	save(owner_key(), owner);
	save(S("m"), f[2].value);
	save_u128(S("t"), total);
	set_balance(owner, total);
	event_owner(S("ft_mint"), owner, total, S("new tokens are minted"));
}

METHOD(ft_mint) {
	require_owner();
	require_one_yocto();
	field f[] = {{S("account_id")}, {S("amount")}, {S("memo")}};
	FIELDS(args(), f);
	str account = text_of(&f[0]);
	u128 amount = amount_of(&f[1]);
	REQUIRE(amount > 0, "The amount should be a positive number");
	set_balance(account, add(balance_of(account), amount));
	save_u128(S("t"), add(supply(), amount));
	event_owner(S("ft_mint"), account, amount, text_or_none(&f[2]));
}

METHOD(ft_transfer) {
	require_one_yocto();
	field f[] = {{S("receiver_id")}, {S("amount")}, {S("memo")}};
	FIELDS(args(), f);
	move(predecessor(), text_of(&f[0]), amount_of(&f[1]), text_or_none(&f[2]));
}

METHOD(ft_transfer_call) {
	require_one_yocto();
	u64 gas = prepaid_gas();
	REQUIRE(gas > GAS_FOR_TRANSFER_CALL, "More gas is required");
	field f[] = {{S("receiver_id")}, {S("amount")}, {S("memo")}, {S("msg")}};
	FIELDS(args(), f);
	str sender = predecessor(), receiver = text_of(&f[0]);
	u128 amount = amount_of(&f[1]);
	move(sender, receiver, amount, text_or_none(&f[2]));

	buf on = buffer(sender.n + f[3].value.n + 128);
	put(&on, S("{\"sender_id\":"));
	put_text(&on, sender);
	put(&on, S(",\"amount\":"));
	put_amount(&on, amount);
	put(&on, S(",\"msg\":"));
	if (f[3].value.p == 0) missing(f[3].name);
	put(&on, f[3].value);
	put(&on, S("}"));
	buf then = buffer(sender.n + receiver.n + 128);
	put(&then, S("{\"sender_id\":"));
	put_text(&then, sender);
	put(&then, S(",\"receiver_id\":"));
	put_text(&then, receiver);
	put(&then, S(",\"amount\":"));
	put_amount(&then, amount);
	put(&then, S("}"));
	u64 p = call(receiver, S("ft_on_transfer"), written(&on), 0, gas - GAS_FOR_TRANSFER_CALL);
	promise_return(call_then(p, current(), S("ft_resolve_transfer"), written(&then), 0, GAS_FOR_RESOLVE));
}

// What the receiver did not take goes back, as far as the receiver still has it; burnt if the sender has left.
METHOD(ft_resolve_transfer) {
	require_private(current());
	field f[] = {{S("sender_id")}, {S("receiver_id")}, {S("amount")}};
	FIELDS(args(), f);
	str sender = text_of(&f[0]), receiver = text_of(&f[1]);
	u128 amount = amount_of(&f[2]), unused = amount, had;
	if (promise_result(0, 0) == 1) {
		str said = reg(0);
		// What is no amount counts as nothing used.
		if (said.n >= 3 && said.n <= 41 && said.p[0] == '"' && said.p[said.n - 1] == '"') {
			int digits = 1;
			for (u32 i = 1; i + 1 < said.n; i++) digits &= said.p[i] >= '0' && said.p[i] <= '9';
			if (digits) {
				u128 v = parse_u128(json_text(said));
				if (v < unused) unused = v;
			}
		}
	}
	u128 used = amount;
	if (unused > 0 && balance_or_none(receiver, &had) && had > 0) {
		u128 back = had < unused ? had : unused;
		set_balance(receiver, had - back);
		if (balance_or_none(sender, &had)) {
			set_balance(sender, add(had, back));
			event_transfer(receiver, sender, back, S("refund"));
			used = amount - back;
		} else {
			save_u128(S("t"), supply() - back);
			say(S("The account of the sender was deleted"));
			event_owner(S("ft_burn"), receiver, back, S("refund"));
		}
	}
	give_amount(used);
}

METHOD(ft_total_supply) { give_amount(supply()); }

METHOD(ft_balance_of) {
	field f[] = {{S("account_id")}};
	FIELDS(args(), f);
	u128 v = 0;
	balance_or_none(text_of(&f[0]), &v);
	give_amount(v);
}

METHOD(ft_metadata) { give(load(S("m"))); }

// NEP-145. Registering costs a fixed amount, all of it for storage.
static void give_storage_balance(void) {
	buf b = buffer(96);
	put(&b, S("{\"total\":"));
	put_amount(&b, storage_price());
	put(&b, S(",\"available\":\"0\"}"));
	give(written(&b));
}

METHOD(storage_deposit) {
	field f[] = {{S("account_id")}, {S("registration_only")}};
	str in = args();
	if (in.n) FIELDS(in, f);
	str payer = predecessor(), account = f[0].value.p ? text_of(&f[0]) : payer;
	u128 paid = deposit(), price = storage_price(), v;
	if (balance_or_none(account, &v)) {
		say(S("The account is already registered, refunding the deposit"));
		price = 0;
	} else {
		REQUIRE(paid >= price, "The attached deposit is less than the minimum storage balance");
		set_balance(account, 0);
	}
	if (paid > price) pay(payer, paid - price);
	give_storage_balance();
}

METHOD(storage_withdraw) {
	require_one_yocto();
	field f[] = {{S("amount")}};
	str in = args();
	if (in.n) FIELDS(in, f);
	balance_of(predecessor()); // must be registered
	REQUIRE(f[0].value.p == 0 || amount_of(&f[0]) == 0, "The amount is greater than the available storage balance");
	give_storage_balance();
}

METHOD(storage_unregister) {
	require_one_yocto();
	field f[] = {{S("force")}};
	str in = args(), account = predecessor();
	if (in.n) FIELDS(in, f);
	u128 v;
	if (!balance_or_none(account, &v)) {
		say(S("The account is not registered"));
		give(S("false"));
		return;
	}
	REQUIRE(v == 0 || true_of(&f[0]), "Can't unregister the account with the positive balance without force");
	str key = key_of('a', account);
	storage_remove(ARG(key), 0);
	if (v > 0) {
		save_u128(S("t"), supply() - v);
		event_owner(S("ft_burn"), account, v, S("unregistered"));
	}
	pay(account, storage_price() + 1);
	give(S("true"));
}

METHOD(storage_balance_bounds) {
	buf b = buffer(128);
	put(&b, S("{\"min\":"));
	put_amount(&b, storage_price());
	put(&b, S(",\"max\":"));
	put_amount(&b, storage_price());
	put(&b, S("}"));
	give(written(&b));
}

METHOD(storage_balance_of) {
	field f[] = {{S("account_id")}};
	FIELDS(args(), f);
	u128 v;
	if (balance_or_none(text_of(&f[0]), &v)) give_storage_balance();
	else give(S("null"));
}

// The input is the new code. It is deployed and asked to migrate in one receipt: both happen, or neither.
METHOD(upgrade) {
	require_owner();
	input(0);
	current_account_id(1);
	str self = reg(1);
	u64 p = promise_batch_create(ARG(self));
	promise_batch_action_deploy_contract(p, ~0ull, 0); // register 0
	u128 nothing = 0;
	promise_batch_action_function_call_weight(p, ARG(S("migrate")), 0, 0, ADDRESS(&nothing), 10 * TGAS, 1);
	promise_return(p);
}

METHOD(migrate) {
	require_private(current());
	u8 had = 1, now = FT_VERSION;
	load_into(S("v"), &had);
	REQUIRE(had < now, "Nothing to migrate");
	save(S("v"), (str){&now, 1});
	say(S("migrated"));
}

METHOD(version) {
	buf b = buffer(32);
	put_byte(&b, '"');
	put_u64(&b, FT_VERSION);
	put(&b, S(".0.0\""));
	give(written(&b));
}

#if FT_VERSION > 1
METHOD(ft_owner) {
	str owner = load(owner_key());
	buf b = buffer(owner.n + 2);
	put_text(&b, owner);
	give(written(&b));
}
#endif
