package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/troupe-chain/troupe/internal/home"
	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// lockedBuffer is a log's output.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// TestMissingImportsAreNamed: a contract that imports an unknown function is deployed and called.
// The outcome has only nearcore's text; the log, a trace, a simulation and a view name the import.
func TestMissingImportsAreNamed(t *testing.T) {
	dir := made(t)
	hm, err := home.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out lockedBuffer
	log := logrus.New()
	log.SetOutput(&out)
	h, err := Start(Options{Home: hm, Listen: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer stop(t, h)
	key, err := home.ReadKeyFile(filepath.Join(dir, "validator_key.json"))
	if err != nil {
		t.Fatal(err)
	}
	module := &wasmasm.Module{}
	module.Import("env", "function_of_tomorrow", nil, nil)
	module.ExportFunc("main", module.Func(nil, nil))
	call := &primitives.FunctionCall{Method: "main", Gas: 10e12}
	signed, hash := encode(draft(h, key, 1, key.AccountID, &primitives.DeployContract{Code: module.Encode()}, call), key)
	var sent json.RawMessage
	if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": signed, "wait_until": "FINAL"}, &sent); cause != "" {
		t.Fatal(cause)
	}
	const text, name = `"ExecutionError":"Link Error: unknown or invalid import"`, "function_of_tomorrow"
	if !bytes.Contains(sent, []byte(text)) || bytes.Contains(sent, []byte(name)) {
		t.Errorf("send_tx: %s", sent)
	}
	const list = `{"module":"env","name":"function_of_tomorrow","since_protocol_version":null}`
	// the failed call reverted the deployment; the contract is deployed again
	alone, _ := encode(draft(h, key, 2, key.AccountID, &primitives.DeployContract{Code: module.Encode()}), key)
	if cause := ask(t, h, "send_tx", map[string]any{"signed_tx_base64": alone, "wait_until": "FINAL"}, &sent); cause != "" {
		t.Fatal(cause)
	}
	again, _ := encode(draft(h, key, 3, key.AccountID, call), nil)
	for method, params := range map[string]any{
		"EXPERIMENTAL_trace_tx":    map[string]any{"tx_hash": hash.String()},
		"EXPERIMENTAL_simulate_tx": map[string]any{"signed_tx_base64": again, "skip_signature_check": true},
	} {
		var got json.RawMessage
		if cause := ask(t, h, method, params, &got); cause != "" {
			t.Fatalf("%s: error %s", method, cause)
		}
		if !bytes.Contains(got, []byte(strings.TrimPrefix(list, "{"))) || !bytes.Contains(got, []byte(`"missing_imports":[`)) {
			t.Errorf("%s: got %s", method, got)
		}
	}
	info := askError(t, h, "EXPERIMENTAL_call_function", map[string]any{
		"account_id": key.AccountID, "method_name": "main", "args_base64": "", "finality": "final",
	})
	if !strings.Contains(info, `"missing_imports":[`+list+`]`) || !strings.Contains(info, text) {
		t.Errorf("EXPERIMENTAL_call_function: %s", info)
	}
	for range 100 { // the deployment is compiled in the background
		if out.count(name) > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if n := out.count(name); n != 1 || out.count("level=warning") == 0 {
		t.Errorf("%d lines of the log name the import, want 1", n)
	}
}

// TestUnlinkedLogIsBounded: a code is logged once, and many codes at a bounded rate.
func TestUnlinkedLogIsBounded(t *testing.T) {
	var out lockedBuffer
	log := logrus.New()
	log.SetOutput(&out)
	u := newUnlinkedLog(log)
	e := &action.LinkError{Missing: []primitives.MissingImport{{Module: "env", Name: "x"}}}
	for i := range 3 * maxUnlinkedSeen {
		code := primitives.HashBytes(fmt.Append(nil, i))
		u.report("a.near", code, e)
		u.report("b.near", code, e)
	}
	if n := out.count("env.x"); n < unlinkedBurst || n > unlinkedBurst+5 || len(u.seen) > maxUnlinkedSeen || out.count("b.near") > 0 {
		t.Errorf("%d lines, %d of the second account, %d codes kept", n, out.count("b.near"), len(u.seen))
	}
}
