// JSON: the named fields of an object, without a tree. A field's value is the text it has in the document; strings and
// numbers are read from it when they are asked for. The whole document is checked on the way.
#pragma once
#include "number.h"

// A field that is asked for. After json_fields its value is NONE if the object lacks it or has null there.
typedef struct {
	str name, value;
} field;

typedef struct {
	const u8 *p, *end;
} cursor;

static _Noreturn void bad_json(void) { fail(S("Failed to deserialize input from JSON.")); }

static void skip_space(cursor *c) {
	while (c->p < c->end && (*c->p == ' ' || *c->p == '\n' || *c->p == '\t' || *c->p == '\r')) c->p++;
}

static u8 peek(cursor *c) {
	skip_space(c);
	if (c->p == c->end) bad_json();
	return *c->p;
}

static int accept(cursor *c, u8 want) {
	if (peek(c) != want) return 0;
	c->p++;
	return 1;
}

static void expect(cursor *c, u8 want) {
	if (!accept(c, want)) bad_json();
}

// A string as it stands there, with its quotes.
static str skip_string(cursor *c) {
	const u8 *from = c->p;
	expect(c, '"');
	for (; c->p < c->end && *c->p != '"'; c->p++) {
		if (*c->p < 0x20) bad_json();
		if (*c->p == '\\') c->p++;
	}
	if (c->p >= c->end) bad_json();
	c->p++;
	return (str){from, (u32)(c->p - from)};
}

static void skip_word(cursor *c, str word) {
	if ((u32)(c->end - c->p) < word.n || memcmp(c->p, word.p, word.n)) bad_json();
	c->p += word.n;
}

// Any value; depth bounds the recursion.
static str skip_value(cursor *c, u32 depth) {
	if (depth > 64) bad_json();
	u8 first = peek(c);
	const u8 *from = c->p;
	if (first == '"') {
		skip_string(c);
	} else if (first == '{' || first == '[') {
		u8 close = first + 2; // as ASCII has them
		c->p++;
		if (!accept(c, close)) {
			do {
				if (first == '{') {
					peek(c);
					skip_string(c);
					expect(c, ':');
				}
				skip_value(c, depth + 1);
			} while (accept(c, ','));
			expect(c, close);
		}
	} else if (first == 't') {
		skip_word(c, S("true"));
	} else if (first == 'f') {
		skip_word(c, S("false"));
	} else if (first == 'n') {
		skip_word(c, S("null"));
	} else {
		while (c->p < c->end && ((*c->p >= '0' && *c->p <= '9') || *c->p == '-' || *c->p == '+' || *c->p == '.' || *c->p == 'e' || *c->p == 'E')) c->p++;
		if (c->p == from) bad_json();
	}
	return (str){from, (u32)(c->p - from)};
}

// Reads an object: the values of the fields that are asked for. Others are ignored.
static void json_fields(str doc, field *f, u32 n) {
	cursor c = {doc.p, doc.p + doc.n};
	expect(&c, '{');
	if (!accept(&c, '}')) {
		do {
			peek(&c);
			str name = skip_string(&c);
			name.p++, name.n -= 2;
			expect(&c, ':');
			str value = skip_value(&c, 0);
			for (u32 i = 0; i < n; i++)
				if (same(f[i].name, name)) f[i].value = *value.p == 'n' ? NONE : value;
		} while (accept(&c, ','));
		expect(&c, '}');
	}
	skip_space(&c);
	if (c.p != c.end) bad_json();
}

#define FIELDS(doc, f) json_fields(doc, f, sizeof(f) / sizeof(f[0]))

// Steps through an array: the first call is given the array's text in rest; at the end it returns 0.
static int json_next(str *rest, str *item) {
	cursor c = {rest->p, rest->p + rest->n};
	if (!accept(&c, '[') && !accept(&c, ',')) {
		expect(&c, ']');
		return 0;
	}
	if (peek(&c) == ']') return 0;
	*item = skip_value(&c, 0);
	*rest = (str){c.p, (u32)(c.end - c.p)};
	return 1;
}

