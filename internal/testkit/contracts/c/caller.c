// Calls other contracts in every way that promises allow.
//
// Arguments, all optional but the first: {"to": account or "all": [accounts], "method", "args": any JSON, "amount": yoctoNEAR,
// "tgas", "callback_tgas", "times", "refund_to"}.
#include "json.h"
#include "store.h"

typedef struct {
	str to, all, method, args, refund_to;
	u128 amount;
	u64 gas, callback_gas, times;
} order;

static order read_order(void) {
	field f[] = {{S("to")}, {S("all")}, {S("method")}, {S("args")}, {S("amount")}, {S("tgas")}, {S("callback_tgas")}, {S("times")}, {S("refund_to")}};
	FIELDS(args(), f);
	order o = {text_or_none(&f[0]), f[1].value, f[2].value.p ? text_of(&f[2]) : S("noop"), f[3].value.p ? f[3].value : S("{}"), text_or_none(&f[8]),
	           f[4].value.p ? amount_of(&f[4]) : 0, number_of(&f[5], 5) * TGAS, number_of(&f[6], 5) * TGAS, number_of(&f[7], 1)};
	return o;
}

static u64 send(const order *o) { return call(o->to, o->method, o->args, o->amount, o->gas); }
static u64 then_report(u64 after, const order *o) { return call_then(after, current(), S("report"), S("{}"), 0, o->callback_gas); }

// Returns what the callee returns.
METHOD(pass) {
	order o = read_order();
	promise_return(send(&o));
}

// Sends, and does not wait.
METHOD(fire) {
	order o = read_order();
	for (u64 i = 0; i < o.times; i++) send(&o);
}

// Sends, and answers with what came back.
METHOD(ask) {
	order o = read_order();
	promise_return(then_report(send(&o), &o));
}

// As ask, but the callback is not returned: the caller gets an empty value at once.
METHOD(ask_aside) {
	order o = read_order();
	then_report(send(&o), &o);
}

// Sends to all at once and answers when all have.
METHOD(join) {
	order o = read_order();
	u64 promises[64], n = 0;
	for (str rest = o.all, item; json_next(&rest, &item);) {
		REQUIRE(n < 64, "too many");
		o.to = json_text(item);
		promises[n++] = send(&o);
	}
	promise_return(then_report(promise_and(ADDRESS(promises), n), &o));
}

// Sends to one after the other, each when the one before has answered.
METHOD(chain) {
	order o = read_order();
	u64 p = ~0ull;
	for (str rest = o.all, item; json_next(&rest, &item);) {
		o.to = json_text(item);
		p = p == ~0ull ? send(&o) : call_then(p, o.to, o.method, o.args, o.amount, o.gas);
	}
	promise_return(then_report(p, &o));
}

// Two calls in one receipt that share what gas is left, one part to three.
METHOD(share) {
	order o = read_order();
	u64 p = promise_batch_create(ARG(o.to));
	promise_batch_action_function_call_weight(p, ARG(o.method), ARG(o.args), ADDRESS(&o.amount), 1, 1);
	promise_batch_action_function_call_weight(p, ARG(o.method), ARG(o.args), ADDRESS(&o.amount), 1, 3);
	promise_return(p);
}

// Sends with someone else to get the deposit back.
METHOD(refund) {
	order o = read_order();
	u64 p = promise_batch_create(ARG(o.to));
	promise_set_refund_to(p, ARG(o.refund_to));
	call_action(p, o.method, o.args, o.amount, o.gas);
	promise_return(p);
}

// Makes promises and then fails: none of them is sent.
METHOD(regret) {
	order o = read_order();
	send(&o);
	fail(S("regretted"));
}

// Calls the other's bounce, which calls back, times times.
METHOD(bounce) {
	order o = read_order();
	if (o.times == 0) {
		give(S("\"landed\""));
		return;
	}
	str back = predecessor();
	buf b = buffer(back.n + o.to.n + 96);
	put(&b, S("{\"to\":"));
	put_text(&b, current());
	put(&b, S(",\"times\":"));
	put_u64(&b, o.times - 1);
	put(&b, S("}"));
	u64 p = promise_batch_create(ARG(o.to));
	u128 nothing = 0;
	promise_batch_action_function_call_weight(p, ARG(S("bounce")), ARG(written(&b)), ADDRESS(&nothing), 0, 1);
	promise_return(p);
}

METHOD(noop) {}

// Returns its input.
METHOD(echo) { give(args()); }

// The callback: [{"ok": length, "value": text} or {"failed": true} ...].
METHOD(report) {
	require_private(current());
	u64 n = promise_results_count();
	buf b = buffer(4096);
	put_byte(&b, '[');
	for (u64 i = 0; i < n; i++) {
		if (i) put_byte(&b, ',');
		if (promise_result(i, 0) != 1) {
			put(&b, S("{\"failed\":true}"));
			continue;
		}
		str v = reg(0);
		put(&b, S("{\"ok\":"));
		put_u64(&b, v.n);
		if (v.n <= 64) {
			put(&b, S(",\"value\":"));
			put_text(&b, v);
		}
		put_byte(&b, '}');
	}
	put_byte(&b, ']');
	say(written(&b));
	give(written(&b));
}
