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
		decoded := func() (j object) {
			d := json.NewDecoder(bytes.NewReader(line))
			d.UseNumber()
			if err := d.Decode(&j); err != nil {
				t.Fatal(err)
			}
			return j
		}
		check := func(want string, j object) {
			text, err := json.Marshal(j)
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
		for i := range decoded()["shards"].([]any) {
			j := decoded()
			shard := j["shards"].([]any)[i].(object)
			if list := shard["receipt_execution_outcomes"].([]any); len(list) > 0 {
				receipt := list[len(list)-1].(object)["receipt"].(object)
				if _, is := receipt["receipt"].(object)["Action"]; is {
					receipt["receiver_id"] = "mallory.near"
					check("receipt.receiver_id", j)
				}
			}
			j = decoded()
			chunk, is := j["shards"].([]any)[i].(object)["chunk"].(object)
			if !is {
				continue
			}
			list := chunk["transactions"].([]any)
			if len(list) > 0 {
				one = list[0]
			} else if one != nil && chunk["header"].(object)["tx_root"] == zeroHash {
				chunk["transactions"] = []any{one}
				check("the root says", j)
			}
			if len(list) > 0 {
				j = decoded()
				list = j["shards"].([]any)[i].(object)["chunk"].(object)["transactions"].([]any)
				list[0].(object)["transaction"].(object)["signer_id"] = "mallory.near"
				check("transaction.signer_id", j)
			}
		}
	}
	if tried["the root says"] < 10 || tried["receipt.receiver_id"] < 10 || tried["transaction.signer_id"] < 10 {
		t.Errorf("tried: %v", tried)
	}
}
