package rpc

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestSyntaxErrorsAreSerdeJSONs: the texts are serde_json's. Those of rows marked L are recorded
// (wire.jsonl.gz), the others follow its source.
func TestSyntaxErrorsAreSerdeJSONs(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		// L26
		{"", "EOF while parsing a value at line 1 column 0"},
		// L27
		{"{not json}", "key must be a string at line 1 column 2"},
		// L28
		{`{"jsonrpc":"2.0"`, "EOF while parsing an object at line 1 column 16"},
		// L67
		{`{"jsonrpc":"2.0","id":"\ud800","method":"health"}`, "id: unexpected end of hex escape at line 1 column 30"},
		{"  ", "EOF while parsing a value at line 1 column 2"},
		{"[", "EOF while parsing a list at line 1 column 1"},
		{"[1", "EOF while parsing a list at line 1 column 2"},
		{"[1,", "EOF while parsing a value at line 1 column 3"},
		{"[1,]", "trailing comma at line 1 column 4"},
		{"[1 2]", "expected `,` or `]` at line 1 column 4"},
		{`{"a" 1}`, "a: expected `:` at line 1 column 6"},
		{`{"a":1,}`, "trailing comma at line 1 column 8"},
		{`{"a":1 "b":2}`, "expected `,` or `}` at line 1 column 8"},
		{`{"a":{"b":[0,x]}}`, "a.b[1]: expected value at line 1 column 14"},
		{"\n\n  nul", "EOF while parsing a value at line 3 column 5"},
		{"nulx", "expected ident at line 1 column 4"},
		{"01", "invalid number at line 1 column 2"},
		{"-", "EOF while parsing a value at line 1 column 1"},
		{"-x", "invalid number at line 1 column 2"},
		{"1.", "EOF while parsing a value at line 1 column 2"},
		{"1.x", "invalid number at line 1 column 3"},
		{"1ex", "invalid number at line 1 column 3"},
		{"1e999", "number out of range at line 1 column 5"},
		{`"ab`, "EOF while parsing a string at line 1 column 3"},
		{"\"a\nb\"", `control character (\u0000-\u001F) found while parsing a string at line 2 column 0`},
		{`"\x"`, "invalid escape at line 1 column 3"},
		{`"\u12"`, "EOF while parsing a string at line 1 column 6"},
		{`"\u12zz"`, "invalid escape at line 1 column 7"},
		{`"\udc00"`, "lone leading surrogate in hex escape at line 1 column 7"},
		{`"\ud800\u0041"`, "lone leading surrogate in hex escape at line 1 column 13"},
		{"\"\xff\"", "invalid unicode code point at line 1 column 3"},
		{"\xff", "expected value at line 1 column 1"},
	} {
		var d document
		err := d.parse([]byte(c.in))
		if err == nil {
			t.Errorf("%q parses, want %s", c.in, c.want)
		} else if got := err.message([]byte(c.in)); got != c.want {
			t.Errorf("%q: %s, want %s", c.in, got, c.want)
		}
	}
}

func TestDeepNestingIsRefused(t *testing.T) {
	nested := func(n int) []byte { return []byte(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	var d document
	if err := d.parse(nested(127)); err != nil {
		t.Errorf("127 containers: %s", err.text)
	}
	if err := d.parse(nested(128)); err == nil || err.text != "recursion limit exceeded" {
		t.Errorf("128 containers: %v", err)
	}
	if err := d.parse(nested(1 << 20)); err == nil {
		t.Error("a million containers parse")
	}
}

func TestParsedValuesAreReadByName(t *testing.T) {
	var d document
	in := `{"a":1,"b":[10,"x\n\u00e9\ud83d\ude00",{}],"a":2,"c":18446744073709551615,"d":18446744073709551616,"e":-3}`
	if err := d.parse([]byte(in)); err != nil {
		t.Fatal(err.text)
	}
	root := val{&d, 0}
	get := func(name string) val { v, _ := root.get(name); return v }
	if n, ok := get("a").uint64(); n != 2 || !ok {
		t.Errorf("a = %d, %v, want the last, 2", n, ok)
	}
	if got := string(get("b").item(1).str()); got != "x\né😀" {
		t.Errorf("b[1] = %q", got)
	}
	if n := get("b").len(); n != 3 || !get("b").item(3).isNull() || get("b").item(2).kind() != kObject {
		t.Errorf("b has %d items", n)
	}
	if n, ok := get("c").uint64(); n != 1<<64-1 || !ok {
		t.Errorf("c = %d, %v", n, ok)
	}
	if _, ok := get("d").uint64(); ok || !get("d").isFloat() || get("e").isFloat() {
		t.Error("2^64 is a float, -3 is none")
	}
	if _, ok := root.get("x"); ok {
		t.Error("there is no x")
	}
}

func TestIDIsEchoedAsSerdeJSONWritesIt(t *testing.T) {
	for in, want := range map[string]string{
		`{"b": 1, "a": [ true , null ]}`: `{"a":[true,null],"b":1}`, `"\u0041\n"`: `"A\n"`, `1.50`: `1.5`, `2.0`: `2.0`, `1e2`: `100.0`, `-0`: `-0.0`,
		`1e16`: `1e16`, `1.5e-7`: `1.5e-7`, `123456789012345680000`: `1.2345678901234568e20`, `12345678901234567890`: `12345678901234567890`,
		`{"a":1,"a":2}`: `{"a":2}`,
	} {
		var d document
		if err := d.parse([]byte(in)); err != nil {
			t.Errorf("%s: text %s", in, err.text)
			continue
		}
		if got := string((val{&d, 0}).appendCompact(nil)); got != want {
			t.Errorf("%s comes back as %s, want %s", in, got, want)
		}
	}
}

// FuzzScan: encoding/json accepts what the scanner accepts, with the same value.
func FuzzScan(f *testing.F) {
	for _, s := range []string{"", "{}", `{"a":[1,2.5e3,"x\u00e9"],"b":null}`, "[[[", `"\ud800\udc00"`, "tru", "-0.0e-1", "\"\xff\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var d document
		if err := d.parse(in); err != nil {
			_ = err.message(in)
			return
		}
		text := (val{&d, 0}).appendCompact(nil)
		if !json.Valid(text) {
			t.Fatalf("%q decodes to %q", in, text)
		}
		var again document
		if err := again.parse(text); err != nil {
			t.Fatalf("%q does not parse again: %s", text, err.text)
		}
		if twice := (val{&again, 0}).appendCompact(nil); string(twice) != string(text) {
			t.Errorf("%q, then %q", text, twice)
		}
	})
}
