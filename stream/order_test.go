package stream

import "testing"

// TestMembersAreInNearcoresOrder: members are in the order of nearcore's structs wherever package
// view writes them by name. The recorded messages
// (internal/backend.TestStreamerMessagesEqualNearcores) cover most structs; these are the others.
func TestMembersAreInNearcoresOrder(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"#outcome", `{"block_hash":"b","id":"i","outcome":{"executor_id":"a","status":{"Failure":{"InvalidTxError":{"InvalidNonce":{"ak_nonce":1,"tx_nonce":2}}}}},"proof":[{"direction":"Left","hash":"h"}]}`,
			`{"proof":[{"hash":"h","direction":"Left"}],"block_hash":"b","id":"i","outcome":{"executor_id":"a","status":{"Failure":{"InvalidTxError":{"InvalidNonce":{"tx_nonce":2,"ak_nonce":1}}}}}}`},
		{"#receipt", `{"receipt":{"GlobalContractDistribution":{"already_delivered_shards":[1,2],"code":"c","id":{"CodeHash":"x"},"nonce":3,"target_shard":0}},"receipt_id":"r"}`,
			`{"receipt_id":"r","receipt":{"GlobalContractDistribution":{"id":{"CodeHash":"x"},"target_shard":0,"already_delivered_shards":[1,2],"code":"c","nonce":3}}}`},
		// '+' is before 'A' as text, and after it as a byte of the key.
		{"actions", `[{"DeterministicStateInit":{"code":{"hash":"h"},"data":{"+w==":"1","AA==":"2"},"deposit":"0"}},"CreateAccount"]`,
			`[{"DeterministicStateInit":{"code":{"hash":"h"},"data":{"AA==":"2","+w==":"1"},"deposit":"0"}},"CreateAccount"]`},
		{"permission", `{"GasKeyFunctionCall":[{"balance":"1","num_nonces":2},{"allowance":null,"method_names":["a","\"}"],"receiver_id":"r"}]}`,
			`{"GasKeyFunctionCall":[{"balance":"1","num_nonces":2},{"allowance":null,"receiver_id":"r","method_names":["a","\"}"]}]}`},
		{"#receipt", `{"receiver_id":1,"predecessor_id":2,"zz":3,"aa":{"x":1,"hash":2}}`, `{"predecessor_id":2,"receiver_id":1,"zz":3,"aa":{"x":1,"hash":2}}`},
		{"#header", `{"prev_last_certified_block_epoch_id":"e","shard_split":null,"spice_chunk_endorsement_stats":[{"expected":2,"produced":1}]}`,
			`{"shard_split":null,"prev_last_certified_block_epoch_id":"e","spice_chunk_endorsement_stats":[{"produced":1,"expected":2}]}`},
		{"unheard of", `{"a":[],"b":{},"c":[{"x":1}]}`, `{"a":[],"b":{},"c":[{"x":1}]}`},
	} {
		if got := string(ordered(nil, c.name, []byte(c.in))); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// BenchmarkOrdered puts the texts of a receipt with its outcome in order: some 2 KiB, of which a
// block has many.
func BenchmarkOrdered(b *testing.B) {
	proof := ""
	for i := range 8 {
		if i > 0 {
			proof += ","
		}
		proof += `{"direction":"Left","hash":"6DSjZ8mvsRZDvFqFxo8tCKePG96omXW7eVYVSySmDk8e"}`
	}
	outcome := []byte(`{"block_hash":"6DSjZ8mvsRZDvFqFxo8tCKePG96omXW7eVYVSySmDk8e","id":"6DSjZ8mvsRZDvFqFxo8tCKePG96omXW7eVYVSySmDk8e","outcome":{"executor_id":"alice.near","gas_burnt":223182562500,"logs":[],"metadata":{"gas_profile":[{"cost":"BASE","cost_category":"WASM_HOST_COST","gas_used":"5"}],"version":3},"receipt_ids":["6DSjZ8mvsRZDvFqFxo8tCKePG96omXW7eVYVSySmDk8e"],"status":{"SuccessValue":""},"tokens_burnt":"22318256250000000000"},"proof":[` + proof + `]}`)
	receipt := []byte(`{"predecessor_id":"alice.near","priority":0,"receipt":{"Action":{"actions":[{"Transfer":{"deposit":"1"}}],"gas_price":"100000000","input_data_ids":[],"is_promise_yield":false,"output_data_receivers":[],"signer_id":"alice.near","signer_public_key":"ed25519:6DSjZ8mvsRZDvFqFxo8tCKePG96omXW7eVYVSySmDk8e"}},"receipt_id":"6DSjZ8mvsRZDvFqFxo8tCKePG96omXW7eVYVSySmDk8e","receiver_id":"bob.near"}`)
	b.SetBytes(int64(len(outcome) + len(receipt)))
	var out []byte
	var o orderer
	for b.Loop() {
		out = o.value(out[:0], "#outcome", outcome)
		out = o.value(out, "#receipt", receipt)
	}
}
