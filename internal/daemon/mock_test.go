package daemon

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/internal/trace"
	"github.com/troupe-chain/troupe/primitives"
)

// TestMockedSignaturesAreAcceptedOnlyHere: host functions verify signatures normally until the
// sandbox mocks each of them: in blocks, queries and simulations. status shows which are mocked.
// Applying an old block again gives its original result, also after a restart, when the mocks are
// off.
func TestMockedSignaturesAreAcceptedOnlyHere(t *testing.T) {
	h, key := withProbe(t, nil)
	defer func() { stop(t, h) }()
	zeros := func(n int) []byte { return make([]byte, n) }
	var p contracts.Program
	p.Call("ed25519_verify", zeros(64), "message", zeros(32))
	p.Call("p256_verify", zeros(64), zeros(32), append([]byte{2}, zeros(32)...))
	p.Call("ecrecover", zeros(32), zeros(64), 0, 0, 0)
	p.GiveResults()
	results := func(raw []byte) (out []uint64) {
		for ; len(raw) >= 8; raw = raw[8:] {
			out = append(out, binary.LittleEndian.Uint64(raw))
		}
		return out
	}
	view := func(args []byte) []byte {
		t.Helper()
		var got struct{ Result []int }
		if f := rpcOf(t, h, "query", fmt.Sprintf(`{"request_type":"call_function","finality":"optimistic","account_id":%q,"method_name":"run","args_base64":%q}`,
			key.AccountID, base64.StdEncoding.EncodeToString(args)), &got); f != "" {
			t.Fatal(f)
		}
		raw := make([]byte, len(got.Result))
		for i, b := range got.Result {
			raw[i] = byte(b)
		}
		return raw
	}
	valueOf := func(status json.RawMessage) []byte {
		t.Helper()
		var s struct{ SuccessValue []byte }
		if err := json.Unmarshal(status, &s); err != nil {
			t.Fatalf("%s: error %v", status, err)
		}
		return s.SuccessValue
	}
	nonce := primitives.Nonce(1)
	send := func() (primitives.Hash, []byte) {
		t.Helper()
		nonce++
		tx := draft(h, key, nonce, key.AccountID, &primitives.FunctionCall{Method: "run", Args: p.Bytes(), Gas: 200e12})
		unsigned, _ := encode(tx, nil)
		var foretold, got txStatus
		if cause := ask(t, h, "EXPERIMENTAL_simulate_tx", map[string]any{"signed_tx_base64": unsigned, "skip_signature_check": true}, &foretold); cause != "" {
			t.Fatal(cause)
		}
		signed, hash := encode(tx, key)
		if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, &got); cause != "" {
			t.Fatal(cause)
		}
		if string(foretold.Status) != string(got.Status) {
			t.Errorf("simulated %s, executed %s", foretold.Status, got.Status)
		}
		return hash, valueOf(got.Status)
	}
	traced := func(hash primitives.Hash) {
		t.Helper()
		var report trace.Report
		if cause := ask(t, h, "EXPERIMENTAL_trace_tx", []any{hash.String(), key.AccountID}, &report); cause != "" {
			t.Errorf("applied again, the result differs: %s", cause)
		}
	}
	shownMocks := func() []string {
		t.Helper()
		var s struct {
			Mocked []string `json:"mocked_verification"`
		}
		if f := rpcOf(t, h, "status", `[]`, &s); f != "" {
			t.Fatal(f)
		}
		return s.Mocked
	}
	recovered := primitives.SecretKeyFromSeed(primitives.SECP256K1, "mock").PublicKey()
	var mocked primitives.Hash
	for _, c := range []struct {
		params string
		want   []uint64
		told   []string
	}{
		{`null`, []uint64{0, 0, 0}, nil},
		{`{"ed25519_verify":true}`, []uint64{1, 0, 0}, []string{"ed25519_verify"}},
		{`{"p256_verify":true,"ed25519_verify":false}`, []uint64{0, 1, 0}, []string{"p256_verify"}},
		{fmt.Sprintf(`[true,true,%q]`, recovered), []uint64{1, 1, 1}, []string{"ecrecover", "ed25519_verify", "p256_verify"}},
		{`{"ecrecover":null}`, []uint64{0, 0, 0}, nil},
	} {
		var echo struct{ ECRecover *string }
		if f := rpcOf(t, h, "sandbox_mock_verification", c.params, &echo); f != "" {
			t.Fatal(f)
		}
		if got := results(view(p.Bytes())); !slices.Equal(got, c.want) {
			t.Errorf("%s: a read got %v, want %v", c.params, got, c.want)
		}
		hash, value := send()
		if got := results(value); !slices.Equal(got, c.want) {
			t.Errorf("%s: a transaction got %v, want %v", c.params, got, c.want)
		}
		if got := shownMocks(); !slices.Equal(got, c.told) {
			t.Errorf("%s: status shows %v, want %v", c.params, got, c.told)
		}
		if len(c.told) == 3 {
			mocked = hash
			var q contracts.Program
			q.Call("ecrecover", zeros(32), zeros(64), 0, 0, 7)
			q.Call("value_return", ^uint64(0), uint64(7))
			if got := view(q.Bytes()); !bytes.Equal(got, []byte(recovered.Raw())) || echo.ECRecover == nil || *echo.ECRecover != recovered.String() {
				t.Errorf("recovered key %x, want %x", got, recovered.Raw())
			}
		}
	}
	traced(mocked)
	var c caseFile
	if f := rpcOf(t, h, "sandbox_dump_transaction", fmt.Sprintf(`[%q]`, mocked), &c); f != "" || !c.Same || len(c.Mocked) != 3 {
		t.Errorf("its dump: %s, %s, mocked %v", f, c.Differs, c.Mocked)
	}
	var none struct{}
	if f := rpcOf(t, h, "sandbox_mock_verification",
		`{"ecrecover":"ed25519:5BGSaf6YjVm7565VzWQHNxoyEjwr3jUpRJSGjREvU9dB"}`, &none); !strings.Contains(f, "the key must be of type secp256k1") {
		t.Errorf("another type of key: %s", f)
	}
	if f := rpcOf(t, h, "sandbox_mock_verification", `{"ed25519_verify":true}`, &none); f != "" {
		t.Fatal(f)
	}
	dir := filepath.Dir(h.home.Paths.Genesis)
	stop(t, h)
	h = mustStart(t, dir)
	if got := shownMocks(); got != nil {
		t.Errorf("after a restart status shows %v", got)
	}
	if got := results(view(p.Bytes())); !slices.Equal(got, []uint64{0, 0, 0}) {
		t.Errorf("after a restart a read got %v", got)
	}
	traced(mocked)
}
