package vm

import (
	"fmt"
	"strings"
	"testing"
)

// TestNativeStack: whatever a recursion holds, the metered stack ends before the thread's. The VM of the test takes a native
// overflow for an alarm, which fails the test.
func TestNativeStack(t *testing.T) {
	v := newVM(t)
	times := func(n int, s string) string { return strings.Repeat(s+" ", n) }
	for name, module := range map[string]string{
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
