//go:build amd64 && !noshim

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/config"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// TestFits: whether a module's frames are too large for the native stack is read from its machine code; if they are, those of its
// compact form are not, and that loads.
func TestFits(t *testing.T) {
	w := config.MustGet(config.Version{Protocol: 86, Numbering: primitives.NumberingJune}).Wasm
	e, err := engine.New(engine.Options{Functions: []engine.Function{{Name: "host"}}, Exports: engine.Exports{Gas: prep.GlobalGas, Stack: prep.GlobalStack}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	one := "(local.set 0 (i64.load (i32.wrap_i64 (local.get 0)))) (if (i64.eqz (local.get 0)) (then (local.set 0 (i64.const 7))))"
	for n, want := range map[int]bool{0: true, 10: true, 100: true, 4000: false} {
		wasm, err := wasmtime.Wat2Wasm(fmt.Sprintf(`(module (import "env" "host" (func $host)) (memory 1) (func $leaf) (func $more (call $host) (call $leaf))
			(func $f (export "main") (local i64) (call $f) (call $more) %s))`, strings.Repeat(one, n)))
		if err != nil {
			t.Fatal(err)
		}
		for _, compact := range []bool{false, true} {
			p, err := prep.Prepare(wasm, &w)
			if compact {
				p, err = prep.PrepareCompact(wasm, &w, false)
			}
			if err != nil {
				t.Fatal(err)
			}
			artifact, err := e.Compile(p.Code)
			if err != nil {
				t.Fatal(err)
			}
			got, err := engine.Fits(artifact, len(p.Imports), p.Metered, uint64(w.Limits.MaxStackHeight))
			if err != nil || got != (want || compact) {
				t.Errorf("%d values, compact %v: fits %v, %v", n, compact, got, err)
			}
			m, err := e.Load(artifact)
			if err != nil {
				t.Fatal(err)
			}
			m.Close()
		}
	}
}
