// What tokens are sent to: it keeps what the message says, and gives the rest back.
//
// Messages: "take"; "return"; "refund:N"; "promise:N", which answers by a call to itself; "panic"; "garbage", no JSON;
// "slow", which burns all gas; "spend:ACCOUNT", which sends the tokens on before it gives all of them back.
// Storage: d ‖ token ‖ 0 ‖ sender: what was kept.
#include "json.h"
#include "store.h"

static int starts(str s, str with) { return s.n >= with.n && memcmp(s.p, with.p, with.n) == 0; }
static str after(str s, str prefix) { return (str){s.p + prefix.n, s.n - prefix.n}; }

static str deposit_key(str token, str sender) {
	buf b = buffer(token.n + sender.n + 2);
	put_byte(&b, 'd');
	put(&b, token);
	put_byte(&b, 0);
	put(&b, sender);
	return written(&b);
}

static void keep(str sender, u128 amount) {
	u128 had = 0;
	str key = deposit_key(predecessor(), sender);
	load_into(key, &had);
	save_u128(key, add(had, amount));
}

static void give_amount(u128 v) {
	buf b = buffer(48);
	put_amount(&b, v);
	give(written(&b));
}

METHOD(ft_on_transfer) {
	field f[] = {{S("sender_id")}, {S("amount")}, {S("msg")}};
	FIELDS(args(), f);
	str sender = text_of(&f[0]), msg = text_of(&f[2]);
	u128 amount = amount_of(&f[1]);
	if (same(msg, S("take"))) {
		keep(sender, amount);
		give_amount(0);
	} else if (same(msg, S("return"))) {
		give_amount(amount);
	} else if (starts(msg, S("refund:"))) {
		u128 back = parse_u128(after(msg, S("refund:")));
		keep(sender, back < amount ? amount - back : 0);
		give_amount(back);
	} else if (starts(msg, S("promise:"))) {
		buf b = buffer(64);
		put(&b, S("{\"amount\":"));
		put_amount(&b, parse_u128(after(msg, S("promise:"))));
		put(&b, S("}"));
		promise_return(call(current(), S("value_please"), written(&b), 0, 5 * TGAS));
	} else if (starts(msg, S("spend:"))) {
		buf b = buffer(msg.n + 128);
		put(&b, S("{\"receiver_id\":"));
		put_text(&b, after(msg, S("spend:")));
		put(&b, S(",\"amount\":"));
		put_amount(&b, amount);
		put(&b, S("}"));
		u64 p = call(predecessor(), S("ft_transfer"), written(&b), 1, 8 * TGAS);
		buf back = buffer(64);
		put(&back, S("{\"amount\":"));
		put_amount(&back, amount);
		put(&back, S("}"));
		promise_return(call_then(p, current(), S("value_please"), written(&back), 0, 3 * TGAS));
	} else if (same(msg, S("garbage"))) {
		give(S("{\"no\":\"amount"));
	} else if (same(msg, S("slow"))) {
		for (;;) used_gas();
	} else {
		fail(S("the receiver does not want this"));
	}
}

METHOD(value_please) {
	require_private(current());
	field f[] = {{S("amount")}};
	FIELDS(args(), f);
	give_amount(amount_of(&f[0]));
}

METHOD(deposited) {
	field f[] = {{S("token_id")}, {S("account_id")}};
	FIELDS(args(), f);
	u128 v = 0;
	load_into(deposit_key(text_of(&f[0]), text_of(&f[1])), &v);
	give_amount(v);
}
