package vm

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// processor returns the processor time that the process has used, in ns.
func processor() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// BenchmarkPlain runs simple instructions until the gas is used up. It reports ms of processor time per
// Tgas; 1 Tgas is meant to be 1 ms.
func BenchmarkPlain(b *testing.B) {
	v := newVM(b)
	many := func(n int, what string) string { return strings.Repeat(what+"\n", n) }
	// 30 locals that are live across 30 joins of control flow, alone and among thousands of other locals.
	busy := func(dead int) string {
		return `(local ` + many(30, "i64") + `) (loop $l ` + func() (s string) {
			for i := range 30 {
				s += fmt.Sprintf("(local.set %d (i64.add (local.get %d) (local.get %d))) (if (i64.eqz (local.get %d)) (then (local.set %d (i64.const %d))))\n", i, (i+1)%30, (i+7)%30, (i+3)%30, i, i+1)
			}
			return s
		}() + `(br $l)) ` + many(dead, "(block)")
	}
	for _, c := range []struct{ name, body string }{
		{"empty loop", "(loop $l (br $l))"},
		{"counting", "(local i32) (loop $l (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const -1))))"},
		{"i64 sums", "(local i64 i64 i64) (loop $l " + many(20, "(local.set 0 (i64.add (local.get 0) (local.get 1))) (local.set 1 (i64.xor (local.get 2) (local.get 0))) (local.set 2 (i64.rotl (local.get 1) (i64.const 5)))") + "(br $l))"},
		{"i64 products", "(local i64 i64) (loop $l " + many(20, "(local.set 0 (i64.mul (local.get 0) (local.get 1)))") + "(br $l))"},
		{"loads", "(local i32) (loop $l " + many(20, "(local.set 0 (i32.add (i32.and (local.get 0) (i32.const 4095)) (i32.load (local.get 0))))") + "(br $l))"},
		{"stores", "(local i32) (loop $l " + many(20, "(i32.store (i32.and (local.get 0) (i32.const 4095)) (local.tee 0 (i32.add (local.get 0) (i32.const 4))))") + "(br $l))"},
		{"calls", "(loop $l " + many(20, "(call $nothing)") + "(br $l))"},
		{"calls of fib", "(drop (call $fib (i32.const 50)))"},
		{"indirect calls", "(loop $l " + many(20, "(call_indirect (type $v) (i32.const 0))") + "(br $l))"},
		{"f64 sums", "(local f64 f64) (local.set 1 (f64.const 1.5)) (loop $l " + many(20, "(local.set 0 (f64.add (local.get 0) (local.get 1)))") + "(br $l))"},
		{"square roots", "(local f64) (local.set 0 (f64.const 2)) (loop $l " + many(20, "(local.set 0 (f64.sqrt (local.get 0)))") + "(br $l))"},
		{"divisions", "(local i64 i64) (local.set 1 (i64.const 3)) (loop $l " + many(20, "(local.set 0 (i64.div_u (i64.const -1) (local.get 1)))") + "(br $l))"},
		{"env.gas", "(loop $l " + many(20, "(call $gas (i32.const 0))") + "(br $l))"},
		{"globals", "(loop $l " + many(20, "(global.set 0 (i64.add (global.get 0) (global.get 1)))") + "(br $l))"},
		{"busy locals", busy(0)},
		{"busy locals, more joints", busy(4_000)},
		{"operands over joints", "(local " + many(30, "i64") + ") (loop $l " + many(30, "local.get 5") + "(block) (br_if 0 (i32.const 0))" + many(29, "i64.add") +
			" local.set 3 (br $l)) " + many(4_000, "(block)")},
		{"branches", "(local i32) (loop $l " + many(20, "(block (br_if 0 (i32.and (local.tee 0 (i32.add (i32.mul (local.get 0) (i32.const 1664525)) (i32.const 1013904223))) (i32.const 0x10000))) (nop))") + "(br $l))"},
		{"table of branches", "(local i32) (loop $l " + many(10, "(block (block (block (br_table 0 1 2 (i32.and (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 3))))))") + "(br $l))"},
	} {
		code := wat(b, `(module (import "env" "gas" (func $gas (param i32))) (memory 1) (table 1 funcref) (elem (i32.const 0) $nothing) (type $v (func)) (global (mut i64) (i64.const 1)) (global (mut i64) (i64.const 1))
			(func $nothing)
			(func $fib (param i32) (result i32) (if (result i32) (i32.lt_u (local.get 0) (i32.const 2)) (then (local.get 0))
				(else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))))))
			(func (export "main") `+c.body+`))`)
		b.Run("what="+strings.ReplaceAll(c.name, " ", "_"), func(b *testing.B) {
			call := call(code, "main", 100*tera)
			spent := int64(0)
			run := func() {
				before := processor()
				if out, err := v.run(call, &world{}); err != nil || out.GasBurnt != 100*tera {
					b.Fatal(ended(&out), err)
				}
				spent += processor() - before
			}
			run()
			spent = 0
			for b.Loop() {
				run()
			}
			b.ReportMetric(float64(spent)/1e6/100/float64(b.N), "ms/Tgas")
		})
	}
}

// BenchmarkLarge runs a contract of 250 KB that is similar to the output of a compiler. It reports the time
// and the time that its gas is meant to take.
func BenchmarkLarge(b *testing.B) {
	v := newVM(b)
	c := call(contracts.Large(250_000, 1), "run", 300*tera)
	c.Block.Config = parameters.MustGet(parameters.June(86))
	run := func() float64 {
		out, err := v.run(c, &world{})
		if err != nil {
			b.Fatal(ended(&out), err)
		}
		return float64(out.GasBurnt) / tera
	}
	run()
	before, gas := processor(), 0.0
	for b.Loop() {
		gas += run()
	}
	b.ReportMetric(float64(processor()-before)/1e6/gas, "ms/Tgas")
}
