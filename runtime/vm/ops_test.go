package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// opGas is regular_op_cost.
const opGas = 822_756

// TestInstructionsBurnTheirGas checks what instructions burn beyond the entry of a function with
// one i32 local, which is 9.
func TestInstructionsBurnTheirGas(t *testing.T) { inForms(t, testInstructionGas) }

func testInstructionGas(t *testing.T, v *VM) {
	fib := `(func $fib (param i32) (result i32)
		(if (result i32) (i32.lt_u (local.get 0) (i32.const 2)) (then (local.get 0))
			(else (i32.add (call $fib (i32.sub (local.get 0) (i32.const 1))) (call $fib (i32.sub (local.get 0) (i32.const 2)))))))`
	for _, c := range []struct {
		body string
		ops  uint64
		err  string
	}{
		{body: "", ops: 0},
		{body: "nop", ops: 1},
		{body: "loop end", ops: 1},
		{body: "return", ops: 1},
		{body: "block end", ops: 0},
		{body: "i32.const 1 drop", ops: 2},
		{body: "local.get 0 if nop else nop end", ops: 3},
		{body: "i32.const 1 if nop else nop end", ops: 3},
		{body: "call $empty", ops: 9},
		{body: "i32.const 0 i32.const 0 i32.const 1000 memory.fill", ops: 1035},
		{body: "i32.const 0 i32.const 0 i32.const 1000 memory.copy", ops: 1035},
		{body: "i32.const 0 ref.null func i32.const 10 table.fill", ops: 45},
		{body: "unreachable", ops: 1, err: unreachable},
		{body: "i32.const 1 i32.const 0 i32.div_u drop", ops: 3, err: arithmetic},
		{body: "i32.const -1 i32.load drop", ops: 2, err: outOfBounds},
		{body: "i32.const 1000 local.set 0 (loop $l local.get 0 i32.const 1 i32.sub local.tee 0 br_if $l)", ops: 6002},
		{body: "(loop $l (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 1000))))", ops: 8 * 1000},
		{body: "(loop $l (local.set 0 (i32.add (local.get 0) (i32.const 1))) (br_if $l (i32.ne (local.get 0) (i32.const 1000))))", ops: 9 * 1000},
		{body: "(drop (call $fib (i32.const 30)))", ops: 48_465_673 - 8},
		{body: "i32.const -1 memory.grow drop", ops: 2 + 32 + 1<<32 - 1, err: overLimit},
	} {
		code := wat(t, `(module (memory 1) (table 10 funcref) (func $empty) `+fib+` (func (export "main") (local i32) `+c.body+`))`)
		call := call(code, "main", 300*tera)
		call.Block.Config.Wasm.Limits.MaxGasBurnt = 300 * tera
		out, err := v.run(call, &world{})
		if err != nil {
			t.Fatal(err)
		}
		want := 35_445_963 + 1_089_295*primitives.Gas(len(code)) + primitives.Gas(9+c.ops)*opGas
		if c.err == overLimit {
			want = 300 * tera
		}
		got := ""
		if out.Err != nil {
			got = string(out.Err.AppendJSON(nil))
		}
		if out.GasBurnt != want || got != c.err {
			t.Errorf("%s: burnt %d, want %d (%d ops, want %d); error %s, want %s", c.body, out.GasBurnt, want,
				int64(out.GasBurnt-want)/opGas+int64(c.ops), c.ops, got, c.err)
		}
	}
}

// promiseWorld is an External that accepts the promises of
// TestOutOfGasWithPromisesBurnsAtMostPrepaid.
type promiseWorld struct{ world }

func (promiseWorld) Create(primitives.AccountID, []int) (int, error) { return 0, nil }

func (promiseWorld) Receiver(int) (primitives.AccountID, error) { return "bob.near", nil }

func (promiseWorld) AppendCall(int, *primitives.FunctionCall, uint64) error { return nil }

// TestOutOfGasWithPromisesBurnsAtMostPrepaid checks the gas burnt when gas runs out while promises
// hold some: all that would have been burnt, including the charge that failed, but at most the
// call's prepaid gas (nearcore process_gas_limit). The case was run in nearcore: 20 T prepaid,
// promise_create with 10 T, an endless loop.
func TestOutOfGasWithPromisesBurnsAtMostPrepaid(t *testing.T) { inForms(t, testOutOfGasWithPromises) }

func testOutOfGasWithPromises(t *testing.T, v *VM) {
	// The module of nearcore's run is not known, only its gas. Of all lengths below 800,000 bytes
	// only 128 bytes give that gas.
	code := wat(t, `(module (import "env" "promise_create" (func (param i64 i64 i64 i64 i64 i64 i64 i64) (result i64)))
		(memory 1) (data (i32.const 0) "bob.near") (data (i32.const 8) "m")
		(func (export "main") (drop (call 0 (i64.const 8) (i64.const 0) (i64.const 1) (i64.const 8) (i64.const 0) (i64.const 0) (i64.const 64) (i64.const 10000000000000)))
			(loop br 0)))`)
	c := call(code, "main", 20*tera)
	out, err := v.run(c, &promiseWorld{})
	if err != nil {
		t.Fatal(err)
	}
	const want = 9_111_939_770_518
	if got := ended(&out); got != fmt.Sprintf("burnt %d used %d %s", want, 20*tera, outOfGas) {
		t.Errorf("%s (%d bytes), want %d burnt", got, len(code), want)
	}
	// promise_create itself burns 324,615,628,955 and reserves 1,888,061,735,934 gas, which
	// includes 1 T for the call. 18 instructions precede the loop, and each iteration has two.
	const limit = 20*tera - (10*tera + 888_061_735_934)
	sum := 35_445_963 + 1_089_295*primitives.Gas(len(code)) + 324_615_628_955 + 18*opGas
	for sum <= limit {
		sum += 2 * opGas
	}
	if sum != want {
		t.Errorf("the parts add up to %d, want %d", sum, want)
	}
}

