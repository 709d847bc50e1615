package vm

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// timed is an operation whose time is compared with its gas: 1 Tgas is 1 ms.
type timed struct {
	name string
	wat  string // exports main
	// once means that main ends soon by itself, so the price of the call counts as well. Otherwise main
	// runs until its gas is used up.
	once bool
	gas  primitives.Gas // of a run; 0: 0.1 Tgas
}

// looped returns a module whose main repeats an operation without end, many times per iteration.
func looped(what string, n int) string {
	return `(func (export "main") (local $i i32) (local $j i64) (local $d f64) (local $f f32) (loop ` + strings.Repeat(what+"\n", n) + ` (br 0)))`
}

// instructionsTimed are the cases for instructions, including bulk instructions.
func instructionsTimed() (all []timed) {
	add := func(name, what string) {
		all = append(all, timed{name: name, wat: "(module " + looped(what, 50) + ")"})
	}
	with := func(name, fields, what string) {
		all = append(all, timed{name: name, wat: "(module " + fields + looped(what, 50) + ")"})
	}
	all = append(all, timed{name: "loop, br", wat: "(module " + looped("", 0) + ")"})
	add("nop", "nop")
	add("block, br_if", "(block (br_if 0 (local.get $i)))")
	add("if", "(if (local.get $i) (then))")
	add("br_table", "(block (block (br_table 0 1 0 1 0 (local.get $i))))")
	add("select", "(local.set $i (select (local.get $i) (i32.const 3) (local.get $i)))")
	add("i64.add", "(local.set $j (i64.add (local.get $j) (i64.const 7)))")
	add("i64.mul", "(local.set $j (i64.mul (local.get $j) (i64.const 7)))")
	add("i64.div_s, dependent", "(local.set $j (i64.div_s (local.get $j) (i64.const 7)))")
	add("i64.div_u, dependent, large", "(local.set $j (i64.div_u (i64.const -3) (i64.or (local.get $j) (i64.const 3))))")
	add("i64.rem_u, dependent, large", "(local.set $j (i64.rem_u (i64.const -3) (i64.or (local.get $j) (i64.const 0x123456789))))")
	add("i32.rem_s, dependent", "(local.set $i (i32.rem_s (i32.const -3) (i32.or (local.get $i) (i32.const 7))))")
	add("i64.popcnt, clz, ctz", "(local.set $j (i64.popcnt (i64.clz (i64.ctz (local.get $j)))))")
	add("f64.add, dependent", "(local.set $d (f64.add (local.get $d) (f64.const 1.5)))")
	with("f64.add, dependent, in a global", "(global $g (mut f64) (f64.const 1))", "(global.set $g (f64.add (global.get $g) (f64.const 1.5)))")
	with("f64.add, dependent, in memory", "(memory 1)", "(f64.store (i32.const 64) (f64.add (f64.load (i32.const 64)) (f64.const 1.5)))")
	add("f64.add, all seen", "(local.set $j (i64.reinterpret_f64 (f64.add (local.get $d) (f64.const 1.5))))")
	add("f64.mul, denormal", "(local.set $d (f64.mul (f64.const 0x1p-1060) (f64.add (local.get $d) (f64.const 0.5))))")
	add("f64.div, dependent", "(local.set $d (f64.div (local.get $d) (f64.const 1.5)))")
	add("f64.sqrt, dependent", "(local.set $d (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt (local.get $d))))))")
	add("f32.sqrt, dependent", "(local.set $f (f32.sqrt (f32.sqrt (f32.sqrt (f32.sqrt (local.get $f))))))")
	add("f64.min, max", "(local.set $d (f64.max (f64.min (local.get $d) (f64.const 1.5)) (f64.const -1)))")
	add("f64.nearest, ceil, floor", "(local.set $d (f64.nearest (f64.ceil (f64.floor (local.get $d)))))")
	add("f64.promote, f32.demote", "(local.set $d (f64.promote_f32 (f32.demote_f64 (local.get $d))))")
	add("i64.trunc_sat, f64.convert_i64_u", "(local.set $d (f64.convert_i64_u (i64.trunc_sat_f64_u (local.get $d))))")
	add("ref.null, ref.is_null", "(drop (ref.is_null (ref.null func)))")
	with("global.get, set", "(global $g (mut i64) (i64.const 1))", "(global.set $g (i64.add (global.get $g) (i64.const 1)))")
	with("memory.size", "(memory 1)", "(drop (memory.size))")
	with("i64.load, store", "(memory 1)", "(i64.store (i32.const 64) (i64.add (i64.load (i32.const 64)) (i64.const 1)))")
	all = append(all, timed{name: "i32.load all over 64 MiB, dependent", gas: 5 * tera, wat: `(module (memory 1) (func (export "main") (local $i i32)
		(loop (i32.store (local.get $i) (i32.const 1)) (br_if 0 (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 0x100000))) (i32.const 0x4000000))))
		(loop (local.set $i (i32.add (i32.mul (i32.add (local.get $i) (i32.load (i32.and (local.get $i) (i32.const 0x3fffffc)))) (i32.const 1664525)) (i32.const 1013904223))) (br 0))))`})
	with("call", "(func $f)", "(call $f)")
	with("call with 10 parameters", "(func $f (param i64 i64 i64 i64 i64 i64 i64 i64 i64 i64))",
		"(call $f (local.get $j) (local.get $j) (local.get $j) (local.get $j) (local.get $j) (local.get $j) (local.get $j) (local.get $j) (local.get $j) (local.get $j))")
	with("call with 1000 locals", "(func $f (local "+strings.Repeat("i64 ", 1000)+"))", "(call $f)")
	with("call with 1000 locals over joints", "(func $f (local "+strings.Repeat("i64 ", 1000)+") (br_if 0 (i32.const 1))"+manyJoints(1000)+")", "(call $f)")
	with("call_indirect", "(type $t (func)) (func $f) (table 1 funcref) (elem (i32.const 0) $f)", "(call_indirect (type $t) (i32.const 0))")
	with("locals over joints", "(func $f (local "+strings.Repeat("i64 ", 100)+") "+manyJoints(300)+" (loop "+strings.Repeat("(local.set 3 (i64.add (local.get 4) (local.get 5)))", 50)+" (br 0)))", "(call $f)")
	with("ref.func", "(func $f) (elem declare func $f)", "(drop (ref.func $f))")
	with("table.get", "(func $f) (table 1 funcref) (elem (i32.const 0) $f)", "(drop (table.get (i32.const 0)))")
	with("table.set", "(table 1 funcref)", "(table.set (i32.const 0) (ref.null func))")
	with("table.set of ref.func", "(func $f) (elem declare func $f) (table 1 funcref)", "(table.set (i32.const 0) (ref.func $f))")
	with("table.size", "(table 1 funcref)", "(drop (table.size))")
	with("env.gas(0)", gasImport, "(call $gas (i32.const 0))")
	with("env.gas(1)", gasImport, "(call $gas (i32.const 1))")
	with("env.gas of a local", gasImport, "(call $gas (local.get $i))")
	with("env.gas(0) through a table", gasImport+"(type $t (func (param i32))) (table 1 funcref) (elem (i32.const 0) $gas)", "(call_indirect (type $t) (i32.const 0) (i32.const 0))")

	for _, n := range []int{0, 1, 1000, 65536} {
		with(fmt.Sprint("memory.fill ", n), "(memory 4)", fmt.Sprintf("(memory.fill (i32.const 100) (i32.const 1) (i32.const %d))", n))
		with(fmt.Sprint("memory.copy ", n), "(memory 4)", fmt.Sprintf("(memory.copy (i32.const 100) (i32.const 70000) (i32.const %d))", n))
		with(fmt.Sprint("memory.init ", n), `(memory 4) (data $d "`+strings.Repeat("a", 65536)+`")`, fmt.Sprintf("(memory.init $d (i32.const 100) (i32.const 0) (i32.const %d))", n))
	}
	for _, n := range []int{0, 1, 1000, 10000} {
		with(fmt.Sprint("table.fill ", n), "(table 10000 funcref)", fmt.Sprintf("(table.fill (i32.const 0) (ref.null func) (i32.const %d))", n))
		with(fmt.Sprint("table.copy ", n), "(table 10000 funcref)", fmt.Sprintf("(table.copy (i32.const 0) (i32.const 0) (i32.const %d))", n))
		with(fmt.Sprint("table.copy of functions ", n), "(func $f) (table 10000 funcref) (elem (table 0) (i32.const 0) func "+strings.Repeat("$f ", 10000)+")",
			fmt.Sprintf("(table.copy (i32.const 0) (i32.const 0) (i32.const %d))", n))
		with(fmt.Sprint("table.init ", n), "(func $f) (table 10000 funcref) (elem $e func "+strings.Repeat("$f ", 10000)+")", fmt.Sprintf("(table.init $e (i32.const 0) (i32.const 0) (i32.const %d))", n))
	}
	with("data.drop", `(memory 1) (data $d "a")`, "(data.drop $d)")
	with("elem.drop", `(func $f) (elem $e func $f)`, "(elem.drop $e)")
	with("memory.grow 0", "(memory 1)", "(drop (memory.grow (i32.const 0)))")
	with("memory.grow that fails", "(memory 1)", "(drop (memory.grow (i32.const 5000)))")
	with("memory.grow that fails by far", "(memory 1)", "(drop (memory.grow (i32.const -1)))")
	with("table.grow 0", "(table 1 funcref)", "(drop (table.grow (ref.null func) (i32.const 0)))")
	with("table.grow that fails", "(table 1 1 funcref)", "(drop (table.grow (ref.null func) (i32.const 1)))")
	return all
}

