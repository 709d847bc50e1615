//go:build e2e

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
	"github.com/troupe-chain/troupe/primitives"
)

// hostileName is a method name, log, value and panic that a page must not obey.
const hostileName = "<img src=x onerror=globalThis.hacked=7>\u202e\u0007\u001b[31m"

// echo is a contract that does with its arguments what its methods are called: log, ret, store and
// fail; a fifth is called hostileName.
func echo() []byte {
	m := &wasmasm.Module{}
	i := wasmasm.I64
	two := []wasmasm.ValType{i, i}
	input := m.Import("env", "input", []wasmasm.ValType{i}, nil)
	size := m.Import("env", "register_len", []wasmasm.ValType{i}, []wasmasm.ValType{i})
	read := m.Import("env", "read_register", two, nil)
	log := m.Import("env", "log_utf8", two, nil)
	ret := m.Import("env", "value_return", two, nil)
	fail := m.Import("env", "panic_utf8", two, nil)
	write := m.Import("env", "storage_write", []wasmasm.ValType{i, i, i, i, i}, []wasmasm.ValType{i})
	m.Memory(1, -1)
	method := func(name string, body func(f *wasmasm.Func)) {
		f := m.Func(nil, nil)
		f.I64(0).Call(input)
		body(f)
		m.ExportFunc(name, f)
	}
	register := func(f *wasmasm.Func) *wasmasm.Code { return f.I64(-1).I64(0) }
	memory := func(f *wasmasm.Func) *wasmasm.Code { // the host functions for texts read no registers
		f.I64(0).I64(0).Call(read)
		return f.I64(0).Call(size).I64(0)
	}
	logs := func(f *wasmasm.Func) { memory(f).Call(log) }
	method("log", logs)
	method(hostileName, logs)
	method("ret", func(f *wasmasm.Func) { register(f).Call(ret) })
	method("fail", func(f *wasmasm.Func) { memory(f).Call(fail) })
	method("store", func(f *wasmasm.Func) { register(f); register(f).I64(1).Call(write).Op(wasmasm.Drop) })
	return m.Encode()
}

// TestConsoleShowsTransactionsAndTraces shows lists of transactions, the timeline, traces and a
// contract with hostile texts to a browser (browser/transactions.mjs).
func TestConsoleShowsTransactionsAndTraces(t *testing.T) {
	browser := chromium(t)
	p := start(t, newHome(t, "--num-shards", "2", "--chain-id", "sandbox"))
	var scene map[string]any
	if err := json.Unmarshal([]byte(p.scene()), &scene); err != nil {
		t.Fatal(err)
	}
	s := p.signer()
	const bad = "zhostile.test.near"
	call := func(method, args string) primitives.Action {
		return &primitives.FunctionCall{Method: method, Args: []byte(args), Gas: 290_000_000_000_000}
	}
	p.act(s, bad, &primitives.CreateAccount{}, &primitives.Transfer{Deposit: primitives.NEAR(100)}, &primitives.DeployContract{Code: echo()})
	var hostile []string
	for _, x := range []struct{ method, args string }{
		{"log", hostileName}, {hostileName, "two\nlines \u2066of\u2069 logs"}, {"log", strings.Repeat("z\u0301\u0301\u0301", 2000)}, {"ret", hostileName}, {"fail", hostileName},
		{"store", hostileName}, {"log", `EVENT_JSON:{"standard":"nep141","version":"1","event":"ft_mint","data":[{"owner_id":"test.near","amount":"1"}]}`},
		{"none", strings.Repeat("<b>\u202e", 150_000)}, {"log", strings.Repeat("{\"a\":", 3000)},
	} {
		hostile = append(hostile, p.act(s, bad, call(x.method, x.args)).Transaction.Hash)
	}
	scene["hostile"], scene["hostileAccount"] = hostile, bad
	b, err := json.Marshal(scene)
	if err != nil {
		t.Fatal(err)
	}
	script(t, "browser", append(p.env(), "CHROMIUM="+browser, "SCENE="+string(b)), "node", "transactions.mjs")
}
