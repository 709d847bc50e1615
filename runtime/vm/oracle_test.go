package vm

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
)

// The error texts in outcomes.
const (
	outOfGas    = `{"ExecutionError":"Exceeded the prepaid gas."}`
	overLimit   = `{"ExecutionError":"Exceeded the maximum amount of gas allowed to burn per contract."}`
	unreachable = `{"ExecutionError":"WebAssembly trap: An ` + "`unreachable`" + ` opcode was executed."}`
	arithmetic  = `{"ExecutionError":"WebAssembly trap: An arithmetic exception, e.g. divided by zero."}`
	outOfBounds = `{"ExecutionError":"WebAssembly trap: Memory out of bounds trap."}`
	panicked    = `{"ExecutionError":"Smart contract panicked: explicit guest panic"}`
	linkError   = `{"ExecutionError":"Link Error: unknown or invalid import"}`
	noAccess    = `{"ExecutionError":"Accessed memory outside the bounds."}`
	notFound    = `{"MethodResolveError":"MethodNotFound"}`
	badShape    = `{"MethodResolveError":"MethodInvalidSignature"}`
)

func prepareError(kind string) string {
	return `{"CompilationError":{"PrepareError":"` + kind + `"}}`
}

// oracle is a case of nearcore's tests: the gas that a call of a module burns, and its error. The used gas
// always equals the burnt gas.
type oracle struct {
	name   string // file:line of the test under near-vm-runner/src/tests, and what
	wat    string
	code   []byte         // in place of wat
	method string         // "" is main
	gas    primitives.Gas // 0 is 100 Tgas; none is 0
	limit  primitives.Gas // 0 is the config's max_gas_burnt
	burnt  primitives.Gas
	err    string
}

const (
	none    = ^primitives.Gas(0) - 1
	all     = ^primitives.Gas(0)
	unnamed = "\x00" // the method ""
)

const trivialDiv = `(module (func (export "main") i32.const 1 i32.const 1 i32.div_s return))`

const twoDeep = `(module
	(func $f1 (export "f1") (local i32) (call $f1))
	(func $f2 (export "f2") (local i32 i32 i32 i32) (call $f2)))`

const forever = `(module (func $start (loop (br 0))) (func (export "main")) (start $start))`

const loops = `(module (type (func)) (func (type 0) loop br 0 end) (export "foo" (func 0)))`

const simple = `(module (func (export "main")))`

const callsPrepaid = `(module (import "env" "prepaid_gas" (func $prepaid_gas (result i64)))
	(func (export "main") (drop (call $prepaid_gas))))`

