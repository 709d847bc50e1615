package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/primitives"
)

// askError calls a method that fails and returns the error.
func askError(t testing.TB, h *Daemon, method string, params any) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Post("http://"+h.Addr.String(), "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var reply struct{ Error json.RawMessage }
	if err := json.NewDecoder(r.Body).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	return string(reply.Error)
}

// ask calls a method. It decodes the result, or returns the name of the error's cause.
func ask(t testing.TB, h *Daemon, method string, params, result any) (cause string) {
	t.Helper()
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.Post("http://"+h.Addr.String(), "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	var reply struct {
		Result json.RawMessage
		Error  struct{ Cause struct{ Name string } }
	}
	if err := json.NewDecoder(r.Body).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	if reply.Result != nil {
		if err := json.Unmarshal(reply.Result, result); err != nil {
			t.Fatal(err)
		}
	}
	return reply.Error.Cause.Name
}

// outcome is the part of an execution outcome that the test compares.
type outcome struct {
	ID      string
	Outcome struct {
		Gas    uint64 `json:"gas_burnt"`
		Tokens string `json:"tokens_burnt"`
		Status json.RawMessage
	}
}

type txStatus struct {
	Level    string `json:"final_execution_status"`
	Status   json.RawMessage
	Tx       outcome   `json:"transaction_outcome"`
	Receipts []outcome `json:"receipts_outcome"`
	Sim      *struct {
		Hash     string `json:"block_hash"`
		Complete bool
		Blocks   int
	} `json:"simulation"`
}

// TestSimulationEqualsExecution simulates a transaction with an invalid signature over HTTP, then
// sends it signed: the results are equal.
func TestSimulationEqualsExecution(t *testing.T) {
	dir := made(t)
	h := mustStart(t, dir)
	defer stop(t, h)
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	tx := draft(h, key, 1, "a."+key.AccountID, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.Yocto(7)})
	head := tx.BlockHash.String()
	unsigned, _ := encode(tx, nil)
	signed, _ := encode(tx, key)
	var foretold, happened txStatus
	if cause := ask(t, h, "EXPERIMENTAL_simulate_tx", []any{unsigned}, &foretold); cause != "INVALID_TRANSACTION" {
		t.Errorf("with a wrong signature: %q, want INVALID_TRANSACTION", cause)
	}
	if cause := ask(t, h, "EXPERIMENTAL_simulate_tx", map[string]any{"signed_tx_base64": unsigned, "skip_signature_check": true,
		"block_id": "11111111111111111111111111111111"}, &foretold); cause != "UNKNOWN_BLOCK" {
		t.Errorf("on an unknown block: %q, want UNKNOWN_BLOCK", cause)
	}
	if cause := ask(t, h, "EXPERIMENTAL_simulate_tx", map[string]any{"signed_tx_base64": unsigned, "skip_signature_check": true,
		"block_id": head}, &foretold); cause != "" {
		t.Fatalf("simulation: %s", cause)
	}
	if s := foretold.Sim; s == nil || !s.Complete || s.Hash != head || foretold.Level != "FINAL" || len(foretold.Receipts) != 2 {
		t.Errorf("simulation: %+v, level %s, %d receipts", s, foretold.Level, len(foretold.Receipts))
	}
	if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, &happened); cause != "" {
		t.Fatalf("send_tx: %s", cause)
	}
	show := func(s *txStatus) string {
		out := fmt.Sprintf("%s %d %s", s.Status, s.Tx.Outcome.Gas, s.Tx.Outcome.Tokens)
		for _, r := range s.Receipts {
			out += fmt.Sprintf("\n%d %s %s", r.Outcome.Gas, r.Outcome.Tokens, r.Outcome.Status)
		}
		return out
	}
	if got, want := show(&foretold), show(&happened); got != want {
		t.Errorf("simulated\n%s\nexecuted\n%s", got, want)
	}
}