static u32 hex4(const u8 *p) {
	u32 v = 0;
	for (u32 i = 0; i < 4; i++) {
		u8 c = p[i];
		u32 d = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : 16;
		if (d == 16) bad_json();
		v = v << 4 | d;
	}
	return v;
}

static void put_rune(buf *b, u32 r) {
	if (r < 0x80) {
		put_byte(b, (u8)r);
		return;
	}
	if (r < 0x800) {
		put_byte(b, (u8)(0xc0 | r >> 6));
	} else {
		if (r < 0x10000) {
			put_byte(b, (u8)(0xe0 | r >> 12));
		} else {
			put_byte(b, (u8)(0xf0 | r >> 18));
			put_byte(b, 0x80 | (r >> 12 & 63));
		}
		put_byte(b, 0x80 | (r >> 6 & 63));
	}
	put_byte(b, 0x80 | (r & 63));
}

// The text of a string value.
static str json_text(str v) {
	if (v.n < 2 || *v.p != '"') bad_json();
	const u8 *p = v.p + 1, *end = v.p + v.n - 1;
	const u8 *q = p;
	while (q < end && *q != '\\') q++;
	if (q == end) return (str){p, (u32)(end - p)}; // no escapes: where it is
	buf b = buffer(v.n);
	while (p < end) {
		if (*p != '\\') {
			put_byte(&b, *p++);
			continue;
		}
		if (end - p < 2) bad_json();
		u8 c = p[1];
		p += 2;
		switch (c) {
		case '"': case '\\': case '/': put_byte(&b, c); break;
		case 'b': put_byte(&b, '\b'); break;
		case 'f': put_byte(&b, '\f'); break;
		case 'n': put_byte(&b, '\n'); break;
		case 'r': put_byte(&b, '\r'); break;
		case 't': put_byte(&b, '\t'); break;
		case 'u': {
			if (end - p < 4) bad_json();
			u32 r = hex4(p);
			p += 4;
			if (r >= 0xd800 && r < 0xdc00) {
				if (end - p < 6 || p[0] != '\\' || p[1] != 'u') bad_json();
				u32 low = hex4(p + 2);
				if (low < 0xdc00 || low > 0xdfff) bad_json();
				r = 0x10000 + ((r - 0xd800) << 10) + (low - 0xdc00);
				p += 6;
			} else if (r >= 0xdc00 && r < 0xe000) {
				bad_json();
			}
			put_rune(&b, r);
			break;
		}
		default: bad_json();
		}
	}
	return written(&b);
}

static _Noreturn void missing(str name) {
	buf b = buffer(64 + name.n);
	put(&b, S("Failed to deserialize input from JSON.: missing field `"));
	put(&b, name);
	put(&b, S("`"));
	fail(written(&b));
}

static str text_of(const field *f) {
	if (f->value.p == 0) missing(f->name);
	return json_text(f->value);
}

// A text that may be left out; NONE then.
static str text_or_none(const field *f) { return f->value.p ? json_text(f->value) : NONE; }
static u128 amount_of(const field *f) { return parse_u128(text_of(f)); }

static u64 number_of(const field *f, u64 otherwise) {
	if (f->value.p == 0) return otherwise;
	u128 v = parse_u128(f->value);
	REQUIRE(v >> 64 == 0, "number too large");
	return (u64)v;
}

static int true_of(const field *f) { return f->value.p && *f->value.p == 't'; }

// Writes a string with quotes and escapes.
static void put_text(buf *b, str s) {
	static const u8 hex[] = "0123456789abcdef";
	put_byte(b, '"');
	for (u32 i = 0; i < s.n; i++) {
		u8 c = s.p[i];
		if (c == '"' || c == '\\') {
			put_byte(b, '\\');
			put_byte(b, c);
		} else if (c < 0x20) {
			put(b, S("\\u00"));
			put_byte(b, hex[c >> 4]);
			put_byte(b, hex[c & 15]);
		} else {
			put_byte(b, c);
		}
	}
	put_byte(b, '"');
}

static void put_amount(buf *b, u128 v) {
	put_byte(b, '"');
	put_u128(b, v);
	put_byte(b, '"');
}