const gasImport = `(import "env" "gas" (func $gas (param i32)))`

// manyJoints returns code whose control flow splits and joins often.
func manyJoints(n int) string {
	return strings.Repeat("(if (i32.const 0) (then (local.set 1 (local.get 2))))", n)
}

// callsTimed are the cases in which main ends soon, so that they measure whole calls.
func callsTimed() (all []timed) {
	add := func(name, wat string) { all = append(all, timed{name: name, wat: wat, once: true}) }
	count := func(from, to, step int, what string) string { // $i from, below to
		return fmt.Sprintf("(local.set $i (i32.const %d)) (loop %s (br_if 0 (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const %d))) (i32.const %d))))", from, what, step, to)
	}
	add("call of nothing", `(module (func (export "main")))`)
	add("start function", `(module (start $s) (func $s) (func (export "main")))`)
	add("trap", `(module (func (export "main") unreachable))`)
	add("trap of a division", `(module (func (export "main") (drop (i32.div_u (i32.const 1) (i32.const 0)))))`)
	add("trap out of bounds", `(module (memory 1) (func (export "main") (drop (i32.load (i32.const -1)))))`)
	add("trap in the host", `(module (import "env" "panic" (func $p)) (func (export "main") (call $p)))`)
	add("recursion to the end", `(module (func $f (export "main") (call $f)))`)
	add("recursion with results to the end", `(module (func $f (param i64) (result i64) (i64.add (call $f (i64.add (local.get 0) (i64.const 1))) (local.get 0))) (func (export "main") (drop (call $f (i64.const 1)))))`)
	add("trap far down", `(module (func $f (param i32) (if (i32.eqz (local.get 0)) (then unreachable)) (call $f (i32.sub (local.get 0) (i32.const 1)))) (func (export "main") (call $f (i32.const 2000))))`)
	add("memory.grow page by page", `(module (memory 1) (func (export "main") (local $i i32) `+count(0, 1024, 1, "(drop (memory.grow (i32.const 1)))")+`))`)
	add("table.grow one by one", `(module (table 1 10000 funcref) (func (export "main") (local $i i32) `+count(0, 9999, 1, "(drop (table.grow (ref.null func) (i32.const 1)))")+`))`)
	add("1 byte written in each page of 64 MiB", `(module (memory 1) (func (export "main") (local $i i32) `+count(0, 64<<20, 4096, "(i32.store8 (local.get $i) (i32.const 1))")+`))`)
	add("1 byte read in each page of 64 MiB", `(module (memory 1) (func (export "main") (local $i i32) `+count(0, 64<<20, 4096, "(drop (i32.load8_u (local.get $i)))")+`))`)
	add("1 byte written in each page of 128 MiB", `(module (memory 1) (func (export "main") (local $i i32) (drop (memory.grow (i32.const 1024)))`+count(0, 128<<20, 4096, "(i32.store8 (local.get $i) (i32.const 1))")+`))`)
	add("1 byte written in each page of 1 MiB", `(module (memory 1) (func (export "main") (local $i i32) `+count(0, 1<<20, 4096, "(i32.store8 (local.get $i) (i32.const 1))")+`))`)
	add("memory.fill of 64 MiB", `(module (memory 1) (func (export "main") (memory.fill (i32.const 0) (i32.const 1) (i32.const 0x4000000))))`)
	add("two bytes of data 16 MiB apart", `(module (memory 1024) (data (i32.const 0) "a") (data (i32.const 16776900) "b") (func (export "main") (i32.store (i32.const 0) (i32.load (i32.const 16776900)))))`)
	add("a byte of data in each of 1000 pages", `(module (memory 1024)`+each(1000, func(i int) string { return fmt.Sprintf(`(data (i32.const %d) "a")`, i*65536) })+` (func (export "main")))`)
	add("10,000 segments of data", `(module (memory 1024)`+each(10000, func(i int) string { return fmt.Sprintf(`(data (i32.const %d) "a")`, i*5) })+` (func (export "main")))`)
	add("10,000 globals", `(module `+each(10000, func(i int) string { return "(global (mut i64) (i64.const 1))" })+` (func (export "main")))`)
	add("table of 10,000 functions", `(module (func $f) (table 10000 funcref) (elem (i32.const 0) func `+strings.Repeat("$f ", 10000)+`) (func (export "main")))`)
	add("table of 10,000 functions, all read", `(module (func $f) (table 10000 funcref) (elem (i32.const 0) func `+strings.Repeat("$f ", 10000)+`) (func (export "main") (local $i i32) `+count(0, 10000, 1, "(drop (table.get (local.get $i)))")+`))`)
	add("10,000 functions in globals", `(module (func $f) `+each(10000, func(i int) string { return "(global funcref (ref.func $f))" })+` (func (export "main")))`)
	add("table of 10,000 nulls", `(module (table 10000 funcref) (func (export "main")))`)
	return all
}

