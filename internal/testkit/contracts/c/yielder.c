// Promises to itself that wait for an answer: by the id that the node makes, and by names.
//
// Storage: n how many were asked; y ‖ number: data id.
#include "json.h"
#include "store.h"

static void number_key(u64 n, u8 out[9]) {
	out[0] = 'y';
	memcpy(out + 1, &n, 8);
}

static str prompt_of(str in) {
	field f[] = {{S("prompt")}};
	FIELDS(in, f);
	return text_of(&f[0]);
}

// Waits for an answer; the number to answer by is logged. The result is that of on_answer.
METHOD(ask) {
	str in = args();
	prompt_of(in);
	u64 n = 0;
	load_into(S("n"), &n);
	u64 p = promise_yield_create(ARG(S("on_answer")), ARG(in), 5 * TGAS, 0, 1);
	u8 key[9];
	number_key(n, key);
	storage_write(9, ADDRESS(key), ~0ull, 1, 2);
	n++;
	save(S("n"), (str){(const u8 *)&n, 8});
	buf b = buffer(64);
	put(&b, S("asked "));
	put_u64(&b, n - 1);
	say(written(&b));
	promise_return(p);
}

METHOD(answer) {
	field f[] = {{S("number")}, {S("text")}};
	FIELDS(args(), f);
	str text = text_of(&f[1]);
	u8 key[9];
	number_key(number_of(&f[0], 0), key);
	u8 id[32];
	REQUIRE(load_into((str){key, 9}, id), "nobody asked this");
	give(promise_yield_resume(32, ADDRESS(id), ARG(text)) ? S("true") : S("false"));
}

static void id_of(const field *name, u8 out[32]) {
	sha256(ARG(text_of(name)), 1);
	read_register(1, ADDRESS(out));
}

// As ask, under a name of the caller's choice; false if the name is waiting already.
METHOD(ask_named) {
	field f[] = {{S("name")}, {S("prompt")}};
	str in = args();
	FIELDS(in, f);
	text_of(&f[1]);
	u8 id[32];
	id_of(&f[0], id);
	u128 nothing = 0;
	u64 p = promise_yield_create_with_id(ARG(S("on_answer")), ARG(in), ADDRESS(&nothing), 5 * TGAS, 0, 32, ADDRESS(id));
	if (p == ~0ull) give(S("false"));
	else promise_return(p);
}

METHOD(answer_named) {
	field f[] = {{S("name")}, {S("text")}};
	FIELDS(args(), f);
	str text = text_of(&f[1]);
	u8 id[32];
	id_of(&f[0], id);
	give(promise_yield_resume_with_yield_id(32, ADDRESS(id), ARG(text)) ? S("true") : S("false"));
}

// Asks and answers in one call: the yield is resumed before it is stored.
METHOD(ask_and_answer) {
	str in = args(), prompt = prompt_of(in);
	u64 p = promise_yield_create(ARG(S("on_answer")), ARG(in), 5 * TGAS, 0, 1);
	str id = reg(1);
	REQUIRE(promise_yield_resume(ARG(id), ARG(prompt)), "there must be a yield to resume");
	promise_return(p);
}

METHOD(on_answer) {
	require_private(current());
	str prompt = prompt_of(args());
	int answered = promise_result(0, 0) == 1;
	str text = answered ? reg(0) : S("");
	buf b = buffer(6 * (prompt.n + text.n) + 64);
	put(&b, S("{\"prompt\":"));
	put_text(&b, prompt);
	put(&b, answered ? S(",\"answer\":") : S(",\"timeout\":true"));
	if (answered) put_text(&b, text);
	put(&b, S("}"));
	say(written(&b));
	give(written(&b));
}
