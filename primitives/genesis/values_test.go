package genesis

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
)

// TestValueRecordsAreThoseOfNearPrimitives compares the JSON of accounts and actions with
// ../testdata/values.jsonl.gz, made by internal/testkit/oracle/answers (command values).
func TestValueRecordsAreThoseOfNearPrimitives(t *testing.T) {
	t.Parallel()
	type value struct {
		Type  string          `json:"type"`
		Borsh *string         `json:"borsh"` // hex; nil: the JSON is refused
		JSON  json.RawMessage `json:"json"`  // a string that holds the text
		Error string          `json:"error"`
	}
	bytesOf := func(v *value) []byte {
		t.Helper()
		out, err := hex.DecodeString(*v.Borsh)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	textOf := func(v *value) (text string) {
		t.Helper()
		if err := json.Unmarshal(v.JSON, &text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	// read parses an account within a record.
	read := func(text string) (*primitives.Account, error) {
		r, err := ParseRecord([]byte(`{"Account":{"account_id":"aa","account":` + text + `}}`))
		if err != nil {
			return nil, err
		}
		return &r.(*AccountRecord).Account, nil
	}
	seen := map[string]int{}
	for v := range testutil.Vectors[value](t, "../testdata/values.jsonl.gz") {
		seen[v.Type]++
		switch v.Type {
		case "account":
			var a primitives.Account
			text := textOf(v)
			if err := borsh.Unmarshal(bytesOf(v), &a); err != nil {
				t.Fatal(err)
			}
			if got := string(appendAccount(nil, &a)); got != text {
				t.Errorf("%s, want %s", got, text)
			}
			if back, err := read(text); err != nil || *back != a {
				t.Errorf("%s read %+v, %v", text, back, err)
			}
		case "account_json":
			text := textOf(v)
			a, err := read(text)
			if (err == nil) != (v.Borsh != nil) {
				t.Errorf("%s: %+v, %v, want %q", text, a, err, v.Error)
				continue
			}
			if err == nil {
				if got := hex.EncodeToString(a.AppendBorsh(nil)); got != *v.Borsh {
					t.Errorf("%s: %s, want %s", text, got, *v.Borsh)
				}
				continue
			}
			if want, _, _ := strings.Cut(v.Error, " at line "); !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
		case "action":
			text := textOf(v)
			a := primitives.ReadAction(borsh.NewReader(bytesOf(v)))
			if got := string(appendAction(nil, a)); got != text {
				t.Errorf("%s, want %s", got, text)
			}
			c := &cursor{b: []byte(text)}
			if back := c.action(true); c.err != nil || !bytes.Equal(primitives.AppendAction(nil, back), bytesOf(v)) {
				t.Errorf("%s read %+v, %v", text, back, c.err)
			}
		}
	}
	if seen["account"] < 400 || seen["account_json"] < 500 || seen["action"] < 600 {
		t.Errorf("only %v", seen)
	}
}
