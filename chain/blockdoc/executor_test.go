package blockdoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestAccountsOfOutcomesAreProven: a transaction with another signer and a receipt with another receiver
// than those of its outcome are refused, and so are transactions in a chunk that has none: no other hash in
// a document covers them.
func TestAccountsOfOutcomesAreProven(t *testing.T) {
	t.Parallel()
	s := readStream(t)
	type object = map[string]any
	tried := map[string]int{}
	var one any // a transaction with its outcome
	for _, line := range s.lines[1:400] {
		var j object
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.UseNumber()
		if err := decoder.Decode(&j); err != nil {
			t.Fatal(err)
		}
		// check requires that Check refuses j with the member replaced.
		check := func(want string, of object, member string, value any) {
			was := of[member]
			of[member] = value
			text, err := json.Marshal(j)
			of[member] = was
			if err != nil {
				t.Fatal(err)
			}
			d, err := Parse(text)
			if err == nil {
				_, err = d.Check(Known{})
			}
			if tried[want]++; !errors.As(err, new(*MismatchError)) || !strings.Contains(err.Error(), want) {
				t.Fatalf("%s: %v", want, err)
			}
		}
		for _, x := range j["shards"].([]any) {
			shard := x.(object)
			if list := shard["receipt_execution_outcomes"].([]any); len(list) > 0 {
				receipt := list[len(list)-1].(object)["receipt"].(object)
				if _, is := receipt["receipt"].(object)["Action"]; is {
					check("receipt.receiver_id", receipt, "receiver_id", "mallory.near")
				}
			}
			chunk, is := shard["chunk"].(object)
			if !is {
				continue
			}
			list := chunk["transactions"].([]any)
			switch {
			case len(list) > 0:
				one = list[0]
				check("transaction.signer_id", list[0].(object)["transaction"].(object), "signer_id", "mallory.near")
			case one != nil && chunk["header"].(object)["tx_root"] == zeroHash:
				check("the root says", chunk, "transactions", []any{one})
			}
		}
	}
	if tried["the root says"] < 10 || tried["receipt.receiver_id"] < 10 || tried["transaction.signer_id"] < 10 {
		t.Errorf("tried: %v", tried)
	}
}
