package rpc

import (
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/primitives/view"
)

// TestSandboxFaultAndTagMethodParams: parameters by name and by position, results, and refusals
// with their reason, of the methods about faults, transaction dumps, mocks and tags.
func TestSandboxFaultAndTagMethodParams(t *testing.T) {
	n := &fakeNode{}
	s := newServer(t, n, Options{})
	key := primitives.SecretKeyFromSeed(primitives.SECP256K1, "a").PublicKey()
	const caseText = `{"records":[{"Contract":{"account_id":"a.near","code":""}},{"Contract":{"account_id":"b.near","code":""}}],"absent":["c.near"],"signed_tx_base64":`
	for _, c := range []struct{ method, params, want string }{
		{"sandbox_miss_chunks", `null`, `"result":{"blocks_left":{"1":0,"3":1}}`},
		{"sandbox_miss_chunks", `{"blocks":0,"shard_ids":[5,6]}`, `"result":{"blocks_left":{"1":2,"3":0}}`},
		{"sandbox_miss_chunks", `{"shard_ids":["a"]}`, `invalid type: string \"a\", expected u64`},
		{"sandbox_reorg", `[]`, `"result":{"reverted":[{"hash":"` + zeroHash + `","height":1},{"hash":`},
		{"sandbox_reorg", `{"blocks":2}`, `,"height":2},{"hash":"` + testHash.String() + `","height":100}],"hash":"` + testHash.String() + `","height":100}`},
		{"sandbox_reorg", `[0]`, "expected from 1 to 10000 blocks"},
		{"sandbox_mock_verification", `null`, `"result":{"ed25519_verify":false,"ecrecover":null,"p256_verify":false}`},
		{"sandbox_mock_verification", fmt.Sprintf(`{"p256_verify":true,"ecrecover":%q}`, key), `"result":{"ed25519_verify":false,"ecrecover":"` + key.String() + `","p256_verify":true}`},
		{"sandbox_mock_verification", fmt.Sprintf(`{"ecrecover":%q}`, testKey), "the key must be of type secp256k1"},
		{"sandbox_tag", `null`, `"result":{}`},
		{"sandbox_tag", `["a"]`, `"result":{"name":"a","omitted":0,"open":true,"transactions":0}`},
		{"sandbox_tag", `{"name":"a","tx_hashes":["` + zeroHash + `"]}`, `"result":{"name":"a","omitted":0,"open":false,"transactions":1}`},
		{"sandbox_tag", `{"name":""}`, `invalid value: a name of 0 bytes`},
		{"sandbox_tags", `null`, `"result":[{"name":"x","omitted":5,"open":false,"transactions":4},{"name":"y",`},
		{"sandbox_drop_tag", `["a"]`, `"result":{}`},
		{"sandbox_profile", `{"name":"a"}`, `"result":{"of":"a"}`},
		{"sandbox_dump_transaction", `{"tx_hash":"` + zeroHash + `","sender_account_id":"a.near"}`, caseText},
		{"sandbox_dump_transaction", `["` + zeroHash + `"]`, `"timestamp_nanosec":"5","outcomes":[{"executor_id":"a.near","gas_burnt":7,"gas_trie_nodes":2,"logs":["l"],"status":{"SuccessValue":""}},{"executor_id"`},
		{"sandbox_dump_transaction", `["` + zeroHash + `"]`, `],"same":false,"differs":"odd","hash":"` + testHash.String() + `","height":100}`},
		{"sandbox_replay_transaction", `{"records":[]}`, "missing field `signed_tx_base64`"},
	} {
		if _, got := callMethod(s, c.method, c.params); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: %s, want %s", c.method, c.params, got, c.want)
		}
	}
	callMethod(s, "sandbox_mock_verification", `{"ed25519_verify":false}`)
	if n.mocks != nil {
		t.Errorf("no mocks are passed as %+v", n.mocks)
	}
	// The dump is the parameter of the replay.
	_, dumped := callMethod(s, "sandbox_dump_transaction", `["`+zeroHash+`"]`)
	_, dumped, _ = strings.Cut(dumped, `"result":`)
	dumped = strings.TrimSuffix(dumped, `,"id":1}`)
	if _, got := callMethod(s, "sandbox_replay_transaction", dumped); !strings.Contains(got, `"result":{"tx_hash":"`+testHash.String()+`","same":true}`) {
		t.Errorf("replayed: %s", got)
	}
	was, _ := n.DumpTransaction(t.Context(), nil)
	if c := n.replayed; len(c.Records) != 2 || len(c.Absent) != 1 || c.Tx.Hash() != was.Tx.Hash() || c.Timestamp != 5 || view.DeedsDiffer(was.Outcomes, c.Outcomes) != "" || c.Outcomes[1].Nodes != 2 {
		t.Errorf("received %+v, want %+v", c, was)
	}
	n.err = &view.SandboxError{Reason: "because"}
	for _, method := range []string{"sandbox_miss_chunks", "sandbox_reorg", "sandbox_mock_verification", "sandbox_tag", "sandbox_tags", "sandbox_drop_tag", "sandbox_profile",
		"sandbox_dump_transaction", "sandbox_replay_transaction"} {
		if _, got := callMethod(s, method, goodParams[method]); !strings.Contains(got, `"cause":{"info":{"reason":"because"},"name":"SANDBOX_REFUSED"}`) {
			t.Errorf("%s refused: %s", method, got)
		}
	}
}