func each(n int, f func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(f(i) + "\n")
	}
	return b.String()
}

// hostTimed are the cases for host functions. Package curve has the benchmarks of cryptography.
func hostTimed() (all []timed) {
	const data = `(memory 1) (data (i32.const 0) "alice.near\00\01\02\03key-value")`
	add := func(name, params, result, call string) {
		if result != "" {
			result, call = "(result "+result+")", "(drop "+call+")"
		}
		all = append(all, timed{name: "env." + name, wat: fmt.Sprintf(`(module (import "env" "%s" (func $f (param %s) %s)) %s %s)`,
			name, params, result, data, looped(call, 20))})
	}
	const r0 = "(call $f (i64.const 0))"
	for _, name := range []string{"current_account_id", "signer_account_id", "signer_account_pk", "predecessor_account_id", "refund_to_account_id",
		"input", "account_balance", "account_locked_balance", "attached_deposit", "random_seed", "validator_total_stake", "chain_id"} {
		add(name, "i64", "", r0)
	}
	add("current_contract_code", "i64", "i64", r0)
	for _, name := range []string{"block_index", "block_timestamp", "epoch_height", "storage_usage", "prepaid_gas", "used_gas", "promise_results_count"} {
		add(name, "", "i64", "(call $f)")
	}
	add("register_len", "i64", "i64", r0)
	add("write_register", "i64 i64 i64", "", "(call $f (i64.const 0) (i64.const 3) (i64.const 0))")
	add("validator_stake", "i64 i64 i64", "", "(call $f (i64.const 10) (i64.const 0) (i64.const 32))")
	add("value_return", "i64 i64", "", "(call $f (i64.const 3) (i64.const 0))")
	add("storage_has_key", "i64 i64", "i64", "(call $f (i64.const 3) (i64.const 0))")
	add("storage_read", "i64 i64 i64", "i64", "(call $f (i64.const 3) (i64.const 0) (i64.const 0))")
	add("storage_write", "i64 i64 i64 i64 i64", "i64", "(call $f (i64.const 3) (i64.const 0) (i64.const 3) (i64.const 0) (i64.const 0))")
	add("storage_remove", "i64 i64 i64", "i64", "(call $f (i64.const 3) (i64.const 0) (i64.const 0))")
	add("sha256", "i64 i64 i64", "", "(call $f (i64.const 0) (i64.const 0) (i64.const 0))")
	once := func(name, imports, body string) {
		all = append(all, timed{name: name, once: true, wat: `(module ` + imports + data + ` (func (export "main") (local $i i64) ` + body + `))`})
	}
	times := func(n int, what string) string {
		return fmt.Sprintf("(loop %s (br_if 0 (i64.lt_u (local.tee $i (i64.add (local.get $i) (i64.const 1))) (i64.const %d))))", what, n)
	}
	once("env.log_utf8, 100 of a byte", `(import "env" "log_utf8" (func $f (param i64 i64)))`, times(100, "(call $f (i64.const 1) (i64.const 0))"))
	once("env.write_register of 100 registers", `(import "env" "write_register" (func $f (param i64 i64 i64)))`, times(99, "(call $f (local.get $i) (i64.const 3) (i64.const 0))"))
	all = append(all, timed{name: "env.register_len of the last of 99", wat: `(module (import "env" "write_register" (func $w (param i64 i64 i64)))
		(import "env" "register_len" (func $f (param i64) (result i64)))` + data + `(func $set (local $i i64) ` + times(99, "(call $w (local.get $i) (i64.const 3) (i64.const 0))") + `)
		(func (export "main") (call $set) (loop ` + strings.Repeat("(drop (call $f (i64.const 98)))", 20) + ` (br 0))))`})
	all = append(all, timed{name: "env.read_register", wat: `(module (import "env" "write_register" (func $w (param i64 i64 i64)))
		(import "env" "read_register" (func $f (param i64 i64)))` + data + `(func (export "main") (call $w (i64.const 0) (i64.const 3) (i64.const 0)) (loop ` +
		strings.Repeat("(call $f (i64.const 0) (i64.const 8))", 20) + ` (br 0))))`})
	const create = `(import "env" "promise_batch_create" (func $c (param i64 i64) (result i64)))`
	const created = "(call $c (i64.const 10) (i64.const 0))"
	once("env.promise_batch_create, 1000", create, times(1000, "(drop "+created+")"))
	once("env.promise_and, 1000", create+`(import "env" "promise_and" (func $f (param i64 i64) (result i64)))`, "(drop "+created+")"+times(1000, "(drop (call $f (i64.const 2048) (i64.const 1)))"))
	once("env.promise_return, 1000", create+`(import "env" "promise_return" (func $f (param i64)))`, "(drop "+created+")"+times(1000, "(call $f (i64.const 0))"))
	once("env.promise_batch_then, 1000", create+`(import "env" "promise_batch_then" (func $f (param i64 i64 i64) (result i64)))`, "(drop "+created+")"+times(1000, "(drop (call $f (i64.const 0) (i64.const 10) (i64.const 0)))"))
	return all
}

