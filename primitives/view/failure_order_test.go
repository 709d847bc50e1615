package view

import "testing"

// TestFailureMembersAreInNearcoresOrder: the members of a failure are in the order of nearcore's
// structs.
func TestFailureMembersAreInNearcoresOrder(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"members of a variant", `{"InvalidTxError":{"InvalidNonce":{"ak_nonce":1,"tx_nonce":2}}}`,
			`{"InvalidTxError":{"InvalidNonce":{"tx_nonce":2,"ak_nonce":1}}}`},
		{"objects in a list", `[{"InvalidNonce":{"ak_nonce":1,"tx_nonce":2}},"a"]`, `[{"InvalidNonce":{"tx_nonce":2,"ak_nonce":1}},"a"]`},
		{"escaped text", `{"LackBalanceForState":{"account_id":"\"}","amount":"1","signer_id":"\\"}}`,
			`{"LackBalanceForState":{"signer_id":"\\","account_id":"\"}","amount":"1"}}`},
		{"unknown members follow", `{"ShardStuck":{"aa":{"x":1,"hash":2},"missed_chunks":3,"shard_id":4}}`,
			`{"ShardStuck":{"shard_id":4,"missed_chunks":3,"aa":{"x":1,"hash":2}}}`},
		{"unknown struct", `{"a":[],"b":{},"c":[{"x":1}]}`, `{"a":[],"b":{},"c":[{"x":1}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(NewEncoder(StructOrder).failure(nil, []byte(c.in))); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}