// oracles are cases of nearcore's tests at 86: loading errors burn gas, failed preparations do not.
var oracles = []oracle{
	{name: "runtime_errors:101 start loops", wat: forever, gas: 10_000_000_000, burnt: 10_000_000_000, err: outOfGas},
	{name: "runtime_errors:112 and no method", wat: forever, method: "no-such-method", err: notFound},
	{name: "runtime_errors:133 empty main", wat: simple, burnt: 79_064_041},
	{name: "runtime_errors:144 imported memory", err: prepareError("Memory"), code: []byte{
		0, 97, 115, 109, 1, 0, 0, 0, 2, 12, 1, 3, 101, 110, 118, 0, 2, 1, 239, 1, 248, 1, 4, 6,
		1, 112, 0, 143, 129, 32, 7, 12, 1, 8, 0, 17, 17, 17, 17, 17, 17, 2, 2, 0}},
	{name: "runtime_errors:167 two memories", wat: "(module (memory 1 2) (memory 3 4))", err: prepareError("Deserialization")},
	{name: "runtime_errors:186 no method", wat: simple, method: "no-such-method", err: notFound},
	{name: "runtime_errors:204 no name", wat: simple, method: unnamed, err: `{"MethodResolveError":"MethodEmptyName"}`},
	{name: "runtime_errors:212 unreachable", wat: `(module (func (export "main") (unreachable)) )`, burnt: 80_976_092, err: unreachable},
	{name: "runtime_errors:224 unreachable start", wat: `(module (func $f (export "main") (unreachable)) (start $f))`, burnt: 98_404_812, err: unreachable},
	{name: "runtime_errors:243 division by zero", wat: `(module (func (export "main") i32.const 1 i32.const 0 i32.div_s return))`, burnt: 88_068_079, err: arithmetic},
	{name: "runtime_errors:266 i32.trunc_f64_s", wat: trunc("i32.trunc_f64_s"), burnt: 92_691_798, err: arithmetic},
	{name: "runtime_errors:266 i32.trunc_f64_u", wat: trunc("i32.trunc_f64_u"), burnt: 92_691_798, err: arithmetic},
	{name: "runtime_errors:266 i64.trunc_f64_s", wat: trunc("i64.trunc_f64_s"), burnt: 92_691_798, err: arithmetic},
	{name: "runtime_errors:266 i64.trunc_f64_u", wat: trunc("i64.trunc_f64_u"), burnt: 92_691_798, err: arithmetic},
	{name: "runtime_errors:290 call of null", wat: `(module (type $ty (func)) (table 1 funcref)
		(func (export "main") i32.const 0 call_indirect (type $ty) return))`, burnt: 109_031_223, err: `{"ExecutionError":"WebAssembly trap: Indirect call to null."}`},
	{name: "runtime_errors:315 call of another type", wat: `(module (type $ty (func (result i32))) (func $f) (table 1 funcref) (elem (i32.const 0) $f)
		(func (export "main") i32.const 0 call_indirect (type $ty) return))`, burnt: 134_085_008, err: `{"ExecutionError":"WebAssembly trap: Call indirect incorrect signature trap."}`},
	{name: "runtime_errors:343 main takes an i32", wat: `(module (func (export "main") (param i32)))`, err: badShape},
	{name: "runtime_errors:361 main is a global", wat: `(module (global (export "main") i32 (i32.const 123)))`, err: notFound},
	{name: "runtime_errors:379 panic", wat: `(module (import "env" "panic" (func $panic)) (func (export "main") (call $panic)))`, burnt: 381_690_938, err: panicked},
	{name: "runtime_errors:398 panic as start", wat: `(module (import "env" "panic" (func $panic)) (start $panic) (export "main" (func $panic)))`, burnt: 364_482_479, err: panicked},
	{name: "runtime_errors:415 panic and a global", wat: `(module (import "env" "panic" (func $panic)) (global $g i32 (i32.const 0)) (export "main" (func $panic)))`, burnt: 376_464_724, err: panicked},
	{name: "runtime_errors:432 panic exported again", wat: `(module (import "env" "panic" (func $panic)) (export "main" (func $panic)))`, burnt: 361_214_594, err: panicked},
	{name: "runtime_errors:448 recursion", wat: `(module (func $f (export "main") (call $f)))`, burnt: 30_418_898_602, err: noAccess},
	{name: "runtime_errors:461 recursion with 1 local", wat: twoDeep, method: "f1", burnt: 31_825_672_528, err: noAccess},
	{name: "runtime_errors:461 recursion with 4 locals", wat: twoDeep, method: "f2", burnt: 29_757_263_944, err: noAccess},
	{name: "runtime_errors:508 memory.grow for ever", wat: `(module (memory 17 32) (func (export "main") (loop (memory.grow (i32.const 1)) drop br 0)))`,
		gas: 10_000_000_000, burnt: 10_000_000_000, err: outOfGas},
	{name: "runtime_errors:532 memory.grow 1", wat: `(module (memory 1 128) (func (export "main") (drop (memory.grow (i32.const 1)))))`, gas: 10_000_000_000, burnt: 120_932_041},
	{name: "runtime_errors:551 memory.grow 10", wat: `(module (memory 1 128) (func (export "main") (drop (memory.grow (i32.const 10)))))`, gas: 10_000_000_000, burnt: 128_336_845},
	{name: "runtime_errors:570 table.grow 1", wat: `(module (table 1 128 funcref) (func (export "main") (drop (table.grow (ref.null func) (i32.const 1)))))`, gas: 10_000_000_000, burnt: 126_111_977},
	{name: "runtime_errors:589 table.grow 10", wat: `(module (table 1 128 funcref) (func (export "main") (drop (table.grow (ref.null func) (i32.const 10)))))`, gas: 10_000_000_000, burnt: 133_516_781},
	{name: "runtime_errors:633 global of another module", wat: badGlobal("no-such-module"), err: prepareError("Instantiate")},
	{name: "runtime_errors:651 function of another module", wat: badFunction("no-such-module"), err: prepareError("Instantiate")},
	{name: "runtime_errors:669 global of env", wat: badGlobal("env"), err: prepareError("Instantiate")},
	{name: "runtime_errors:688 unknown function", wat: badFunction("env"), burnt: 97_535_778, err: linkError},
	{name: "runtime_errors:696 no gas", wat: `(module (func $f (export "main") nop) (start $f))`, gas: none, err: outOfGas},
	{name: "runtime_errors:713 100 unknown functions", wat: manyImports(), burnt: 1_362_207_273, err: linkError},
	{name: "runtime_errors:742 prepaid_gas", wat: callsPrepaid, burnt: 401_031_709},
	{name: "runtime_errors:753 prepaid_gas with 100 gas", wat: callsPrepaid, gas: 100, burnt: 100, err: outOfGas},
	{name: "runtime_errors:761 prepaid_gas through a table", wat: `(module (import "env" "prepaid_gas" (func $prepaid_gas (result i64)))
		(type $prepaid_gas_t (func (result i64))) (table 1 funcref) (elem (i32.const 0) $prepaid_gas)
		(func (export "main") (call_indirect (type $prepaid_gas_t) (i32.const 0)) drop))`, burnt: 441_069_085},
	{name: "runtime_errors:788 load from far", wat: `(module (memory 1) (func (export "main") i32.const 1 i64.load32_u offset=4294967295 align=1 drop))`, burnt: 97_048_978, err: outOfBounds},
	{name: "runtime_errors:818 sign of a NaN", wat: `(module (func (export "main") (i32.div_u (i32.const 0) (f32.gt (f32.copysign (f32.const 1.0)
		(f32.sqrt (f32.const -1.0))) (f32.const 0))) drop))`, burnt: 110_433_335},
	{name: "runtime_errors:845 1 gas", wat: simple, method: "non_empty_non_existing", gas: 1, burnt: 1, err: outOfGas},
	{name: "runtime_errors:859 gas of 2^32-1", wat: `(module (import "env" "gas" (func $gas (param i32))) (func (export "main") (call $gas (i32.const 0xffff_ffff))))`,
		burnt: 100 * tera, err: overLimit},
	{name: "runtime_errors:878 gas through a table", wat: `(module (import "env" "gas" (func $gas (param i32))) (type $gas_ty (func (param i32)))
		(table 1 funcref) (elem (i32.const 0) $gas)
		(func (export "main") (call_indirect (type $gas_ty) (i32.const 0xffff_ffff) (i32.const 0))))`, burnt: 100 * tera, err: overLimit},
	{name: "runtime_errors:918 1/1", wat: trivialDiv, burnt: 88_890_835},
	{name: "runtime_errors:936 gas ends with loading", wat: trivialDiv, gas: 79_017_763, burnt: 79_017_763, err: outOfGas},
	{name: "runtime_errors:968 and 884 037 later", wat: trivialDiv, gas: 79_901_800, burnt: 79_901_800, err: outOfGas},
	{name: "runtime_errors:993 export of nothing", wat: `(module (export "main" (func 0)))`, err: prepareError("Deserialization")},
	{name: "runtime_errors:993 global of module wtf", wat: badGlobal("wtf"), err: prepareError("Instantiate")},
	{name: "runtime_errors:993 function of module wtf", wat: badFunction("wtf"), err: prepareError("Instantiate")},
	{name: "runtime_errors:993 too many locals", code: largeContract(101, 9901, 0), err: prepareError("TooManyLocals")},
	{name: "runtime_errors:993 too many functions", code: largeContract(5_000, 0, 5_001), err: prepareError("TooManyFunctions")},
	{name: "runtime_errors:1090 2611 nops", code: nops(2611), burnt: 5_073_607_792},
	{name: "runtime_errors:27 100 000 globals", code: manyGlobals(100_000), burnt: 544_727_607_058,
		err: `{"ExecutionError":"Loading Error: ` + loadText + `"}`},

	{name: "regression_tests:6 memory.size", wat: `(module (type (;0;) (func)) (func (;0;) (type 0) memory.size drop) (memory (;0;) 1 1024) (export "foo" (func 0)))`,
		method: "foo", burnt: 90_513_208},
	{name: "regression_tests:30 endless loop", wat: `(module (type (func)) (func (type 0) loop (result i64) loop br 0 end i64.const 0 end drop) (export "foo" (func 0)))`,
		method: "foo", burnt: 100 * tera, err: outOfGas},
	{name: "regression_tests:56 gas of 500 000 000", wat: `(module (type (func (param i32))) (type (func)) (import "env" "gas" (func (type 0)))
		(func (type 1) i32.const 500000000 call 0) (export "foo" (func 1)))`, method: "foo", limit: 300 * tera, burnt: 100 * tera, err: overLimit},
	{name: "regression_tests:81 endless loop", wat: loops, method: "foo", burnt: 100 * tera, err: outOfGas},

	{name: "compile_errors:7 start takes an i32", wat: `(module (func $f (param i32)) (start 0) (func (export "main")))`, err: prepareError("Deserialization")},
	{name: "compile_errors:33 hello is nothing", wat: `(module (export "hello" (func 0)))`, method: "hello", err: prepareError("Deserialization")},
	{name: "compile_errors:65 type 1 of 0", wat: `(module (func $main (type 1)) (export "main" (func $main)))`, err: prepareError("Deserialization")},
	{name: "compile_errors:86 type 0 of 0", wat: `(module (func $main (type 0)) (export "main" (func $main)))`, err: prepareError("Deserialization")},
	{name: "compile_errors:106 no bytes", code: []byte{}, err: prepareError("Deserialization")},
	{name: "compile_errors:125 call of 2^32-1", wat: `(module (func (export "main") call 4294967295))`, method: "abort_with_zero", err: prepareError("Deserialization")},
	{name: "compile_errors:146 10 000 functions", code: largeContract(10_000, 0, 0), burnt: 65_437_853_336},
	{name: "compile_errors:146 10 001 functions", code: largeContract(10_001, 0, 0), err: prepareError("TooManyFunctions")},
	{name: "compile_errors:146 5 000 functions and 5 001 imports", code: largeContract(5_000, 0, 5_001), err: prepareError("TooManyFunctions")},
	{name: "compile_errors:146 10 000 functions and an import", code: largeContract(10_000, 0, 1), err: prepareError("TooManyFunctions")},
	{name: "compile_errors:210 50 001 locals", code: largeContract(1, 50_001, 0), err: prepareError("Deserialization")},
	{name: "compile_errors:210 50 000 locals", code: largeContract(1, 50_000, 0), err: `{"CompilationError":{"WasmerCompileError":{"msg":"` + localsText + `"}}}`},
	{name: "compile_errors:246 101 functions with 9 901 locals", code: largeContract(101, 9_901, 0), err: prepareError("TooManyLocals")},
	{name: "compile_errors:246 64 functions with 15 625 locals", code: largeContract(64, 15_625, 0), burnt: 13_419_362_816},
	{name: "compile_errors:278 ripemd160", wat: `(module (import "env" "ripemd160" (func $ripemd160 (param i64 i64 i64)))
		(func (export "main") (call $ripemd160 (i64.const 0) (i64.const 0) (i64.const 0))))`, burnt: 7_226_376_631},
	{name: "compile_errors:296 sandbox_debug_log", wat: `(module (import "env" "sandbox_debug_log" (func $sandbox_debug_log (param i64 i64)))
		(func (export "main") (call $sandbox_debug_log (i64.const 0) (i64.const 1))))`, burnt: 145_464_758, err: linkError},
	{name: "compile_errors:321 extend8_s", wat: `(module (func $extend8_s (param $x i32) (result i32) (i32.extend8_s (local.get $x))) (func (export "main")))`, burnt: 123_725_136},

	{name: "wasm_validation:106 exceptions", wat: entry(`(tag $e0 (export "e0")) (func (export "throw") (throw $e0))`), err: prepareError("Deserialization")},
	{name: "wasm_validation:106 memory64", wat: entry(`(memory i64 0 0)`), err: prepareError("Deserialization")},
	{name: "wasm_validation:106 multi_memory", wat: entry(`(memory 0) (memory 1)`), err: prepareError("Deserialization")},
	{name: "wasm_validation:106 tail_call", wat: entry(`(func $const-i32 (result i32) (i32.const 0x132))
		(func (export "type-i32") (result i32) (return_call $const-i32))`), err: prepareError("Deserialization")},
	{name: "wasm_validation:106 multi_value", wat: entry(`(func $pick0 (param i64) (result i64 i64) (local.get 0) (local.get 0))`), err: prepareError("Deserialization")},
	{name: "wasm_validation:106 bulk_memory, but no memory", wat: entry(`(func (export "memory.copy") (param i32 i32 i32)
		local.get 0 local.get 1 local.get 2 memory.copy)`), err: prepareError("Deserialization")},
	{name: "wasm_validation:106 reference_types", wat: entry(`(table 2 externref) (elem (i32.const 0) externref (ref.null extern))
		(elem (i32.const 1) externref (ref.null extern))`), err: prepareError("Deserialization")},
	{name: "wasm_validation:106 threads", wat: entry(`(func (export "32.load8u") (param i32) (result i32) local.get 0 i32.atomic.load8_u)`), err: prepareError("Deserialization")},
	{name: "wasm_validation:106 simd", wat: entry(`(func $test_simd (result i32) i32.const 42 i32x4.splat i32x4.extract_lane 0)
		(export "test_simd" (func $test_simd))`), err: prepareError("Deserialization")},
	{name: "wasm_validation:128 trunc_sat", wat: `(module (func $test_trunc (param $x f64) (result i32) (i32.trunc_sat_f64_s (local.get $x))))`, err: notFound},
	{name: "wasm_validation:154 method memory", wat: `(module (func (export "memory")))`, method: "memory", burnt: 81_242_631},
	{name: "wasm_validation:172 function memory", wat: `(module (func (export "memory")) (func (export "main")))`, burnt: 93_224_876},
	{name: "wasm_validation:190 global remaining_gas", wat: `(module (global (export "remaining_gas") (mut i64) i64.const 0) (func (export "main")))`, burnt: 105_207_121},
	{name: "wasm_validation:208 function start", wat: `(module (func (export "start")) (func (export "main")))`, burnt: 92_135_581},
	{name: "wasm_validation:226 function start and a start", wat: `(module (func (export "start") call 1) (func (export "main")) (start 1))`, burnt: 104_164_104},
	{name: "wasm_validation:245 memory of nothing", wat: `(module (memory (export "memory") 0 0) (func (export "main")))`, burnt: 95_403_466},
	{name: "wasm_validation:262 memory foo", wat: `(module (memory (export "foo") 42 42) (func (export "main")))`, burnt: 92_135_581},
	{name: "wasm_validation:279 1 000 001 table elements", wat: `(module (func (export "main")) (table 1000001 funcref))`, err: prepareError("TooManyTableElements")},
	{name: "wasm_validation:297 6 tables", wat: `(module (func (export "main"))` + strings.Repeat("(table 0 funcref)", 6) + `)`, err: prepareError("TooManyTables")},
	{name: "wasm_validation:320 nine host functions", wat: `(module
		(import "env" "account_locked_balance" (func (param i64)))
		(import "env" "alt_bn128_g1_multiexp" (func (param i64 i64 i64)))
		(import "env" "alt_bn128_g1_sum" (func (param i64 i64 i64)))
		(import "env" "alt_bn128_pairing_check" (func (param i64 i64) (result i64)))
		(import "env" "keccak256" (func (param i64 i64 i64)))
		(import "env" "keccak512" (func (param i64 i64 i64)))
		(import "env" "bls12381_pairing_check" (func (param i64 i64) (result i64)))
		(import "env" "write_register" (func (param i64 i64 i64)))
		(import "env" "storage_has_key" (func (param i64 i64) (result i64)))
		(func (export "main")
			i64.const 0 call 0
			i64.const 0 i64.const 0 i64.const 0 call 1
			i64.const 0 i64.const 0 i64.const 0 call 2
			i64.const 0 i64.const 0 call 3 drop
			i64.const 0 i64.const 0 i64.const 0 call 4
			i64.const 0 i64.const 0 i64.const 0 call 5
			i64.const 0 i64.const 0 call 6 drop
			i64.const 0 i64.const 0 i64.const 0 call 7
			i64.const 0 i64.const 0 call 8 drop))`, burnt: 12_637_863_260_998},

	{name: "logic/tests/gas_counter:992 memory.copy of 25", wat: copies("0 100", "50 100 25", 1), gas: 10_000_000_000, burnt: 146_947_416},
	{name: "logic/tests/gas_counter:992 memory.copy of 50", wat: copies("0 100", "50 100 50", 1), gas: 10_000_000_000, burnt: 167_516_316},
	{name: "logic/tests/gas_counter:1039 ten of all memory", wat: copies("2048 2048", "0 1 33554431", 10), gas: all, burnt: 276_071_613_848_301},
	{name: "logic/tests/gas_counter:1073 twelve of all memory", wat: copies("2048 2048", "0 1 33554431", 12), gas: 300 * tera, limit: 300 * tera,
		burnt: 300 * tera, err: overLimit},
}

