package vm

import (
	"fmt"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/logic"
)

// world is an External for contracts that use only the recorded size and their entries.
type world struct {
	logic.External
	entries map[string][]byte
}

func (w *world) RecordedBound() uint64 { return 0 }
func (w *world) ProofStart() uint64    { return 0 }

func (w *world) Has(key []byte) (bool, error) {
	_, ok := w.entries[string(key)]
	return ok, nil
}

func (w *world) Read(key []byte, pay func(uint32) error) ([]byte, bool, action.NodeCount, error) {
	v, ok := w.entries[string(key)]
	if !ok {
		return nil, false, action.NodeCount{}, nil
	}
	return v, true, action.NodeCount{}, pay(uint32(len(v)))
}

func (w *world) Write(key, value []byte, pay func(uint32) error) ([]byte, action.NodeCount, error) {
	old, ok := w.entries[string(key)]
	if ok {
		if err := pay(uint32(len(old))); err != nil {
			return nil, action.NodeCount{}, err
		}
	}
	if w.entries == nil {
		w.entries = map[string][]byte{}
	}
	w.entries[string(key)] = append([]byte{}, value...)
	return old, action.NodeCount{}, nil
}

func newVM(t testing.TB) *VM { return vmOf(t, Options{}) }

func vmOf(t testing.TB, o Options) *VM {
	t.Helper()
	o.Alarm = func(err error) { t.Error("alarm:", err) }
	v, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// inForms runs a test once with each code generator.
func inForms(t *testing.T, test func(*testing.T, *VM)) {
	for name, o := range map[string]Options{engine.Generator(): {}, "oracle": {Cranelift: true}} {
		t.Run(name, func(t *testing.T) { test(t, vmOf(t, o)) })
	}
}

const tera = 1_000_000_000_000

// call returns the call that nearcore's test_builder makes (near-vm-runner src/tests/test_builder.rs:11).
func call(code []byte, method string, gas primitives.Gas) *action.Call {
	cfg := *parameters.MustGet(parameters.June(86))
	return &action.Call{
		Block:    &action.Block{Config: &cfg, Height: 10, Timestamp: 42, EpochHeight: 1},
		CodeHash: primitives.HashBytes(code), Code: code, Method: method,
		CurrentAccount: "alice", SignerAccount: "bob", Predecessor: "carol", RefundTo: "david",
		SignerKey: primitives.ZeroED25519Key, Balance: primitives.Yocto(2), Deposit: primitives.Yocto(2), StorageUsage: 12,
		PrepaidGas: gas,
	}
}

func wat(t testing.TB, text string) []byte {
	t.Helper()
	b, err := wasmtime.Wat2Wasm(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return b
}

// ended returns an outcome as one line of text.
func ended(out *action.CallOutcome) string {
	s := fmt.Sprintf("burnt %d used %d", out.GasBurnt, out.GasUsed)
	if out.Err != nil {
		return s + " " + string(out.Err.AppendJSON(nil))
	}
	return s + fmt.Sprintf(" balance %v usage %d", out.Balance, out.StorageUsage)
}
