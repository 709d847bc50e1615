package engine_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// bareTimed are instructions that take longer than their gas is meant to take, even without added code.
var bareTimed = []struct{ name, fields, what string }{
	{"f64.div", "", "(local.set $d (f64.div (local.get $d) (f64.const 1.5)))"},
	{"f64.sqrt", "", "(local.set $d (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (local.get $d))))))"},
	{"f64.nearest, ceil, floor", "", "(local.set $d (f64.nearest (f64.ceil (f64.floor (local.get $d)))))"},
	{"f64.promote, f32.demote", "", "(local.set $d (f64.promote_f32 (f32.demote_f64 (local.get $d))))"},
	{"i64.div_s", "", "(local.set $j (i64.div_s (local.get $j) (i64.const 7)))"},
	{"call_indirect with a parameter", "(type $t (func (param i32))) (func $f (type $t)) (table 1 funcref) (elem (i32.const 0) $f)",
		"(call_indirect (type $t) (i32.const 0) (i32.const 0))"},
	{"env.gas(0) through a table", `(import "env" "gas" (func $gas (param i32))) (type $t (func (param i32))) (table 1 funcref) (elem (i32.const 0) $gas)`,
		"(call_indirect (type $t) (i32.const 0) (i32.const 0))"},
}

// BenchmarkBare prints the processor time of some instructions, relative to their gas (ms per
// Tgas, and ns per instruction), in three forms: as prep prepares them; with the same code
// generator but without charges and other additions; and with an optimising code generator that
// makes NaNs canonical itself.
//
//	go test -run '^$' -bench Bare -benchtime 1x ./runtime/vm/engine
func BenchmarkBare(b *testing.B) {
	w := &parameters.MustGet(parameters.June(86)).Wasm
	e, err := engine.New(engine.Options{
		Functions: []engine.Function{{Name: "gas", Params: []engine.ValType{engine.I32}}}, Exports: engine.Exports{Gas: prep.GlobalGas, Stack: prep.GlobalStack}})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	const turns, times = 100_000, 50
	processor := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	least := func(run func()) time.Duration {
		best := time.Hour
		for range 5 {
			begun := processor()
			run()
			best = min(best, processor()-begun)
		}
		return best
	}
	for b.Loop() {
		fmt.Println()
		for _, x := range bareTimed {
			code, err := wasmtime.Wat2Wasm(fmt.Sprintf(`(module %s (memory 1) (func (export "main") (local $i i32) (local $j i64) (local $d f64) (loop %s
				(br_if 0 (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const %d))))))`, x.fields, strings.Repeat(x.what, times), turns))
			if err != nil {
				b.Fatal(err)
			}
			var gas int64
			run := func(code []byte, method string) func() {
				artifact, err := e.Compile(code)
				if err != nil {
					b.Fatal(err)
				}
				m, err := e.Load(artifact)
				if err != nil {
					b.Fatal(err)
				}
				return func() {
					out, err := m.Run(engine.Call{Method: method, Gas: 1 << 60, Host: new(hostCalls)})
					if err != nil || out.End != engine.Done {
						b.Fatal(x.name, out, err)
					}
					gas = 1<<60 - out.Gas
				}
			}
			p, err := prep.Prepare(code, w)
			if err != nil {
				b.Fatal(err)
			}
			prepared := least(run(p.Code, prep.MethodPrefix+"main"))
			ms := func(d time.Duration) string { // and ns of one
				return fmt.Sprintf("%.2f (%.1f ns)", d.Seconds()*1e3/(float64(gas)/1e12), float64(d)/turns/times)
			}
			line := fmt.Sprintf("%-34s gas of %.1f ns; ms/Tgas: %s prepared", x.name, float64(gas)/1e6/turns/times, ms(prepared))
			if spent := gas; !strings.Contains(x.fields, "import") { // bare, it would go to the host
				bare := least(run(code, "main"))
				gas = spent
				c := wasmtime.NewConfig()
				c.SetCraneliftNanCanonicalization(true)
				store := wasmtime.NewStore(wasmtime.NewEngineWithConfig(c))
				m, err := wasmtime.NewModule(store.Engine, code)
				if err != nil {
					b.Fatal(err)
				}
				in, err := wasmtime.NewInstance(store, m, nil)
				if err != nil {
					b.Fatal(err)
				}
				other := least(func() {
					if _, err := in.GetFunc(store, "main").Call(store); err != nil {
						b.Fatal(err)
					}
				})
				line += fmt.Sprintf(", %s bare in %s, %s bare, optimised, canonical floats", ms(bare), engine.Generator(), ms(other))
			}
			fmt.Println(line)
		}
	}
}
