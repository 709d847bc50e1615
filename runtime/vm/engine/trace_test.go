package engine_test

import (
	"fmt"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// traceRecorder records the events of a traced module, with the remaining gas.
type traceRecorder struct{ text string }

func (h *traceRecorder) HostCall(fn int, args []uint64, _ []byte, gas int64) (uint64, int64, bool) {
	if fn == 0 {
		h.text += fmt.Sprintf("host@%d ", gas)
		return 0, gas - 5, true
	}
	if index := int32(uint32(args[0])); index < 0 {
		h.text += fmt.Sprintf("<%d@%d ", ^index, gas)
	} else {
		h.text += fmt.Sprintf(">%d@%d ", index, gas)
	}
	return 0, gas, true
}

// TestTraceReportsEveryReturn checks that a traced function reports its end for every way of
// returning, and none after a trap, and that gas is the same as without tracing.
func TestTraceReportsEveryReturn(t *testing.T) {
	wasm, err := wasmtime.Wat2Wasm(`(module
		(import "env" "host" (func $host))
		(table 2 funcref) (elem (i32.const 0) $leaf $trap)
		(func $leaf)
		(func $trap unreachable)
		(func $early (param i32) (result i32) (if (local.get 0) (then (return (i32.const 7)))) (call $host) (i32.const 1))
		(func (export "main") (drop (call $early (i32.const 1))) (drop (call $early (i32.const 0))) (call_indirect (i32.const 0)) (call_indirect (i32.const 1))))`)
	if err != nil {
		t.Fatal(err)
	}
	w := parameters.MustGet(parameters.Version{Protocol: 86, Numbering: primitives.NumberingJune}).Wasm
	w.RegularOpCost = 1
	e, err := engine.New(engine.Options{Functions: []engine.Function{{Name: "host"}}, Exports: engine.Exports{Gas: prep.GlobalGas, Stack: prep.GlobalStack}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	left := map[bool]int64{}
	for _, trace := range []bool{false, true} {
		prepare := prep.Prepare
		if trace {
			prepare = prep.PrepareTraced
		}
		p, err := prepare(wasm, &w)
		if err != nil {
			t.Fatal(err)
		}
		artifact, err := e.Compile(p.Code)
		if err != nil {
			t.Fatal(err)
		}
		m, err := e.Load(artifact)
		if err != nil {
			t.Fatal(err)
		}
		h := &traceRecorder{}
		out, err := m.Run(engine.Call{Method: prep.MethodPrefix + "main", Gas: 1000, Host: h, Trace: trace})
		m.Close()
		if err != nil {
			t.Fatal(err)
		}
		if out.End != engine.Trapped || out.Trap != engine.Unreachable {
			t.Errorf("trace %v: ended %v with trap %v", trace, out.End, out.Trap)
		}
		left[trace] = out.Gas
		want := "host@962 "
		if trace {
			want = ">4@990 >3@979 <3@977 >3@963 host@962 <3@956 >1@945 <1@945 >2@934 "
		}
		if h.text != want {
			t.Errorf("trace %v: %s, want %s", trace, h.text, want)
		}
	}
	if left[true] != left[false] {
		t.Errorf("%d gas left with a trace, %d without", left[true], left[false])
	}
	if _, err := e.Load(nil); err == nil {
		t.Error("an empty artifact loads")
	}
}