// copies returns a module that copies bytes within its memory, n times.
func copies(memory, args string, n int) string {
	var pushed string
	for _, a := range strings.Fields(args) {
		pushed += "(i32.const " + a + ")"
	}
	return `(module (memory ` + memory + `) (func (export "main") ` + strings.Repeat("(memory.copy "+pushed+")", n) + `))`
}

// entry returns a module that uses a wasm feature that contracts may not use.
func entry(feature string) string {
	return `(module (func $entry (result i32) i32.const 0) ` + feature + `)`
}

func trunc(op string) string {
	return `(module (func (export "main") f64.const 0x1p+1023 ` + op + ` return))`
}

func badGlobal(module string) string {
	return `(module (import "` + module + `" "no-such-global" (global i32)) (func (export "main")))`
}

func badFunction(module string) string {
	return `(module (import "` + module + `" "no-such-fn" (func $f)) (export "main" (func $f)))`
}

func manyImports() string {
	var b strings.Builder
	b.WriteString("(module\n")
	for i := range 100 {
		fmt.Fprintf(&b, "(import \"env\" \"wtf%d\" (func))\n", i)
	}
	return b.String() + `(export "main" (func 0)))`
}

// section returns the encoding of a section of a module.
func section(id byte, body []byte) []byte {
	return append(append([]byte{id}, leb(uint64(len(body)))...), body...)
}

