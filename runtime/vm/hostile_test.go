package vm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestCodeGeneratorsAgreeOnLocals checks that both code generators agree, also in gas, on locals of
// every type, parameters, recursion (each frame has its own locals, initially zero), bulk
// instructions, references, early returns and traps, also in functions that use few of their
// locals.
func TestCodeGeneratorsAgreeOnLocals(t *testing.T) {
	vms := []*VM{newVM(t), vmOf(t, Options{Cranelift: true})}
	module := func(spare int, end string) []byte {
		return wat(t, `(module
		(import "env" "value_return" (func $return (param i64 i64)))
		(memory 1) (table 2 20000 funcref) (elem declare func $nine)
		(type $number (func (result i64)))
		(func $nine (result i64) (i64.const 9))
		(func $rec (param $n i32) (param $f f64) (param $p funcref) (result i64)
			(local $a i32) (local $b i64) (local $c f32) (local $z i64) (local $d f64) (local $r funcref) (local $e i32)
			(local `+strings.Repeat("i32 i64 f32 f64 funcref ", spare)+`)
			(if (i32.eqz (local.get $n)) (then (return (i64.const 1))))
			(if (i32.eqz (ref.is_null (local.get $r))) (then (return (i64.const -1))))
			(local.set $b (i64.extend_i32_s (i32.add (local.tee $a (i32.mul (local.get $n) (i32.const 3))) (local.get $a))))
			(local.set $c (f32.add (f32.convert_i32_s (local.tee $e (local.get $a))) (f32.const 0.25)))
			(local.set $d (f64.add (local.get $f) (f64.promote_f32 (local.tee $c (f32.mul (local.get $c) (f32.const 2))))))
			(local.set $b (i64.add (local.get $b) (local.get $z)))
			(local.set $z (i64.const 77))
			(local.set $f (f64.add (local.get $f) (f64.const 1)))
			(table.set (i32.const 1) (local.tee $r (ref.func $nine)))
			(local.set $b (i64.add (local.get $b) (call $rec (i32.sub (local.get $n) (i32.const 1)) (local.tee $d (local.get $d)) (local.tee $p (local.get $p)))))
			(local.set $b (i64.add (i64.mul (local.get $b) (i64.const 31)) (i64.add (local.get $z) (i64.extend_i32_u (local.get $a)))))
			(table.set (i32.const 0) (local.get $p))
			(local.set $b (i64.add (local.get $b) (call_indirect (type $number) (i32.const 0))))
			(memory.fill (i32.mul (local.get $n) (i32.const 8)) (local.get $e) (local.get $n))
			(memory.copy (i32.const 60) (i32.const 8) (local.get $n))
			(local.set $b (i64.add (i64.mul (local.get $b) (i64.const 31)) (i64.trunc_f64_s (f64.mul (local.get $d) (f64.const 4)))))
			(local.set $b (i64.add (local.get $b) (i64.extend_i32_u (table.grow (local.get $r) (i32.const 20000)))))
			(loop $l (local.set $b (i64.add (local.get $b) (i64.trunc_f64_s (local.get $f))))
				(br_if $l (i32.gt_s (local.tee $e (i32.sub (local.get $e) (i32.const 1))) (i32.const 0))))
			(return (local.get $b))
			unreachable)
		(func (export "main")
			(i64.store (i32.const 92) (call $rec (i32.const 3) (f64.const 2) (ref.func $nine)))
			(i64.store (i32.const 100) (call $rec (i32.const 7) (f64.const 1.5) (ref.func $nine)))
			`+end+`
			(call $return (i64.const 108) (i64.const 0))))`)
	}
	for _, end := range []string{"", "unreachable", "(drop (i32.load (i32.const -1)))", "(drop (call $rec (i32.const 100000) (f64.const 0) (ref.null func)))"} {
		for _, spare := range []int{0, 200} {
			var ends [2]string
			var values [2][]byte
			for i, v := range vms {
				out, err := v.run(call(module(spare, end), "main", 300*tera), &world{})
				if err != nil {
					t.Fatal(err)
				}
				ends[i], values[i] = ended(&out), out.Return.Value
			}
			if ends[0] != ends[1] || !bytes.Equal(values[0], values[1]) || end == "" && len(values[0]) != 108 {
				t.Errorf("%q: %s %x, by the oracle %s %x", end, ends[0], values[0], ends[1], values[1])
			}
		}
	}
}

// TestHostileControlFlowCompilesInTime compiles functions in which thousands of control flow joins
// merge many locals. A compiler that gives each local a new value at each join takes from a minute
// to days. The test is that the compilation ends.
func TestHostileControlFlowCompilesInTime(t *testing.T) {
	v := newVM(t)
	lines := func(n int, line string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(line, "$i", fmt.Sprint(i)) + "\n")
		}
		return b.String()
	}
	const n = 3000
	locals := "(local " + strings.Repeat("i64 ", n) + ")"
	for name, body := range map[string]string{
		"loops in loops": strings.Repeat("loop ", n) + lines(n, "(local.set $i (i64.add (local.get $i) (i64.const 1)))") + strings.Repeat("end ", n),
		"loops that turn": strings.Repeat("loop ", n) + lines(n, "(local.set $i (i64.add (local.get $i) (i64.const 1)))") +
			strings.Repeat("(br_if 0 (i32.const 0)) end ", n),
		"a way out at each":  "block " + lines(n, "(br_if 0 (i32.const 0)) (local.set $i (i64.const 1))") + "end " + lines(n, "(drop (local.get $i))"),
		"ifs":                lines(n, "(if (i32.const 0) (then (local.set $i (i64.const 1))))") + lines(n, "(drop (local.get $i))"),
		"a table of targets": "block " + lines(n, "(local.set $i (i64.const 1))") + "i32.const 0 br_table " + strings.Repeat("0 ", 20_000) + " end " + lines(n, "(drop (local.get $i))"),
	} {
		t.Run(name, func(t *testing.T) {
			out, err := v.run(call(wat(t, `(module (func (export "main") `+locals+body+`))`), "main", 300*tera), &world{})
			if err != nil || out.Err != nil {
				t.Errorf("%s, %v", ended(&out), err)
			}
		})
	}
}
