package view

import (
	"encoding/json"
	"errors"
	"testing"
)

// TestContradictingAccountIsRefused: replies of other nodes may contradict themselves.
func TestContradictingAccountIsRefused(t *testing.T) {
	t.Parallel()
	const code = `"11111111111111111111111111111112"`
	for _, text := range []string{
		`{}`, `{"amount":"1"}`, `{"locked":"1"}`,
		`{"amount":"1","locked":"0","code_hash":` + code + `,"global_contract_hash":` + code + `}`,
		`{"amount":"1","locked":"0","global_contract_account_id":"aa","global_contract_hash":` + code + `}`,
		`{"amount":"1","locked":"0","state":"frozen"}`, `{"amount":"1","locked":"0","bootstrap_nonce":1}`,
		`{"amount":"1","locked":"0","state":"uninitialized"}`, `{"amount":"1","locked":"1","state":"uninitialized","bootstrap_nonce":1}`,
		`{"amount":"1","locked":"0","state":"uninitialized","bootstrap_nonce":1,"code_hash":` + code + `}`,
	} {
		var m AccountMembers
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		if a, err := m.Account(); !errors.Is(err, ErrAccountMembers) {
			t.Errorf("%s: %+v, %v", text, a, err)
		}
	}
}
