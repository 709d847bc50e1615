package vm

import (
	"reflect"
	"strings"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
)

// gasCallers are modules that call env.gas in all possible ways.
var gasCallers = map[string]string{
	"direct": `(module (import "env" "gas" (func $gas (param i32))) (func (export "main") (call $gas (i32.const 7)) (call $gas (i32.const 0))))`,
	"numbers that are not its own": `(module (import "env" "gas" (func $gas (param i32))) (import "env" "block_index" (func $b (result i64)))
		(func (export "main") (local $i i32) i32.const 3 i32.const 5 call $gas call $gas i32.const 7 nop call $gas
			i32.const 9 (drop (call $b)) call $gas i32.const 11 (block) call $gas i32.const 13 (local.set $i (i32.const 15)) call $gas
			(block (result i32) i32.const 17 i32.const 1 br_if 0) call $gas (if (result i32) (local.get $i) (then i32.const 19) (else i32.const 21)) call $gas
			(loop (result i32) i32.const 23) call $gas i32.const 25 drop local.get $i call $gas i32.const 0x8000 call $gas))`,
	"numbers in code that cannot be reached": `(module (import "env" "gas" (func $gas (param i32)))
		(func (export "main") (block i32.const 5 br 0 i32.const 3 call $gas) i32.const -2147483648 call $gas))`,
	"behind others": `(module (import "env" "block_index" (func $b (result i64))) (import "env" "gas" (func $gas (param i32)))
		(import "env" "epoch_height" (func $e (result i64))) (import "env" "gas" (func $more (param i32)))
		(func $f (param i32) (call $more (local.get 0)) (drop (call $b)))
		(func (export "main") (drop (call $e)) (call $f (i32.const 3)) (call $gas (i32.const 200)) (drop (call $b))))`,
	"table of indexes": `(module (import "env" "gas" (func $gas (param i32))) (type $t (func (param i32)))
		(func $own (param i32)) (table 9 funcref) (elem (i32.const 1) $own $gas $own $gas)
		(func (export "main") (call_indirect (type $t) (i32.const 5) (i32.const 1)) (call_indirect (type $t) (i32.const 6) (i32.const 2))
			(call_indirect (type $t) (i32.const 7) (i32.const 4))))`,
	"table of expressions": `(module (import "env" "gas" (func $gas (param i32))) (type $t (func (param i32)))
		(table 9 funcref) (elem (i32.const 3) funcref (ref.null func) (ref.func $gas) (ref.func 1)) (elem declare func 1)
		(func (export "main") (call_indirect (type $t) (i32.const 5) (i32.const 4)) (call_indirect (type $t) (i32.const 5) (i32.const 3))))`,
	"global": `(module (import "env" "gas" (func $gas (param i32))) (type $t (func (param i32))) (table 2 funcref)
		(global $n i32 (i32.const 9)) (global $g funcref (ref.func $gas)) (global $m i64 (i64.const 9))
		(func (export "main") (table.set (i32.const 1) (global.get $g)) (call_indirect (type $t) (global.get $n) (i32.const 1))))`,
	"reference": `(module (import "env" "gas" (func $gas (param i32))) (type $t (func (param i32))) (table 2 funcref)
		(export "g" (func $gas))
		(func (export "main") (table.set (i32.const 1) (ref.func $gas)) (call_indirect (type $t) (i32.const 9) (i32.const 1))))`,
	"passive elements": `(module (import "env" "gas" (func $gas (param i32))) (type $t (func (param i32))) (table 2 funcref)
		(elem $e func $gas) (func (export "main") (table.init $e (i32.const 0) (i32.const 0) (i32.const 1))
			(call_indirect (type $t) (i32.const 9) (i32.const 0))))`,
	"start": `(module (import "env" "gas" (func $gas (param i32))) (start $s) (func $s (call $gas (i32.const 100)))
		(func (export "main") (memory.fill (i32.const 0) (i32.const 0) (i32.const 100)) (call $gas (i32.const 4))) (memory 1))`,
	"all that i32 has": `(module (import "env" "gas" (func $gas (param i32))) (func (export "main") (call $gas (i32.const -1))))`,
	"the other limit":  `(module (import "env" "gas" (func $gas (param i32))) (func (export "main") (loop (call $gas (i32.const 77777777)) (br 0))))`,
	"many locals": `(module (import "env" "gas" (func $gas (param i32))) (func (export "main") (local i32 i32 i32 i32 i32 i32 i32 i32 i32 i64 i64)` +
		strings.Repeat("(if (local.get 3) (then (local.set 4 (i32.const 9)))) (call $gas (local.get 4)) (local.set 8 (i32.add (local.get 7) (i32.const 1)))", 1000) + `))`,
	"no function": `(module (import "env" "gas" (func $gas (param i32))) (table 2 funcref) (elem (i32.const 0) $gas) (export "main" (func $gas)))`,
	"wrong type":  `(module (import "env" "gas" (func $gas (param i64))) (func (export "main") (call $gas (i64.const 7))))`,
}

