package vm

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// TestComputedNaNIsCanonical checks that a computed NaN is canonical, whatever instruction computed
// it, and that instructions which only move bits or the sign keep the payload. It also tests
// functions with the maximum number of locals, where prep cannot add locals of its own.
func TestComputedNaNIsCanonical(t *testing.T) { inForms(t, testNaN) }

func testNaN(t *testing.T, v *VM) {
	const odd32, odd64 = 0xffc0_0123, 0xfff8_0000_0000_0123 // negative, with a payload
	type want struct {
		what string
		bits uint64
	}
	var wants []want
	var body strings.Builder
	result := func(what, code string, bits uint64) {
		fmt.Fprintf(&body, "(i64.store (i32.const %d) %s)\n", 8*len(wants), code)
		wants = append(wants, want{what, bits})
	}
	for _, f := range []struct {
		size                                      int
		odd, canonical, sign, zero, infinity, one uint64
	}{{32, odd32, 0x7fc0_0000, 1 << 31, 0, 0x7f80_0000, 0x3f80_0000}, {64, odd64, 0x7ff8_0000_0000_0000, 1 << 63, 0, 0x7ff0_0000_0000_0000, 0x3ff0_0000_0000_0000}} {
		value := func(bits uint64) string {
			return fmt.Sprintf("(f%d.reinterpret_i%d (i%d.const %d))", f.size, f.size, f.size, int64(bits)<<(64-f.size)>>(64-f.size))
		}
		bits := func(code string) string {
			if f.size == 32 {
				return "(i64.extend_i32_u (i32.reinterpret_f32 " + code + "))"
			}
			return "(i64.reinterpret_f64 " + code + ")"
		}
		add := func(op string, want uint64, operands ...uint64) {
			code := fmt.Sprintf("(f%d.%s", f.size, op)
			for _, o := range operands {
				code += " " + value(o)
			}
			result(fmt.Sprintf("f%d.%s %x", f.size, op, operands), bits(code+")"), want)
		}
		for _, op := range []string{"ceil", "floor", "trunc", "nearest", "sqrt"} {
			add(op, f.canonical, f.odd)
		}
		for _, op := range []string{"add", "sub", "mul", "div", "min", "max"} {
			add(op, f.canonical, f.odd, f.one)
			add(op, f.canonical, f.one, f.odd)
		}
		add("sqrt", f.canonical, f.one|f.sign)
		add("div", f.canonical, f.zero, f.zero)
		add("sub", f.canonical, f.infinity, f.infinity)
		add("mul", f.canonical, f.zero, f.infinity)
		add("add", f.one, f.one, f.zero) // and a number stays one
		add("neg", f.odd&^f.sign, f.odd)
		add("abs", f.odd&^f.sign, f.odd)
		add("copysign", f.odd&^f.sign, f.odd, f.one)
		add("copysign", f.one|f.sign, f.one, f.odd)
		// An operation on a NaN that was not observable before, and one that makes it observable.
		op := func(name string, operands ...string) string {
			return fmt.Sprintf("(f%d.%s %s)", f.size, name, strings.Join(operands, " "))
		}
		sum := op("add", value(f.odd), value(f.one))
		for _, x := range []struct {
			code string
			want uint64
		}{
			{op("sqrt", sum), f.canonical}, {op("sqrt", op("neg", sum)), f.canonical}, {op("neg", op("sqrt", op("abs", sum))), f.canonical | f.sign},
			{op("abs", op("neg", sum)), f.canonical}, {op("neg", op("neg", sum)), f.canonical}, {op("mul", value(f.one), op("neg", sum)), f.canonical},
			{op("add", sum, sum), f.canonical}, {op("neg", op("max", op("neg", sum), sum)), f.canonical | f.sign},
			{op("copysign", value(f.one), sum), f.one}, {op("copysign", value(f.one), op("neg", sum)), f.one | f.sign}, {op("copysign", sum, value(f.one|f.sign)), f.canonical | f.sign},
			{fmt.Sprintf("(if (result f%d) (i32.const 1) (then %s) (else %s))", f.size, op("neg", sum), value(f.one)), f.canonical | f.sign},
			{fmt.Sprintf("(select %s %s (i32.const 1))", op("sqrt", sum), value(f.one)), f.canonical},
			{fmt.Sprintf("%s nop nop %s", sum, op("neg")), f.canonical | f.sign},
		} {
			result(x.code, bits(x.code), x.want)
		}
		for _, x := range []struct {
			code string
			want uint64
		}{{op("ne", sum, sum), 1}, {op("lt", op("neg", sum), value(f.one)), 0}, {fmt.Sprintf("(i32.trunc_sat_f%d_s %s)", f.size, sum), 0}} {
			result(x.code, "(i64.extend_i32_u "+x.code+")", x.want)
		}
		// The sign of a NaN that was made canonical.
		result(fmt.Sprintf("f%d.neg of a sum", f.size), bits(fmt.Sprintf("(f%d.neg (f%d.add %s %s))", f.size, f.size, value(f.odd), value(f.one))), f.canonical|f.sign)
	}
	result("demote", "(i64.extend_i32_u (i32.reinterpret_f32 (f32.demote_f64 (f64.reinterpret_i64 (i64.const -2251799813684957)))))", 0x7fc0_0000)
	result("promote", "(i64.reinterpret_f64 (f64.promote_f32 (f32.reinterpret_i32 (i32.const -4193501))))", 0x7ff8_0000_0000_0000)
	for name, locals := range map[string]int{"few locals": 200, "all locals": 49_998} {
		named := ""
		if locals > 200 {
			var tees strings.Builder
			for i := range locals {
				fmt.Fprintf(&tees, " local.tee %d", i)
			}
			named = "i32.const 0" + tees.String() + " drop "
		}
		code := wat(t, `(module (import "env" "value_return" (func $return (param i64 i64))) (memory 1)
			(func (export "main") (local `+strings.Repeat("i32 ", locals)+")"+named+body.String()+fmt.Sprintf("(call $return (i64.const %d) (i64.const 0))", 8*len(wants))+`))`)
		out, err := v.run(call(code, "main", 300*tera), &world{})
		if err != nil || out.Err != nil || len(out.Return.Value) != 8*len(wants) {
			t.Fatalf("%s: %s, %v", name, ended(&out), err)
		}
		for i, w := range wants {
			if got := binary.LittleEndian.Uint64(out.Return.Value[8*i:]); got != w.bits {
				t.Errorf("%s, %s: %x, want %x", name, w.what, got, w.bits)
			}
		}
	}
}
