package prep_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// valueRecorder records the values that a run reports, each with the gas at that time.
type valueRecorder []uint64

func (h *valueRecorder) HostCall(_ int, args []uint64, _ []byte, gas int64) (uint64, int64, bool) {
	*h = append(*h, args[0], uint64(gas))
	return 0, gas, true
}

// tableScript returns a module with random operations on its table, for a seed. Most succeed, some are out of
// bounds.
func tableScript(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 1))
	n := func(most int) int { return r.IntN(most) }
	var b strings.Builder
	b.WriteString(`(module (import "env" "out" (func $out (param i32))) (import "env" "gas" (func $gas (param i32)))
	(type $t (func (result i32))) (memory 1) (data $d "abc") (data $x "defg") (data (i32.const 9) "h")
	(global $g funcref (ref.func 4)) (export "e" (func 5))
	(func $tell (param $i i32) (if (ref.is_null (table.get (local.get $i))) (then (call $out (i32.const 1000)))
		(else (call $out (call_indirect (type $t) (local.get $i))))))
	`)
	for i := range 4 {
		fmt.Fprintf(&b, "(func (type $t) (i32.const %d))\n", i)
	}
	b.WriteString(`(table 12 20 funcref) (elem (i32.const 1) func 3 4) (elem $p func 3 4 5 6 3 4 5) (elem declare func 6)
	(elem $q funcref (ref.func 6) (ref.null func) (ref.func 5) (ref.null func)) (elem $empty func) (elem $nulls funcref (ref.null func) (ref.null func))
	(func (export "main") (local $a i32) (local $b i32) (local $c i32)
	`)
	segments := []string{"0", "$p", "2", "$q", "$empty", "$nulls"}
	small := func(most int) string { // mostly within bounds
		switch n(30) {
		case 0:
			return "(i32.const -1)"
		case 1:
			return fmt.Sprintf("(i32.const %d)", n(40))
		}
		return fmt.Sprintf("(i32.const %d)", n(most))
	}
	for range 12 + n(30) {
		switch n(12) {
		case 0, 1:
			fmt.Fprintf(&b, "(table.init %s %s %s %s)\n", segments[1+2*n(2)], small(9), small(3), small(2))
		case 2:
			fmt.Fprintf(&b, "(table.init %s %s %s %s)\n", segments[n(6)], small(9), small(2), small(2))
		case 3, 4:
			fmt.Fprintf(&b, "(table.copy %s %s %s)\n", small(8), small(8), small(5))
		case 5:
			fmt.Fprintf(&b, "(elem.drop %s)\n", segments[n(6)])
		case 6:
			fmt.Fprintf(&b, "(data.drop %d)\n", n(3))
		case 7:
			fmt.Fprintf(&b, "(memory.init %d (i32.const %d) (i32.const 0) %s) (call $out (i32.load (i32.const 0)))\n", n(3), n(3), small(2))
		case 8:
			fmt.Fprintf(&b, "(table.set %s (ref.func %d))\n", small(12), 3+n(4))
		case 9:
			fmt.Fprintf(&b, "(call $out (table.grow (global.get $g) (i32.const %d)))\n", n(3))
		case 10:
			fmt.Fprintf(&b, "(table.fill %s (ref.func 3) %s)\n", small(9), small(3))
		case 11:
			fmt.Fprintf(&b, "(if (i32.const %d) (then (local.set $a %s) (table.set (local.get $a) (ref.func 5)) (elem.drop $q)))\n", n(2), small(12))
		}
		fmt.Fprintf(&b, "(call $tell (i32.const %d))\n", n(12))
	}
	b.WriteString(strings.Repeat("(call $tell (local.get $b)) (local.set $b (i32.add (local.get $b) (i32.const 1)))\n", 13))
	b.WriteString("))")
	return b.String()
}

// TestReplacedReferencesEqualEngines checks that prep's replacement of reference instructions has
// the same results, traps and gas as the engine's instructions.
func TestReplacedReferencesEqualEngines(t *testing.T) {
	e, err := engine.New(engine.Options{
		Functions: []engine.Function{{Name: "out", Params: []engine.ValType{engine.I32}}, {Name: "gas", Params: []engine.ValType{engine.I32}}},
		Exports:   engine.Exports{Gas: prep.GlobalGas, Stack: prep.GlobalStack}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	w := &parameters.MustGet(parameters.June(86)).Wasm
	traps := map[engine.Trap]int{}
	for seed := range uint64(300) {
		text := tableScript(seed)
		code, err := wasmtime.Wat2Wasm(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		run := func(plain, crowded bool) (engine.Outcome, valueRecorder) {
			p, err := prep.PrepareAs(code, w, plain, crowded)
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
			out, err := m.Run(engine.Call{Method: prep.MethodPrefix + "main", Gas: 1 << 40, Host: &h})
			if err != nil {
				t.Fatal(err)
			}
			return out, h
		}
		want, says := run(true, false)
		for _, crowded := range []bool{false, true} {
			if got, said := run(false, crowded); got != want || !reflect.DeepEqual(said, says) {
				t.Fatalf("seed %d, crowded %v: %+v %d\nwant %+v %d\n%s", seed, crowded, got, said, want, says, text)
			}
		}
		if want.End == engine.Trapped {
			traps[want.Trap]++
		}
	}
	if traps[engine.TableOutOfBounds] < 20 || traps[engine.TableOutOfBounds] > 250 || traps[engine.MemoryOutOfBounds] < 5 {
		t.Errorf("the scripts end too much alike: %v", traps)
	}
}