func leb(n uint64) (b []byte) {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

var header = []byte("\x00asm\x01\x00\x00\x00")

// largeContract is nearcore's (test-utils near_test_contracts LargeContract): functions with locals
// of i64, imports of env.panic, the first function exported as main.
func largeContract(functions, locals, imports int) []byte {
	b := append([]byte{}, header...)
	b = append(b, section(1, []byte{1, 0x60, 0, 0})...)
	if imports > 0 {
		body := leb(uint64(imports))
		for range imports {
			body = append(body, "\x03env\x05panic\x00\x00"...)
		}
		b = append(b, section(2, body)...)
	}
	b = append(b, section(3, append(leb(uint64(functions)), make([]byte, functions)...))...)
	b = append(b, section(7, append([]byte("\x01\x04main\x00"), leb(uint64(imports))...))...)
	locs := append(append([]byte{1}, leb(uint64(locals))...), 0x7e)
	body := append(append(leb(uint64(len(locs)+1)), locs...), 0x0b)
	return append(b, section(10, append(leb(uint64(functions)), bytes.Repeat(body, functions)...))...)
}

// nops is near_test_contracts function_with_a_lot_of_nop.
func nops(n int) []byte {
	b := append([]byte{}, header...)
	b = append(b, section(1, []byte{1, 0x60, 0, 0})...)
	b = append(b, section(3, []byte{1, 0})...)
	b = append(b, section(7, []byte("\x01\x04main\x00\x00"))...)
	body := append(append([]byte{0}, bytes.Repeat([]byte{1}, n)...), 0x0b)
	return append(b, section(10, append(append([]byte{1}, leb(uint64(len(body)))...), body...))...)
}

// manyGlobals is near_test_contracts contract_with_num_globals.
func manyGlobals(n int) []byte {
	b := append([]byte{}, header...)
	b = append(b, section(1, []byte{1, 0x60, 0, 0})...)
	b = append(b, section(3, []byte{1, 0})...)
	b = append(b, section(6, append(leb(uint64(n)), bytes.Repeat([]byte{0x7f, 0, 0x41, 0, 0x0b}, n)...))...)
	b = append(b, section(7, []byte("\x01\x04main\x00\x00"))...)
	return append(b, section(10, []byte{1, 2, 0, 0x0b})...)
}

// TestGasAndErrorsMatchNearcore checks the gas and error of the cases of nearcore's tests, each
// twice: with a compilation, and with the compiled code in memory.
func TestGasAndErrorsMatchNearcore(t *testing.T) { inForms(t, testNearcoreCases) }

func testNearcoreCases(t *testing.T, v *VM) {
	for _, o := range oracles {
		t.Run(o.name, func(t *testing.T) {
			code, method, gas := o.code, o.method, o.gas
			if code == nil {
				code = wat(t, o.wat)
			}
			switch method {
			case "":
				method = "main"
			case unnamed:
				method = ""
			}
			switch gas {
			case 0:
				gas = 100 * tera
			case none:
				gas = 0
			}
			want := fmt.Sprintf("burnt %d used %d ", o.burnt, o.burnt)
			if want += o.err; o.err == "" {
				want += "balance 4 usage 12"
			}
			for range 2 {
				c := call(code, method, gas)
				if o.limit != 0 {
					c.Block.Config.Wasm.Limits.MaxGasBurnt = o.limit
				}
				out, err := v.run(c, &world{})
				if err != nil {
					t.Fatal(err)
				}
				if got := ended(&out); got != want {
					t.Errorf("got  %s\nwant %s (%d bytes)", got, want, len(code))
				}
			}
		})
	}
}

// TestLoadingErrorBurnsNothingAt85 checks two rules from before FixContractLoadingError. If a
// module does not load, the call burns nothing and has the loading error, even if its method name
// is empty (nearcore with_compiled_and_loaded returns before before_loading_executable). If a
// module does not compile, an empty method name is reported first.
func TestLoadingErrorBurnsNothingAt85(t *testing.T) {
	v := newVM(t)
	const noName = `burnt 0 used 0 {"MethodResolveError":"MethodEmptyName"}`
	for _, test := range []struct {
		code   []byte
		method string
		fixed  bool
		want   string
	}{
		{manyGlobals(100_000), "main", false, `burnt 0 used 0 {"ExecutionError":"Loading Error: ` + loadText + `"}`},
		{manyGlobals(100_000), "", false, `burnt 0 used 0 {"ExecutionError":"Loading Error: ` + loadText + `"}`},
		{manyGlobals(100_000), "", true, noName},
		{wat(t, simple), "", false, noName},
		{[]byte("no wasm"), "", false, noName},
		{[]byte("no wasm"), "", true, noName},
	} {
		c := call(test.code, test.method, 100*tera)
		c.Block.Config.Wasm.FixContractLoadingError = test.fixed
		out, err := v.run(c, &world{})
		if err != nil {
			t.Fatal(err)
		}
		if got := ended(&out); got != test.want {
			t.Errorf("%d bytes, method %q, fixed %v:\ngot  %s\nwant %s", len(test.code), test.method, test.fixed, got, test.want)
		}
	}
}
