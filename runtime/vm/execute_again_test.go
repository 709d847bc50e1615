package vm

import (
	"fmt"
	"testing"
)

// TestReusedInstanceBehavesLikeNew: views of a contract that run one after the other in a reset
// instance have the same results as calls in new instances. The contracts are those of nearcore's
// tests. Their methods trap, recurse, grow memory and tables, and run out of gas.
func TestReusedInstanceBehavesLikeNew(t *testing.T) {
	v := newVM(t)
	for _, o := range oracles {
		code, method := o.code, o.method
		if code == nil {
			code = wat(t, o.wat)
		}
		if method == "" {
			method = "main"
		}
		var first string
		for i := range 4 {
			c := call(code, method, 10*tera)
			c.Brief = i%4 != 0
			out, err := v.run(c, &world{})
			if err != nil {
				t.Fatalf("%s: %v", o.name, err)
			}
			if got := ended(&out); i == 0 {
				first = got
			} else if got != first {
				t.Errorf("%s, view %d: %s, want %s", o.name, i, got, first)
			}
		}
	}
	for name, text := range map[string]string{
		"a counter in memory": `(i64.store (i32.const 8) (i64.add (i64.load (i32.const 8)) (i64.const 1))) (call $value (i64.const 8) (i64.const 8))`,
		"one in data":         `(i64.store (i32.const 1024) (i64.add (i64.load (i32.const 1024)) (i64.const 1))) (call $value (i64.const 8) (i64.const 1024))`,
		"one in a global":     `(global.set $n (i64.add (global.get $n) (i64.const 1))) (i64.store (i32.const 0) (global.get $n)) (call $value (i64.const 8) (i64.const 0))`,
		"the memory's size":   `(drop (memory.grow (i32.const 1))) (i64.store (i32.const 0) (i64.extend_i32_u (memory.size))) (call $value (i64.const 8) (i64.const 0))`,
		"a table's entry":     `(i64.store (i32.const 0) (i64.extend_i32_u (ref.is_null (table.get 0 (i32.const 0))))) (table.set 0 (i32.const 0) (ref.func $f)) (call $value (i64.const 8) (i64.const 0))`,
	} {
		code := wat(t, fmt.Sprintf(`(module (import "env" "value_return" (func $value (param i64 i64)))
			(memory 1) (data (i32.const 1020) "abcdefghijkl") (global $n (mut i64) (i64.const 41)) (table 1 funcref) (elem declare func $f)
			(func $f (export "main") %s))`, text))
		var first string
		for i := range 6 {
			c := call(code, "main", 10*tera)
			c.Brief = i%5 != 0
			out, err := v.run(c, &world{})
			if err != nil || out.Err != nil {
				t.Fatalf("%s: %v %v", name, err, out.Err)
			}
			if got := fmt.Sprintf("%s %x", ended(&out), out.Return); i == 0 {
				first = got
			} else if got != first {
				t.Errorf("%s, view %d: %s, want %s", name, i, got, first)
			}
		}
	}
}
