package prep_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// TestInlinedTruncationEqualsHelperCall checks that a float truncation has the same result, trap
// and gas as a call of a helper function and inlined, for every instruction and all boundary
// values, and that a module with many truncations uses calls.
func TestInlinedTruncationEqualsHelperCall(t *testing.T) {
	e, err := engine.New(engine.Options{
		Functions: []engine.Function{{Name: "out", Params: []engine.ValType{engine.I32}}},
		Exports:   engine.Exports{Gas: prep.GlobalGas, Stack: prep.GlobalStack}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	w := &parameters.MustGet(parameters.June(86)).Wasm
	run := func(code []byte, inline int, method string) (engine.Outcome, valueRecorder) {
		p, err := prep.PrepareInline(code, w, inline)
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
		defer m.Close()
		var h valueRecorder
		out, err := m.Run(engine.Call{Method: prep.MethodPrefix + method, Gas: 1 << 40, Host: &h})
		if err != nil {
			t.Fatal(err)
		}
		return out, h
	}
	ends := map[string]int{}
	for _, kind := range []struct{ from, to int }{{32, 32}, {64, 32}, {32, 64}, {64, 64}} {
		for _, sign := range []string{"s", "u"} {
			for _, x := range []float64{0, math.Copysign(0, -1), -0.99, -1, 0.5, 1.5, 1 << 31, 1<<31 - 1, -1 << 31, -1<<31 - 1, 1 << 32, 1<<32 - 1, 1 << 63, -1 << 63,
				-1<<63 - 2048, 1<<63 - 1024, 1 << 64, 1<<64 - 2048, 1 << 40, math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
				value := fmt.Sprintf("(f64.reinterpret_i64 (i64.const %d))", int64(math.Float64bits(x)))
				if kind.from == 32 {
					value = "(f32.demote_f64 " + value + ")"
				}
				cut := fmt.Sprintf("(i%d.trunc_f%d_%s %s)", kind.to, kind.from, sign, value)
				out := "(call $out " + cut + ")"
				if kind.to == 64 {
					out = "(local.set 0 " + cut + ") (call $out (i32.wrap_i64 (local.get 0))) (call $out (i32.wrap_i64 (i64.shr_u (local.get 0) (i64.const 32))))"
				}
				code, err := wasmtime.Wat2Wasm(`(module (import "env" "out" (func $out (param i32))) (memory 1)
					(func (export "main") (local i64) (call $out (i32.const 1)) ` + out + `))`)
				if err != nil {
					t.Fatal(err)
				}
				want, says := run(code, 1, "main")
				if got, said := run(code, 0, "main"); got != want || !reflect.DeepEqual(said, says) {
					t.Errorf("%s: %+v %d, want %+v %d", cut, got, said, want, says)
				}
				ends[fmt.Sprint(want.End, want.Trap)]++
			}
		}
	}
	if len(ends) != 3 || ends[fmt.Sprint(engine.Trapped, engine.BadConversionToInteger)] != 8 {
		t.Errorf("the truncations end too much alike: %v", ends)
	}
	many := func(n int) int {
		code, err := wasmtime.Wat2Wasm(`(module (memory 1) (func (export "main") ` + strings.Repeat("(drop (i64.trunc_f64_u (f64.const 1)))", n) + `))`)
		if err != nil {
			t.Fatal(err)
		}
		p, err := prep.Prepare(code, w)
		if err != nil {
			t.Fatal(err)
		}
		artifact, err := e.Compile(p.Code)
		if err != nil {
			t.Fatal(err)
		}
		return len(artifact)
	}
	few, all, more := many(4000), many(8000), many(16000)
	if first, rest := (all-few)/4000, (more-all)/8000; rest > first-20 {
		t.Errorf("%d bytes for one of the first truncations, %d for one of the last", first, rest)
	}
}
