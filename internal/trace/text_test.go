package trace

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode"
)

func TestWriteTextShowsTheReport(t *testing.T) {
	r := &Report{Transaction: "TX", Signer: "alice", Receiver: "token", Gas: 5_430_000_000_000, Tokens: "543", Status: json.RawMessage(`{"SuccessValue":""}`),
		Outcomes: []Outcome{
			{ID: "TX", Predecessor: "alice", Executor: "alice", Actions: []string{"FunctionCall"}, Gas: 430_000_000_000, Status: json.RawMessage(`{"SuccessReceiptId":"R"}`)},
			{ID: "R", Parent: "TX", Depth: 1, Predecessor: "alice", Executor: "token", Actions: []string{"FunctionCall"}, Gas: 5e12, Status: json.RawMessage(`{"SuccessValue":""}`),
				Logs: []string{"hello"}, Calls: []*Call{{Method: "m", Gas: 3e12, Prepaid: 30e12, Wasm: 1e12, Deposit: "1", Omitted: 7, Host: []HostCall{
					{Name: "storage_write", Gas: 64e9, Entry: &Entry{Key: []byte("key"), Value: []byte{1, 2, 0xff}, Len: 3, Nodes: 4}},
					{Name: "storage_read", Gas: 56e9, Entry: &Entry{Key: []byte{0, 'k'}}},
					{Name: "panic", Gas: 1, Failed: true},
				}}, {Method: "n", Gas: 1e9, Prepaid: 30e12, Deposit: "0", Error: json.RawMessage(`{"E":""}`),
					Missing: MissingImports{{Module: "env", Name: "sha3_256", Since: 87}, {Module: "env", Name: "nope"}}}}},
		}}
	var b strings.Builder
	if err := r.WriteText(&b, 2); err != nil {
		t.Fatal(err)
	}
	want := `transaction TX: what it did
alice -> token   5.4300 Tgas, 0.000000000000000000000543 NEAR burnt   {"SuccessValue":""}
not all of its receipts are executed
signed  TX  alice -> alice  FunctionCall  0.4300 Tgas  {"SuccessReceiptId":"R"}
  receipt R  alice -> token  FunctionCall  5.0000 Tgas  {"SuccessValue":""}
      call m  3.0000 Tgas of 30.0000 Tgas: wasm 1.0000 Tgas, deposit 0.000000000000000000000001 NEAR
        storage_write             0.0640 Tgas  "key" = 0x0102ff  4 trie nodes
        storage_read              0.0560 Tgas  "\x00k" is absent
        ... 8 more host calls
      call n  0.0010 Tgas of 30.0000 Tgas: wasm 0.0000 Tgas  {"E":""}
        missing import env.sha3_256 (since protocol version 87)
        missing import env.nope (no known protocol version has it)
      log hello
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := r.WriteText(broken{}, 0); err == nil {
		t.Error("the writer's error was not returned")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

// TestHostileReportIsPrintable: a report whose every text has control characters, and whose numbers
// are impossible, is printable.
func TestHostileReportIsPrintable(t *testing.T) {
	const bad = "\x1b[2J\u202e\n\r\x07"
	raw := json.RawMessage(`"` + "\u202e\u009b" + `"`)
	r := &Report{Transaction: bad, Signer: bad, Receiver: bad, Tokens: bad, Status: raw}
	for _, depth := range []int{-1, 0, 1 << 40} {
		r.Outcomes = append(r.Outcomes, Outcome{ID: bad, Depth: depth, Predecessor: bad, Executor: bad,
			Actions: []string{bad, bad}, Status: raw, Logs: []string{bad},
			Calls: []*Call{{Method: bad, Deposit: bad, Error: raw, Omitted: -1, Missing: MissingImports{{Module: bad, Name: bad, Types: bad}},
				Host: []HostCall{{Name: bad, Entry: &Entry{Key: []byte(bad), Value: []byte(bad), Len: -1}}}}}})
	}
	var b strings.Builder
	if err := r.WriteText(&b, 0); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(b.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || b.Len() > 10_000 {
		t.Errorf("%d bytes, not printable at %d: %q", b.Len(), i, b.String())
	}
	if n := strings.Count(b.String(), "\n"); n != 3+3*5 {
		t.Errorf("%d lines: %q", n, b.String())
	}
}