// gasCalls is a Watcher that counts the calls of env.gas.
type gasCalls int

func (*gasCalls) CallBegins(*action.Call)      {}
func (*gasCalls) Enter(string, primitives.Gas) {}
func (*gasCalls) Leave(primitives.Gas)         {}
func (*gasCalls) CallEnds(*action.CallOutcome) {}
func (n *gasCalls) HostCall(h *HostCall) {
	if h.Name == "gas" {
		*n++
	}
}

// TestReplacedGasImportEqualsHostCall checks that a call of env.gas, which prep replaces by
// instructions, has the same outcome as a call of the host function, with any amount of gas, and
// that it never calls the host.
func TestReplacedGasImportEqualsHostCall(t *testing.T) { inForms(t, testReplacedGasImport) }

func testReplacedGasImport(t *testing.T, v *VM) {
	e := wasmtime.NewEngine()
	for name, text := range gasCallers {
		code := wat(t, text)
		agree(t, e, code)
		var told gasCalls
		w := v.Watch(&told)
		full, err := v.run(call(code, "main", 300*tera), &world{})
		if err != nil {
			t.Fatal(err)
		}
		at := []primitives.Gas{1000 * tera, 300 * tera, full.GasBurnt, tera / 1000}
		for step := range primitives.Gas(100) { // by half the price of an instruction, from the end
			at = append(at, max(full.GasBurnt, 100*411_378)-step*411_378)
		}
		for _, view := range []bool{false, true} {
			for _, gas := range at {
				asked := 0
				c := call(code, "main", gas)
				c.View = view
				c.Interrupt = func() error { asked++; return nil }
				got, err := v.run(c, &world{})
				if err != nil {
					t.Fatal(err)
				}
				if asked > strings.Count(text, "call $b")+strings.Count(text, "call $e") {
					t.Errorf("%s: %d host calls of gas", name, asked)
				}
				want, err := w.run(c, &world{})
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(got, want) {
					t.Fatalf("%s with %d gas, view %v:\n%+v, watched\n%+v", name, gas, view, got, want)
				}
			}
		}
		if w.Close(); (told == 0) != (name == "no function" || name == "wrong type") {
			t.Errorf("%s: %d calls of gas were watched", name, told)
		}
	}
}

// TestOutOfGasIsReported checks that CallOutcome.OutOfGas is set wherever gas runs out, and not for
// other failures, even if they burn all gas.
func TestOutOfGasIsReported(t *testing.T) { inForms(t, testOutOfGasIsReported) }

func testOutOfGasIsReported(t *testing.T, v *VM) {
	code := wat(t, `(module (import "env" "panic" (func $panic)) (import "env" "block_index" (func $host (result i64)))
		(func (export "loop") (loop (br 0))) (func (export "host") (loop (drop (call $host)) (br 0)))
		(func (export "panic") (call $panic)) (func (export "trap") unreachable) (func (export "fine")))`)
	for method, want := range map[string]bool{"loop": true, "host": true, "panic": false, "trap": false, "fine": false} {
		for _, view := range []bool{false, true} {
			c := call(code, method, tera)
			c.View = view
			for range 2 { // with plenty, and with no more than it needs
				out, err := v.run(c, &world{})
				if err != nil {
					t.Fatal(err)
				}
				if out.OutOfGas != want {
					t.Errorf("%s, view %v, %d gas: out of gas is %v", method, view, c.PrepaidGas, out.OutOfGas)
				}
				c.PrepaidGas = max(out.GasBurnt, 1)
			}
		}
	}
	c := call(code, "fine", 1000) // not enough to load it
	if out, err := v.run(c, &world{}); err != nil || !out.OutOfGas {
		t.Errorf("not enough for loading: %+v, %v", out, err)
	}
}