// cost is the measured cost of a case.
type cost struct {
	name string
	ms   float64 // of processor time for a Tgas
	ns   float64 // and for a run
	gas  float64 // Tgas of a run
	end  string
}

// measure runs a case for about limit, in three rounds of at least two runs, and returns the best round.
func (x *timed) measure(t testing.TB, v *VM, limit time.Duration) cost {
	t.Helper()
	code := wat(t, x.wat)
	cfg := parameters.MustGet(parameters.June(86))
	c := call(code, "main", 300*tera)
	c.Block.Config = cfg
	c.Block.ChainID = "chain"
	c.Balance = primitives.Balance{Hi: 1 << 30}
	// The gas of executing a function call action. The gas of creating and sending the receipt is not
	// included.
	price := primitives.Gas(0)
	if x.once {
		price = cfg.Fees.Action[parameters.ActionFunctionCallBase].Exec.Gas
	}
	run := func() (primitives.Gas, *action.CallOutcome) {
		w := &anyWorld{}
		out, err := v.run(c, w)
		if err != nil {
			t.Fatal(x.name, err)
		}
		return out.GasBurnt + price, &out
	}
	if !x.once {
		c.PrepaidGas = cmp.Or(x.gas, tera/10)
	}
	if _, out := run(); x.once == (out.GasBurnt == c.PrepaidGas) {
		t.Fatalf("%s: %s", x.name, ended(out))
	}
	best := cost{name: x.name, ms: 1e18}
	for range 3 {
		var gas primitives.Gas
		n := 0
		var out *action.CallOutcome
		at, end := processor(), time.Now().Add(limit/3)
		for n < 2 || time.Now().Before(end) {
			burnt, o := run()
			gas, out = gas+burnt, o
			n++
		}
		used := time.Duration(processor() - at)
		if ms := used.Seconds() * 1e3 / (float64(gas) / tera); ms < best.ms {
			best = cost{x.name, ms, float64(used) / float64(n), float64(gas) / tera / float64(n), ended(out)}
		}
	}
	return best
}

