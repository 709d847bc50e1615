package txtext

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/troupe-chain/troupe/primitives"
)

func TestLineEscapesAndShortens(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"plain text, ünïcode 漢字", "plain text, ünïcode 漢字"},
		{"two\nlines\r\t", `two\nlines\x0d\t`},
		{"\x1b[31mred\x07", `\x1b[31mred\x07`},
		{"a\u202eb\u200f", `a\u202eb\u200f`},
		{"\xff\xfeab", `\xff\xfeab`},
		{"\U000e0001", `\U000e0001`},
		{strings.Repeat("x", 50), strings.Repeat("x", 40) + "... (50 bytes)"},
		{strings.Repeat("x", 39) + "漢", strings.Repeat("x", 39) + "... (42 bytes)"},
		{"", ""},
	} {
		if got := Line(c.in, 40); got != c.want {
			t.Errorf("Line(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\x1b[2J\u202e\xff", 5)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = max(limit, 0) % 1000
		for _, r := range Line(text, limit) {
			if !unicode.IsPrint(r) {
				t.Fatalf("Line(%q, %d) contains %q", text, limit, r)
			}
		}
	})
}

func TestLinesKeepsLineEndsAndTabs(t *testing.T) {
	for in, want := range map[string]string{
		"one":                      "one",
		"a\x1b[2J\n\tb\tc\n\u202e": "a\\x1b[2J\n\tb\\tc\n\\u202e",
		strings.Repeat("x\n", 200): strings.Repeat("x\n", 100) + "... (201 lines)",
	} {
		if got := Lines(in); got != want {
			t.Errorf("Lines(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestDeepJSONIsNotIndented: the indentation of deeply nested JSON does not multiply the size of
// the text. Bytes that are not UTF-8, which some terminals obey, are replaced.
func TestDeepJSONIsNotIndented(t *testing.T) {
	for levels, lines := range map[int]int{1: 4, maxIndent: 2*maxIndent + 2, maxIndent + 1: 1, 9000: 1} {
		in := strings.Repeat("[", levels) + `1,"[[\"["` + strings.Repeat("]", levels)
		out, err := JSON([]byte(in))
		if n := strings.Count(string(out), "\n"); err != nil || n != lines {
			t.Errorf("%d levels: %d lines, want %d, %v", levels, n, lines, err)
		}
	}
	if out, err := JSON([]byte("\"\x9b31m\"")); err != nil || string(out) != "\"\ufffd31m\"\n" {
		t.Errorf("output %q, error %v", out, err)
	}
}

// FuzzJSON: the output is printable and has the same meaning as the input.
func FuzzJSON(f *testing.F) {
	f.Add(`{"a\u009b":["\U000e0001\u202e","x\u007f"]}`)
	f.Add("{\"a\u009b\":[\"\U000e0001\u202e\",\"x\u007f\"]}")
	f.Fuzz(func(t *testing.T, text string) {
		out, err := JSON([]byte(text))
		if valid := json.Valid([]byte(text)); valid != (err == nil) {
			t.Fatalf("%q: valid %v, %v", text, valid, err)
		}
		if err != nil {
			return
		}
		for _, r := range string(out) {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q contains %q", out, r)
			}
		}
		var was, is any
		for _, x := range []struct {
			text string
			into *any
		}{{text, &was}, {string(out), &is}} {
			d := json.NewDecoder(strings.NewReader(x.text))
			d.UseNumber()
			if err := d.Decode(x.into); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(was, is) {
			t.Fatalf("%q became %q", text, out)
		}
	})
}

func TestNEARIsWrittenAndParsed(t *testing.T) {
	for _, c := range []struct{ yocto, exact, short string }{
		{"0", "0 NEAR", "0 NEAR"},
		{"1", "0.000000000000000000000001 NEAR", "1 yoctoNEAR"},
		{"999999", "0.000000000000000000999999 NEAR", "999999 yoctoNEAR"},
		{"1000000", "0.000000000000000001 NEAR", "<0.00001 NEAR"},
		{"1500000000000000000000000", "1.5 NEAR", "1.5 NEAR"},
		{"1000000000000000000000001", "1.000000000000000000000001 NEAR", "1 NEAR"},
		{"240000000000000000000", "0.00024 NEAR", "0.00024 NEAR"},
		{"340282366920938463463374607431768211455", "340282366920938.463463374607431768211455 NEAR", "340282366920938.46346 NEAR"},
	} {
		b := primitives.MustParseBalance(c.yocto)
		if NEAR(b) != c.exact || ShortNEAR(b) != c.short {
			t.Errorf("%s: %q and %q, want %q and %q", c.yocto, NEAR(b), ShortNEAR(b), c.exact, c.short)
		}
		for _, text := range []string{c.exact, c.yocto + " yocto", c.yocto + "y", c.yocto + "yoctoNEAR", strings.TrimSuffix(c.exact, " NEAR")} {
			if got, err := ParseNEAR(text); err != nil || got != b {
				t.Errorf("ParseNEAR(%q) = %v, %v, want %v", text, got, err, b)
			}
		}
	}
	for _, bad := range []string{"", ".", "NEAR", "1.5.5", "-1", "+1", "1e3", "1,5", "0.0000000000000000000000001", "1.5yocto", "yocto", "340282366920939", "x"} {
		if got, err := ParseNEAR(bad); err == nil {
			t.Errorf("ParseNEAR(%q) = %v, want an error", bad, got)
		}
	}
}

func TestFailureIsOneReadableLine(t *testing.T) {
	for _, c := range []struct{ json, want string }{
		{`{"ActionError":{"index":0,"kind":{"FunctionCallError":{"ExecutionError":"Smart contract panicked: no\nway"}}}}`, `Smart contract panicked: no\nway`},
		{`{"ActionError":{"index":0,"kind":{"FunctionCallError":{"MethodResolveError":"MethodNotFound"}}}}`, "MethodNotFound"},
		{`{"ActionError":{"index":0,"kind":{"AccountDoesNotExist":{"account_id":"a.near"}}}}`, "AccountDoesNotExist: account_id a.near"},
		{`{"InvalidTxError":"Expired"}`, "Expired"},
		{`{"InvalidTxError":{"InvalidNonce":{"tx_nonce":1,"ak_nonce":2}}}`, "InvalidNonce: ak_nonce 2, tx_nonce 1"},
		{`{"TxExecutionError":{"InvalidTxError":{"NotEnoughBalance":{"balance":"1","cost":"2500000000000000000000000","signer_id":"a.near"}}}}`, "NotEnoughBalance: balance 1 yoctoNEAR, cost 2.5 NEAR, signer_id a.near"},
		{`{"ActionError":{"index":0,"kind":{"LackBalanceForState":{"account_id":"a","amount":"x"}}}}`, "LackBalanceForState: account_id a, amount x"},
		{`{"ActionError":{"index":0,"kind":{"FunctionCallError":{"CompilationError":{"CodeDoesNotExist":{"account_id":"a"}}}}}}`, `CompilationError: CodeDoesNotExist {"account_id":"a"}`},
		{`[1,2]`, "[1,2]"},
	} {
		if got := Failure(json.RawMessage(c.json)); got != c.want {
			t.Errorf("Failure(%s) = %q, want %q", c.json, got, c.want)
		}
	}
}

const status = `{"final_execution_status":"FINAL","status":{"SuccessValue":"IjEi"},
"transaction":{"hash":"T","signer_id":"alice.near","receiver_id":"ft.near","actions":[{"FunctionCall":{"method_name":"go","args":"eyJhIjoxfQ==","gas":1,"deposit":"1"}},"CreateAccount"]},
"transaction_outcome":{"id":"T","outcome":{"executor_id":"alice.near","gas_burnt":1000000000000,"tokens_burnt":"100000000000000000000","logs":[],"receipt_ids":["R"],"status":{"SuccessReceiptId":"R"}}},
"receipts_outcome":[
{"id":"R","outcome":{"executor_id":"ft.near","gas_burnt":2500000000000,"tokens_burnt":"0","logs":["one\u001b[2J","two"],"receipt_ids":["X","S","P"],"status":{"SuccessValue":"IjEi"}}},
{"id":"X","outcome":{"executor_id":"bob.near","gas_burnt":1,"tokens_burnt":"0","logs":[],"receipt_ids":["R"],"status":{"Failure":{"ActionError":{"index":0,"kind":{"AccountDoesNotExist":{"account_id":"bob.near"}}}}}}},
{"id":"S","outcome":{"executor_id":"alice.near","gas_burnt":1,"tokens_burnt":"0","logs":[],"receipt_ids":[],"status":{"SuccessValue":""}}}],
"receipts":[
{"receipt_id":"R","predecessor_id":"alice.near","receiver_id":"ft.near","receipt":{"Action":{"actions":[{"FunctionCall":{"method_name":"go","args":"/w==","gas":1,"deposit":"0"}}]}}},
{"receipt_id":"X","predecessor_id":"ft.near","receiver_id":"bob.near","receipt":{"Action":{"actions":[{"Transfer":{"deposit":"1000000000000000000000000"}}]}}},
{"receipt_id":"S","predecessor_id":"system","receiver_id":"alice.near","receipt":{"Action":{"actions":[{"Transfer":{"deposit":"5"}}]}}}]}`

func TestStatusIsShownAsTree(t *testing.T) {
	s, err := ParseStatus([]byte(status))
	if err != nil {
		t.Fatal(err)
	}
	want := `transaction T  FINAL
alice.near -> ft.near  go({"a":1}) with 1 yoctoNEAR, CreateAccount  ok  3.5 Tgas, 0.0001 NEAR burnt
  receipt R  ft.near  go(1 bytes)  ok  2.5 Tgas
      log one\x1b[2J
      log two
    receipt X  bob.near  Transfer 1 NEAR  failed: AccountDoesNotExist: account_id bob.near  0 Tgas
returned "1"
`
	if got := s.Text(false); got != want {
		t.Errorf("Text:\n%s\nwant\n%s", got, want)
	}
	if got := s.Text(true); !strings.Contains(got, "receipt S  alice.near  Transfer 5 yoctoNEAR  ok") ||
		!strings.Contains(got, "receipt P    pending") {
		t.Errorf("Text of all receipts lacks the refund or the pending receipt:\n%s", got)
	}
	if _, err := ParseStatus([]byte(`{"final_execution_status":"NONE"}`)); err == nil {
		t.Error("a status without a transaction is accepted")
	}
}

// FuzzStatus: whatever a node replies, the text consists of printable lines and is bounded.
func FuzzStatus(f *testing.F) {
	f.Add([]byte(status))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := ParseStatus(in)
		if err != nil {
			return
		}
		for line := range strings.Lines(s.Text(true)) {
			for _, r := range strings.TrimSuffix(line, "\n") {
				if !unicode.IsPrint(r) {
					t.Fatalf("%q contains %q", line, r)
				}
			}
		}
	})
}
