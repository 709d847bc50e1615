package vm

import (
	"fmt"
	"strings"
	"testing"
)

// values returns a function that first calls itself and then has n values that are live across a
// control flow join. A code generator that keeps a stack slot for each of them exhausts the native
// stack, while the use of the metered stack does not depend on n.
func values(n int) string {
	return `(func $g (result i64) (i64.const 1)) (func $f (export "main") (local i64) (call $f)` +
		strings.Repeat("(local.set 0 (i64.add (call $g) (if (result i64) (i32.const 1) (then (call $g)) (else (i64.const 2)))))", n) + `)`
}

// TestMeteredStackEndsBeforeNativeStack: whatever values the frames of a recursion hold, the
// metered stack is exhausted before the thread's stack. The VM of the test reports an overflow of
// the native stack as an alarm, which fails the test.
func TestMeteredStackEndsBeforeNativeStack(t *testing.T) { inForms(t, testNativeStack) }

func testNativeStack(t *testing.T, v *VM) {
	times := func(n int, s string) string { return strings.Repeat(s+" ", n) }
	for name, module := range map[string]string{
		"few values":  values(50),
		"values":      values(2_000),
		"nothing":     `(func $f (export "main") (call $f))`,
		"2000 f32":    `(func $f (export "main") (local f32) ` + times(2000, "(f32.sqrt (local.get 0))") + `(call $f)` + times(2000, "drop") + `)`,
		"1000 f64":    `(func $f (export "main") (local f64) ` + times(1000, "(f64.sqrt (local.get 0))") + `(call $f)` + times(1000, "drop") + `)`,
		"2000 i32":    `(func $f (export "main") (local i32) ` + times(2000, "(i32.popcnt (local.get 0))") + `(call $f)` + times(2000, "drop") + `)`,
		"one f32":     `(func $f (export "main") (local f32) (f32.sqrt (local.get 0)) (call $f) drop)`,
		"locals f32":  `(func $f (export "main") (local ` + times(8000, "f32") + `) ` + setAll(8000, "(f32.sqrt (f32.const 2))") + `(call $f)` + getAll(8000) + `)`,
		"locals f32b": `(func $f (export "main") (local ` + times(400, "f32") + `) ` + setAll(400, "(f32.sqrt (f32.const 2))") + `(call $f)` + getAll(400) + `)`,
		"params f32": `(func $f (param ` + times(64, "f32") + `) ` + paramsAll(64, "f32.add (f32.const 1)") + `(call $f)` + getAll(64) + `)
			(func (export "main") ` + times(64, "(f32.const 1)") + `(call $f))`,
		"params i32": `(func $f (param ` + times(64, "i32") + `) ` + paramsAll(64, "i32.add (i32.const 1)") + `(call $f)` + getAll(64) + `)
			(func (export "main") ` + times(64, "(i32.const 1)") + `(call $f))`,
		"through a table": `(type $t (func)) (table 1 funcref) (elem (i32.const 0) $f) (func $f (export "main") (call_indirect (type $t) (i32.const 0)))`,
		"short lives": `(func $g (result f32) (f32.const 1)) (func $f (export "main") (local f32) ` + times(100, "(f32.sqrt (local.get 0))") +
			times(3000, "(f32.sqrt (call $g)) (call $g) f32.add drop") + `(call $f)` + times(100, "drop") + `)`,
		"divisions":      `(func $f (export "main") (local i32) (call $f) (local.get 0)` + times(2000, "(i32.div_s (local.get 0))") + `drop)`,
		"conditions":     `(func $f (export "main") (local i32 i32) (call $f)` + times(2000, "(i32.load (local.get 0)) (br_if 0 (local.get 1)) (local.set 0)") + `)`,
		"operands":       `(func $f (export "main") (local i32) (call $f)` + times(20, times(100, "(i32.load (local.get 0))")+"(call $f)"+times(99, "i32.div_s")+"(local.set 0)") + `)`,
		"through tables": `(type $t (func (result i32))) (table 1 funcref) (func $f (export "main") (local i32) (call $f)` + times(1000, "(local.set 0 (call_indirect (type $t) (local.get 0)))") + `)`,
		"joints": `(func $f (export "main") (local ` + times(20, "i32") + `) (call $f)` +
			times(100, "(if (local.get 0) (then "+setAll(20, "(i32.add (local.get 1) (i32.const 1))")+"))") + getAll(20) + `)`,
		"constants in a loop": `(func $f (export "main") (local i32) (loop ` + times(5000, "(i32.store (i32.add (local.get 0) (i32.const 77)) (local.get 0))") +
			`(call $f) (br_if 0 (i32.const 1))))`,
	} {
		t.Run(name, func(t *testing.T) {
			out, err := v.run(call(wat(t, `(module (memory 1) `+module+`)`), "main", 300*tera), &world{})
			if err != nil {
				t.Fatal(err)
			}
			if out.Err == nil || string(out.Err.AppendJSON(nil)) != noAccess {
				t.Errorf("%s", ended(&out))
			}
		})
	}
}

func setAll(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "(local.set %d %s) ", i, value)
	}
	return b.String()
}

func getAll(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "(drop (local.get %d)) ", i)
	}
	return b.String()
}

func paramsAll(n int, add string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "(%s (local.get %d)) ", add, i)
	}
	return b.String()
}