func allTimed() []timed { return slices.Concat(instructionsTimed(), callsTimed(), hostTimed()) }

// BenchmarkGasTime prints the processor time per Tgas, in ms, of everything that a contract can do, the
// slowest first:
//
//	go test -run '^$' -bench GasTime -benchtime 1x ./runtime/vm
//
// TROUPE_GASTIME=table selects the cases with "table" in their names.
func BenchmarkGasTime(b *testing.B) {
	v := newVM(b)
	for b.Loop() {
		var all []cost
		for _, x := range allTimed() {
			if only := os.Getenv("TROUPE_GASTIME"); !strings.Contains(x.name, only) {
				continue
			}
			all = append(all, x.measure(b, v, 300*time.Millisecond))
		}
		slices.SortFunc(all, func(a, b cost) int { return cmp.Compare(b.ms, a.ms) })
		fmt.Printf("\n%s, commit %s\n", machine(), commit())
		for _, c := range all {
			fmt.Printf("%9.2f ms/Tgas %12.0f ns %12.6f Tgas  %s (%.60s)\n", c.ms, c.ns, c.gas, c.name, c.end)
		}
		b.ReportMetric(all[0].ms, "worst-ms/Tgas")
	}
}

// machine returns the name of the processor.
func machine() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOOS + " " + runtime.GOARCH
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if name, is := strings.CutPrefix(s.Text(), "model name"); is {
			return fmt.Sprintf("%s, %d cores", strings.Trim(name, "\t :"), runtime.NumCPU())
		}
	}
	return runtime.GOARCH
}

func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
