package stream

import "testing"

// TestOrdered: members come in the order of nearcore's structs wherever package view writes them by name; the recorded messages
// (internal/backend.TestStreamerMessages) have most structs, and these are others.
func TestOrdered(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"#outcome", `{"block_hash":"b","id":"i","outcome":{"executor_id":"a","status":{"Failure":{"InvalidTxError":{"InvalidNonce":{"ak_nonce":1,"tx_nonce":2}}}}},"proof":[{"direction":"Left","hash":"h"}]}`,
			`{"proof":[{"hash":"h","direction":"Left"}],"block_hash":"b","id":"i","outcome":{"executor_id":"a","status":{"Failure":{"InvalidTxError":{"InvalidNonce":{"tx_nonce":2,"ak_nonce":1}}}}}}`},
		{"#receipt", `{"receipt":{"GlobalContractDistribution":{"already_delivered_shards":[1,2],"code":"c","id":{"CodeHash":"x"},"nonce":3,"target_shard":0}},"receipt_id":"r"}`,
			`{"receipt_id":"r","receipt":{"GlobalContractDistribution":{"id":{"CodeHash":"x"},"target_shard":0,"already_delivered_shards":[1,2],"code":"c","nonce":3}}}`},
		// '+' is before 'A' as text, and behind it as a byte of the key.
		{"actions", `[{"DeterministicStateInit":{"code":{"hash":"h"},"data":{"+w==":"1","AA==":"2"},"deposit":"0"}},"CreateAccount"]`,
			`[{"DeterministicStateInit":{"code":{"hash":"h"},"data":{"AA==":"2","+w==":"1"},"deposit":"0"}},"CreateAccount"]`},
		{"permission", `{"GasKeyFunctionCall":[{"balance":"1","num_nonces":2},{"allowance":null,"method_names":["a","\"}"],"receiver_id":"r"}]}`,
			`{"GasKeyFunctionCall":[{"balance":"1","num_nonces":2},{"allowance":null,"receiver_id":"r","method_names":["a","\"}"]}]}`},
		{"unheard of", `{"a":[],"b":{},"c":[{"x":1}]}`, `{"a":[],"b":{},"c":[{"x":1}]}`},
	} {
		if got := string(ordered(nil, c.name, []byte(c.in))); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}