// TestEndlessViewStopsAtGasLimit checks that a view ends when its gas is used up, with and without
// host calls. nearcore f0c7706f1 does not end it.
func TestEndlessViewStopsAtGasLimit(t *testing.T) {
	v := newVM(t)
	for _, body := range []string{"(loop br 0)", "(loop (drop (call $index)) br 0)"} {
		code := wat(t, `(module (import "env" "block_index" (func $index (result i64))) (func (export "main") `+body+`))`)
		c := call(code, "main", 3*tera)
		c.View = true
		out, err := v.run(c, &world{})
		if err != nil {
			t.Fatal(err)
		}
		if out.GasBurnt != 3*tera || out.Err == nil || !strings.Contains(out.Err.Message, "Exceeded") {
			t.Errorf("%s: %s", body, ended(&out))
		}
	}
}

// TestHostPanicIsNodeErrorWithAlarm checks that a panic in a host function is an error of the node,
// raises an alarm, and does not stop the VM.
func TestHostPanicIsNodeErrorWithAlarm(t *testing.T) {
	var alarms int
	v, err := New(Options{Alarm: func(error) { alarms++ }})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	code := wat(t, `(module (import "env" "storage_remove" (func $remove (param i64 i64 i64) (result i64)))
		(func (export "main") (drop (call $remove (i64.const 0) (i64.const 0) (i64.const 0)))) (func (export "ok")))`)
	if _, err := v.run(call(code, "main", 100*tera), &world{}); err == nil { // world has no Remove
		t.Error("a panic was no error")
	}
	if out, err := v.run(call(code, "ok", 100*tera), &world{}); err != nil || out.Err != nil {
		t.Errorf("%s, %v", ended(&out), err)
	}
	if alarms != 1 || v.Stats().Alarms != 1 {
		t.Errorf("%d alarms", alarms)
	}
}

// TestArtifactsOnDiskAreNotCompiledAgain checks that a VM that uses the folder of an earlier VM
// compiles nothing again, also not code that breaks a rule.
func TestArtifactsOnDiskAreNotCompiledAgain(t *testing.T) {
	dir := t.TempDir()
	codes := [][]byte{wat(t, simple), []byte("no wasm"), manyGlobals(100_000), wat(t, badFunction("env")), largeContract(1, 50_000, 0)}
	var want []string
	for i := range 3 {
		v, err := New(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, code := range codes {
			for _, version := range []primitives.ProtocolVersion{85, 86} {
				c := call(code, "main", 100*tera)
				c.Block.Config = parameters.MustGet(parameters.June(version))
				out, err := v.run(c, &world{})
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, ended(&out))
			}
		}
		if s := v.Stats(); i == 0 && s.Builds != 5 || i > 0 && (s.Builds != 0 || s.Loads != 5) {
			t.Errorf("start %d: %+v", i, s)
		}
		if i == 0 {
			want = got
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("start %d: %q, want %q", i, got, want)
		}
		v.Close()
	}
}

// TestUnusableFolderRaisesAlarm checks that a VM without a usable folder raises an alarm and works
// in memory only.
func TestUnusableFolderRaisesAlarm(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var said []error
	v, err := New(Options{Dir: filepath.Join(file, "cache"), Alarm: func(err error) { said = append(said, err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if out, err := v.run(call(wat(t, simple), "main", 100*tera), &world{}); err != nil || out.Err != nil {
		t.Errorf("%s, %v", ended(&out), err)
	}
	if s := v.Stats(); len(said) != 1 || s.DiskErrors != 0 {
		t.Errorf("alarms %v, want one; %+v", said, s)
	}
}

// TestFolderPatternMatchesThisVersion checks that the pattern for folders of other versions matches
// the folder of this version.
func TestFolderPatternMatchesThisVersion(t *testing.T) {
	if ok, err := filepath.Match(versions, version()); !ok || err != nil {
		t.Errorf("%s does not fit %s: %v", version(), versions, err)
	}
}

// TestBackgroundCompilationFillsCache checks that code is compiled in the background and that a
// later call finds it in the cache.
func TestBackgroundCompilationFillsCache(t *testing.T) {
	v := newVM(t)
	b := &action.Block{Config: parameters.MustGet(parameters.June(86)), VM: v}
	b.Warm("", wat(t, simple))
	v.precompiles.drain()
	<-v.Warm(action.CodeFrom{}, wat(t, simple), &b.Config.Wasm)
	if s := v.Stats(); s.Builds != 1 {
		t.Fatalf("%+v", s)
	}
	out, err := v.run(call(wat(t, simple), "main", 100*tera), &world{})
	if err != nil || out.Err != nil {
		t.Errorf("%s, %v", ended(&out), err)
	}
	if s := v.Stats(); s.Builds != 1 || s.Hits != 2 {
		t.Errorf("%+v", s)
	}
}
