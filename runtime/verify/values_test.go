package verify

import (
	"encoding/hex"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/borsh"
	"github.com/troupe-chain/troupe/runtime/fees"
)

// TestValuesAreThoseOfNearPrimitives compares which transactions are a universal account's first,
// and the counts, deposits and keys of actions, with primitives/testdata/values.jsonl.gz, made by
// internal/testkit/oracle/answers (command values).
func TestValuesAreThoseOfNearPrimitives(t *testing.T) {
	t.Parallel()
	bare := primitives.NewUninitializedAccount(oneN, 100, 0)
	first, other, actions := 0, 0, 0
	for v := range testutil.Vectors[struct {
		Type        string             `json:"type"`
		Borsh       string             `json:"borsh"` // hex
		First       bool               `json:"first"`
		Deposit     primitives.Balance `json:"deposit"`
		Counts      []uint64           `json:"counts"` // entries, keys
		PostQuantum bool               `json:"post_quantum"`
	}](t, "../../primitives/testdata/values.jsonl.gz") {
		if v.Type != "first_transaction" && v.Type != "action" {
			continue
		}
		in, err := hex.DecodeString(v.Borsh)
		if err != nil {
			t.Fatal(err)
		}
		if v.Type == "first_transaction" {
			var tx primitives.Transaction
			if err := borsh.Unmarshal(in, &tx); err != nil {
				t.Fatalf("%s: %v", v.Borsh, err)
			}
			if got := bootstrap(at88(), &tx, &bare); got != v.First {
				t.Errorf("%s: first transaction is %v, want %v", v.Borsh, got, v.First)
			}
			if v.First {
				first++
			} else {
				other++
			}
			continue
		}
		actions++
		a := primitives.ReadAction(borsh.NewReader(in))
		if got := fees.Deposit(a); got != v.Deposit {
			t.Errorf("%s: deposit %v, want %v", v.Borsh, got, v.Deposit)
		}
		if keys, entries := stateInitCounts([]primitives.Action{a}); len(v.Counts) != 2 || entries != v.Counts[0] || keys != v.Counts[1] {
			t.Errorf("%s: %d entries, %d keys, want %v", v.Borsh, entries, keys, v.Counts)
		}
		if got := postQuantum(a); got != v.PostQuantum {
			t.Errorf("%s: post-quantum is %v, want %v", v.Borsh, got, v.PostQuantum)
		}
	}
	if first < 80 || other < 80 || actions < 600 {
		t.Errorf("only %d first transactions, %d others, %d actions", first, other, actions)
	}
}
