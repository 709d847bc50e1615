package rpc

import (
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestParamErrorTextsAreNeards: error texts of parameters that are not in the recordings;
// internal/testkit/conformance tests those that are.
func TestParamErrorTextsAreNeards(t *testing.T) {
	s := newServer(t, &fakeNode{}, Options{})
	long := strings.Repeat("9", 30)
	for _, c := range []struct{ method, params, want string }{
		{"block", `{"block_id":"l"}`, "data did not match any variant of untagged enum BlockId"},
		{"block", `{"finality":5}`, "invalid type: integer `5`, expected string or map"},
		{"block", `{"nope":5}`, "unknown variant `nope`, expected one of `block_id`, `finality`, `sync_checkpoint`"},
		{"block", `"finality"`, "invalid type: unit variant, expected newtype variant"},
		{"block", `5`, "invalid type: integer `5`, expected string or map"},
		{"block", `true`, "invalid type: boolean `true`, expected string or map"},
		{"validators", `{"latest":5}`, "invalid type: integer `5`, expected unit"},
		{"validators", `{"epoch_id":5}`, "invalid type: integer `5`, expected base58-encoded 256-bit hash"},
		{"validators", `{"epoch_id":"0OIl"}`, "provided string contained invalid character '0' at byte 0"},
		{"query", `{"request_type":"view_account","finality":"final","account_id":{}}`, "invalid type: map, expected a string"},
		{"query", `{"request_type":"view_account","finality":"final","account_id":1.5}`, "invalid type: floating point `1.5`, expected a string"},
		{"query", `{"request_type":"view_account","finality":"final","account_id":null}`, "invalid type: null, expected a string"},
		{"query", `{"request_type":"view_account","finality":"final","account_id":"a\"b"}`, `invalid value: "a"b", the Account ID contains an invalid character '"' at index 1`},
		{"query", `{"request_type":"view_account","finality":"final","account_id":"a'b"}`, `invalid value: "a'b", the Account ID contains an invalid character '\'' at index 1`},
		{"query", `{"request_type":"view_account","finality":"final","account_id":"aéb"}`, `invalid value: "aéb", the Account ID contains an invalid character 'é' at index 1`},
		{"EXPERIMENTAL_trace_tx", `{}`, "missing field `signed_tx_base64`"},
		{"EXPERIMENTAL_trace_tx", `{"tx_hash":"` + zeroHash + `","profile":"yes"}`, `invalid type: string "yes", expected a boolean`},
		{"sandbox_mine", `{"blocks":0}`, "invalid value: integer `0`, expected from 1 to 10000 blocks"},
		{"sandbox_mine", `[10001]`, "invalid value: integer `10001`, expected from 1 to 10000 blocks"},
		{"sandbox_mine", `{"blocks":"3"}`, "invalid type: string \"3\", expected u64"},
		{"sandbox_patch_state", `{}`, "missing field `records`"},
		{"sandbox_patch_state", `{"records":5}`, "invalid type: integer `5`, expected a sequence"},
		{"sandbox_patch_state", `[[{"Nonsense":{}}]]`, "unknown variant `Nonsense`, expected one of `Account`, `Data`, `Contract`, `AccessKey`, `PostponedReceipt`, `ReceivedData`, `DelayedReceipt`, `GasKeyNonce`"},
		{"sandbox_patch_state", `[[{"Account":{"account_id":"a.near"}}]]`, "missing field `account`"},
		{"sandbox_fast_forward", `{}`, "missing field `delta_height`"},
		{"sandbox_fast_forward", `{"delta_height":-1}`, "invalid value: integer `-1`, expected u64"},
		{"sandbox_mine", `[1,2]`, "invalid type: sequence, expected struct RpcSandboxMineRequest"},
		{"EXPERIMENTAL_simulate_tx", `{}`, "missing field `signed_tx_base64`"},
		{"EXPERIMENTAL_simulate_tx", `{"signed_tx_base64":"` + signedText() + `","skip_signature_check":1}`, "invalid type: integer `1`, expected a boolean"},
		{"EXPERIMENTAL_simulate_tx", `{"signed_tx_base64":"` + signedText() + `","block_id":"x"}`, "data did not match any variant of untagged enum BlockId"},
		{"query", `{"request_type":"view_state","finality":"final","account_id":5,"prefix_base64":"!"}`, "invalid type: integer `5`, expected a string"},
		{"query", `{"request_type":"view_state","finality":"final","account_id":"a.near","prefix_base64":"","limit":-1}`, "invalid value: integer `-1`, expected a nonzero u32"},
		{"query", `{"request_type":"view_state","finality":"final","account_id":"a.near","prefix_base64":"","limit":4294967296}`, "invalid value: integer `4294967296`, expected a nonzero u32"},
		{"query", `{"request_type":"view_state","finality":"final","account_id":"a.near","prefix_base64":"","limit":"3"}`, `invalid type: string "3", expected a nonzero u32`},
		{"query", `{"request_type":"view_state","finality":"final","account_id":"a.near","prefix_base64":"","include_proof":"x"}`, `invalid type: string "x", expected a boolean`},
		{"query", `{"request_type":"view_state","finality":"final","account_id":"a.near","prefix_base64":"","include_proof":null}`, `invalid type: null, expected a boolean`},
		{"query", `{"request_type":"call_function","finality":"final","account_id":"a.near"}`, "missing field `method_name`"},
		{"query", `5`, "invalid type: integer `5`, expected struct RpcQueryRequest"},
		{"query", `[5,""]`, "invalid type: integer `5`, expected a string"},
		{"EXPERIMENTAL_view_account", `{"account_id":5}`, "invalid type: integer `5`, expected a string"},
		{"EXPERIMENTAL_view_account", `[]`, "invalid type: sequence, expected struct RpcViewAccountRequest"},
		{"changes", `{"changes_type":"account_changes","account_ids":"a","finality":"final"}`, `invalid type: string "a", expected a sequence`},
		{"changes", `{"changes_type":"account_changes","account_ids":[5],"finality":"final"}`, "invalid type: integer `5`, expected a string"},
		{"changes", `{"changes_type":"single_access_key_changes","keys":[{}],"finality":"final"}`, "missing field `account_id`"},
		{"changes", `{"changes_type":"single_access_key_changes","keys":[["a.near"]],"finality":"final"}`, "invalid length 1, expected struct AccountWithPublicKey with 2 elements"},
		{"changes", `{"changes_type":"single_access_key_changes","keys":[5],"finality":"final"}`, "invalid type: integer `5`, expected struct AccountWithPublicKey"},
		{"chunk", `[[1,-1]]`, "invalid value: integer `-1`, expected u64"},
		{"chunk", `[[1,2,3]]`, "invalid length 3, expected fewer elements in array"},
		{"chunk", `[[]]`, "invalid length 0, expected a tuple of size 2"},
		{"chunk", `["zz"]`, "invalid length 2, expected base58-encoded 256-bit hash"},
		{"gas_price", `{"block_id":` + long + `}`, "data did not match any variant of untagged enum BlockId"},
		{"tx", `["zz","a.near"]`, "invalid length 2, expected base58-encoded 256-bit hash"},
		{"tx", `[5]`, "invalid type: integer `5`, expected a string"},
		{"tx", `{"wait_until":null}`, "invalid type: null, expected string or map"},
		{"send_tx", `["a",5]`, "invalid type: integer `5`, expected a string"},
		{"send_tx", `"a"`, `invalid type: string "a", expected struct RpcSendTransactionRequest`},
		{"send_tx", `["a","b","c"]`, "invalid type: integer"},
		{"light_client_proof", `{"light_client_head":"11111111111111111111111111111111","type":"x"}`, "unknown variant `x`, expected `transaction` or `receipt`"},
		{"light_client_proof", `{"light_client_head":"11111111111111111111111111111111","type":"receipt","receipt_id":"11111111111111111111111111111111"}`, "missing field `receiver_id`"},
		{"EXPERIMENTAL_receipt", `[]`, "invalid length 0, expected struct ReceiptReference with 1 element"},
		{"EXPERIMENTAL_light_client_block_proof", `["11111111111111111111111111111111"]`, "invalid length 1, expected struct RpcLightClientBlockProofRequest with 2 elements"},
		{"next_light_client_block", `null`, "invalid type: null, expected struct RpcLightClientNextBlockRequest"},
	} {
		want := "Failed parsing args: " + c.want
		if c.params == `["a","b","c"]` {
			want = "Failed parsing args: the value could not decoded from base64 due to: "
		}
		status, reply := callMethod(s, c.method, c.params)
		text := string(view.AppendString(nil, want))
		if status != 400 || !strings.Contains(reply, text[:len(text)-1]) {
			t.Errorf("%s %s: %d %s\nwant %s", c.method, c.params, status, reply, want)
		}
	}
}

func parsed[P any](t *testing.T, m Method[P], params string) P {
	t.Helper()
	var d document
	if err := d.parse([]byte(params)); err != nil {
		t.Fatal(err.text)
	}
	p, err := m.Parse(val{&d, 0})
	if err != nil {
		t.Fatalf("%s %s: error %v", m.Name, params, err)
	}
	return p
}

func TestEquivalentParamFormsAreAccepted(t *testing.T) {
	zero := "11111111111111111111111111111111"
	for _, params := range []string{`[7]`, `{"block_id":7}`} {
		if got := parsed(t, block, params); got != (view.BlockRef{Kind: view.RefHeight, Height: 7}) {
			t.Errorf("block %s = %+v", params, got)
		}
	}
	for params, want := range map[string]view.RefKind{
		`{"finality":"optimistic"}`: view.RefOptimistic, `{"finality":"near-final"}`: view.RefNearFinal, `{"finality":"final"}`: view.RefFinal,
		`{"sync_checkpoint":"genesis"}`: view.RefGenesis, `{"sync_checkpoint":"earliest_available"}`: view.RefEarliest,
		`{"block_id":"` + zero + `"}`: view.RefHash,
	} {
		if got := parsed(t, protocolConfig, params); got.Kind != want {
			t.Errorf("protocol_config %s = %+v", params, got)
		}
	}
	for _, params := range []string{`{"block_id":7,"shard_id":3}`, `[[7,3]]`} {
		if got := parsed(t, chunk, params); got.ByHash || got.ShardID != 3 || got.Block.Height != 7 {
			t.Errorf("chunk %s = %+v", params, got)
		}
	}
	for _, params := range []string{`{"chunk_id":"` + zero + `"}`, `["` + zero + `"]`} {
		if got := parsed(t, chunk, params); !got.ByHash {
			t.Errorf("chunk %s = %+v", params, got)
		}
	}
	for _, params := range []string{`[null]`, `{}`, `{"block_id":null}`} {
		if got := parsed(t, gasPrice, params); got != nil {
			t.Errorf("gas_price %s = %+v", params, got)
		}
	}
	for _, params := range []string{`[null]`, `{"latest":null}`, `"latest"`} {
		if got := parsed(t, validators, params); got.Kind != view.EpochLatest {
			t.Errorf("validators %s = %+v", params, got)
		}
	}
	want := primitives.AccountID("a.near")
	for _, params := range []string{`["account/a.near",""]`, `{"request_type":"view_account","account_id":"a.near","finality":"optimistic"}`} {
		if got := parsed(t, query, params); got.kind != qAccount || got.account != want || got.block.Kind != view.RefOptimistic {
			t.Errorf("query %s = %+v", params, got)
		}
	}
	for params, kind := range map[string]queryKind{
		`["access_key/a.near",""]`: qAccessKeyList, `["access_key/a.near/` + testKey.String() + `",""]`: qAccessKey, `["code/a.near",""]`: qCode,
		`["contract/a.near","5Q"]`: qState, `["call/a.near/m/n","5Q"]`: qCall,
	} {
		if got := parsed(t, query, params); got.kind != kind {
			t.Errorf("query %s = %+v", params, got)
		}
	}
	if got := parsed(t, query, `["call/a.near/m/n","5Q"]`); got.method != "m/n" || string(got.args) != "\xff" {
		t.Errorf("call = %q %q", got.method, got.args)
	}
	if got := parsed(t, tx, `["`+zero+`","a.near"]`); got.Sender != want || got.WaitUntil != view.LevelExecutedOptimistic {
		t.Errorf("tx = %+v", got)
	}
}

// FuzzParams: no method's parameters can make its parser panic, and a refusal is 400.
func FuzzParams(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `null`, `[1]`, `[[1,2]]`, `{"block_id":1}`, `{"finality":"final"}`, `["account/a.near",""]`, `["call/a.near/m","5Q"]`,
		`{"request_type":"view_state","finality":"final","account_id":"a.near","prefix_base64":"YQ==","limit":3,"after_key_base64":"YWI="}`,
		`{"request_type":"view_access_key","block_id":1,"account_id":"a.near","public_key":"ed25519:AKeZjvncdbb6M2CCJxnmdmusNq2S4Fhj64n4jATQH8wr"}`,
		`{"changes_type":"data_changes","account_ids":["a.near"],"key_prefix_base64":"","block_id":1}`, `{"signed_tx_base64":"AAAA"}`, `["AAAA"]`,
		`{"tx_hash":"11111111111111111111111111111111","sender_account_id":"a.near","wait_until":"FINAL"}`, `{"latest":null}`, `"latest"`,
		`{"type":"receipt","receipt_id":"11111111111111111111111111111111","receiver_id":"a.near","light_client_head":"11111111111111111111111111111111"}`,
	} {
		f.Add([]byte(s))
	}
	s := newServer(f, &fakeNode{err: view.ErrNotSynced}, Options{})
	f.Fuzz(func(t *testing.T, params []byte) {
		for i := range methods {
			before := s.metrics.panics.Load()
			status, reply := callMethod(s, methods[i].name, string(params))
			if s.metrics.panics.Load() != before {
				t.Errorf("%s %q panics", methods[i].name, params)
			}
			if !jsonReply(reply) {
				t.Errorf("%s %q: status %d, reply %q", methods[i].name, params, status, reply)
			}
		}
	})
}

// FuzzBody: every POST gets a JSON reply.
func FuzzBody(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `[]`, `[1]`, `{"method":"health"}`, `{"jsonrpc":"2.0","id":1,"method":"status","params":[]}`, `[{"method":"health"},{}]`, `{"id":{"a":[1,1e400]}`,
		`{"jsonrpc":"2.0","method":"nope","id":"\ud83d\ude00"}`,
	} {
		f.Add("/", []byte(s))
		f.Add("/health", []byte(s))
	}
	s := newServer(f, &fakeNode{err: view.ErrNotSynced}, Options{})
	f.Fuzz(func(t *testing.T, path string, body []byte) {
		if path != "/" {
			path = "/block"
		}
		status, reply := post(s, path, string(body))
		if !jsonReply(reply) || s.metrics.panics.Load() != 0 {
			t.Errorf("%s %q: status %d, reply %q", path, body, status, reply)
		}
	})
}

func jsonReply(text string) bool {
	var d document
	return d.parse([]byte(text)) == nil
}
