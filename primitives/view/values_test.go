package view

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/primitives/genesis"
)

// TestValueViewsAreThoseOfNearPrimitives compares with ../testdata/values.jsonl.gz, made by
// internal/testkit/oracle/answers (command values).
func TestValueViewsAreThoseOfNearPrimitives(t *testing.T) {
	t.Parallel()
	type value struct {
		Type      string          `json:"type"`
		Borsh     string          `json:"borsh"` // hex
		View      json.RawMessage `json:"view"`
		ViewBorsh string          `json:"view_borsh"` // hex
	}
	decode := func(text string, v borsh.Decoder) {
		t.Helper()
		in, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := borsh.Unmarshal(in, v); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	// bothOrders checks that a text in StructOrder has the members of the sorted one.
	bothOrders := func(structs, sorted []byte) {
		t.Helper()
		if got := AppendSorted(nil, structs); !bytes.Equal(got, sorted) {
			t.Errorf("%s, sorted %s, want %s", structs, got, sorted)
		}
	}
	inStructs := NewEncoder(StructOrder)
	seen := map[string]int{}
	for v := range testutil.Vectors[value](t, "../testdata/values.jsonl.gz") {
		seen[v.Type]++
		switch v.Type {
		case "account":
			var a primitives.Account
			decode(v.Borsh, &a)
			if got := sortedOrder.account(nil, &a, "", nil); !bytes.Equal(got, v.View) {
				t.Errorf("%s, want %s", got, v.View)
			}
			bothOrders(inStructs.account(nil, &a, "", nil), v.View)
			var members AccountMembers
			if err := json.Unmarshal(v.View, &members); err != nil {
				t.Fatal(err)
			}
			back, err := members.Account()
			if back.Version = a.Version; err != nil || back != a {
				t.Errorf("%s came back as %+v, %v", v.View, back, err)
			}
		case "header":
			var h primitives.BlockHeader
			decode(v.Borsh, &h)
			if got := AppendBlockHeader(nil, &h); !bytes.Equal(got, v.View) {
				t.Errorf("%s, want %s", got, v.View)
			}
			bothOrders(inStructs.BlockHeader(nil, &h), v.View)
		case "action":
			in, err := hex.DecodeString(v.Borsh)
			if err != nil {
				t.Fatal(err)
			}
			a := primitives.ReadAction(borsh.NewReader(in))
			if got := AppendAction(nil, a); !bytes.Equal(got, v.View) {
				t.Errorf("%s, want %s", got, v.View)
			}
			bothOrders(inStructs.action(nil, &a), v.View)
			// Package genesis writes raw actions too.
			record := genesis.AppendRecord(nil, &genesis.PostponedReceiptRecord{Receipt: &primitives.Receipt{
				Body: &primitives.ActionReceipt{Actions: []primitives.Action{a}}}})
			raw := inStructs.action(nil, &a) // of a delegate, whose view and raw form are the same
			switch a.(type) {
			case *primitives.Delegate, *primitives.DelegateV2:
			default:
				raw = inStructs.rawAction(nil, &a)
			}
			if !bytes.Contains(record, append([]byte(`"actions":[`), append(raw, ']')...)) {
				t.Errorf("%s, want %s", record, raw)
			}
			if got := hex.EncodeToString(appendActionBorsh(nil, a)); got != v.ViewBorsh {
				t.Errorf("%s: %s, want %s", v.View, got, v.ViewBorsh)
			}
			if in, err = hex.DecodeString(v.ViewBorsh); err != nil {
				t.Fatal(err)
			}
			r := borsh.NewReader(in)
			if got := readAction(r, nil); r.Close() != nil || !bytes.Equal(got, v.View) {
				t.Errorf("%s: %s, %v, want %s", v.ViewBorsh, got, r.Err(), v.View)
			}
		}
	}
	if seen["account"] < 400 || seen["header"] < 80 || seen["action"] < 600 {
		t.Errorf("only %v", seen)
	}
}
