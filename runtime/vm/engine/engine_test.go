package engine

import (
	"errors"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v44"
)

type host func(fn int, args []uint64, memory []byte, gas int64) (uint64, int64, bool)

func (h host) HostCall(fn int, args []uint64, memory []byte, gas int64) (uint64, int64, bool) {
	return h(fn, args, memory, gas)
}

var functions = []Function{
	{Name: "add", Params: []ValType{I64, I32}, Results: []ValType{I64}},
	{Name: "nop"},
	{Name: "nine", Params: []ValType{I64, I64, I64, I64, I64, I64, I64, I64, I64}, Results: []ValType{I32}},
}

func newEngine(t testing.TB) *Engine {
	t.Helper()
	e, err := New(Options{Functions: functions, Exports: Exports{Gas: "gas", Stack: "stack"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func wasm(t testing.TB, wat string) []byte {
	t.Helper()
	b, err := wasmtime.Wat2Wasm(wat)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func load(t testing.TB, e *Engine, wat string) *Module {
	t.Helper()
	artifact, err := e.Compile(wasm(t, wat))
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.Load(artifact)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

const all = `(module
  (import "env" "add" (func $add (param i64 i32) (result i64)))
  (import "env" "nop" (func $nop))
  (import "env" "nine" (func $nine (param i64 i64 i64 i64 i64 i64 i64 i64 i64) (result i32)))
  (memory (export "memory") 1024 2048)
  (global $gas (export "gas") (mut i64) (i64.const 7))
  (global $stack (export "stack") (mut i64) (i64.const 262144))
  (func (export "start") (i32.store (i32.const 0) (i32.const 1)))
  (func (export "main")
    (global.set $gas (i64.sub (global.get $gas) (i64.const 1)))
    (i64.store (i32.const 8) (call $add (i64.const -2) (i32.const -1)))
    (global.set $gas (i64.sub (global.get $gas) (i64.const 1)))
    (i32.store (i32.const 16) (call $nine (i64.const 1) (i64.const 2) (i64.const 3) (i64.const 4) (i64.const 5) (i64.const 6) (i64.const 7) (i64.const 8) (i64.const 9)))
    (call $nop))
  (func (export "stop") (call $nop) (unreachable))
  (func (export "trap") (unreachable))
  (func (export "nothing"))
  (func (export "div") (drop (i32.div_u (i32.const 1) (i32.const 0))))
  (func (export "min") (drop (i32.div_s (i32.const 0x80000000) (i32.const -1))))
  (func (export "conv") (drop (i32.trunc_f64_s (f64.const nan))))
  (func (export "oob") (drop (i32.load (i32.const -1))))
  (func (export "far") (drop (i64.load offset=4294967295 (i32.const -1))))
  (table 2 funcref)
  (elem (i32.const 1) $nop)
  (type $i (func (param i32)))
  (type $n (func))
  (func (export "null") (call_indirect (type $n) (i32.const 0)))
  (func (export "sig") (call_indirect (type $i) (i32.const 1) (i32.const 1)))
  (func (export "table") (call_indirect (type $n) (i32.const 2)))
  (func $deep (export "deep") (call $deep))
)`

func TestRunPassesArgumentsGasAndMemory(t *testing.T) {
	e := newEngine(t)
	m := load(t, e, all)
	var got []uint64
	var seen []byte
	h := host(func(fn int, args []uint64, memory []byte, gas int64) (uint64, int64, bool) {
		got = append(got, uint64(fn))
		got = append(got, args...)
		got = append(got, uint64(gas))
		if fn == 1 {
			seen = append([]byte{}, memory[:24]...)
		}
		if len(memory) != 64<<20 {
			t.Errorf("memory is %d bytes, want 64 MiB", len(memory))
		}
		return 0xAABBCCDD_11223344, gas - 10, true
	})
	out, err := m.Run(Call{Method: "main", Start: true, Gas: 1000, Host: h})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Outcome{End: Done, Stage: Running, Gas: 1000 - 1 - 10 - 1 - 10 - 10}); out != want {
		t.Errorf("outcome %+v, want %+v", out, want)
	}
	want := []uint64{0, 0xFFFFFFFF_FFFFFFFE, 0xFFFFFFFF, 999, 2, 1, 2, 3, 4, 5, 6, 7, 8, 9, 988, 1, 978}
	if !equal(got, want) {
		t.Errorf("host calls %d, want %d", got, want)
	}
	if string(seen) != "\x01\x00\x00\x00\x00\x00\x00\x00\x44\x33\x22\x11\xdd\xcc\xbb\xaa\x44\x33\x22\x11\x00\x00\x00\x00" {
		t.Errorf("memory % x", seen)
	}
}

func equal(a, b []uint64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestEachTrapIsReported(t *testing.T) {
	e := newEngine(t)
	m := load(t, e, all)
	h := host(func(int, []uint64, []byte, int64) (uint64, int64, bool) { return 0, -5, false })
	for _, c := range []struct {
		method string
		end    End
		trap   Trap
		gas    int64
	}{
		{"stop", Stopped, 0, -5},
		{"trap", Trapped, Unreachable, 3},
		{"div", Trapped, IntegerDivisionByZero, 3},
		{"min", Trapped, IntegerOverflow, 3},
		{"conv", Trapped, BadConversionToInteger, 3},
		{"oob", Trapped, MemoryOutOfBounds, 3},
		{"far", Trapped, MemoryOutOfBounds, 3},
		{"null", Trapped, IndirectCallToNull, 3},
		{"sig", Trapped, BadSignature, 3},
		{"table", Trapped, TableOutOfBounds, 3},
		{"deep", Trapped, StackOverflow, 3},
	} {
		out, err := m.Run(Call{Method: c.method, Gas: 3, Host: h})
		if err != nil {
			t.Errorf("%s: %v", c.method, err)
			continue
		}
		want := Outcome{End: c.end, Trap: c.trap, Stage: Running, Gas: c.gas}
		if c.end == Trapped { // the stack global is read after traps only
			want.Stack = 262144
		}
		if out != want {
			t.Errorf("%s: %+v, want %+v", c.method, out, want)
		}
	}
	if _, err := m.Run(Call{Method: "missing", Host: h}); err == nil {
		t.Error("a missing method ran")
	}
}

// TestHostPanicIsErrorOfRun checks that the next run is not affected.
func TestHostPanicIsErrorOfRun(t *testing.T) {
	e := newEngine(t)
	m := load(t, e, all)
	h := host(func(int, []uint64, []byte, int64) (uint64, int64, bool) { panic("oh") })
	if _, err := m.Run(Call{Method: "stop", Host: h}); err == nil {
		t.Error("no error")
	}
	if out, err := m.Run(Call{Method: "trap", Host: h}); err != nil || out.Trap != Unreachable {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestClosedEngineLoadsNothing checks that a closed engine compiles and loads nothing, and that
// loaded modules run until they are closed too.
func TestClosedEngineLoadsNothing(t *testing.T) {
	e := newEngine(t)
	artifact, err := e.Compile(wasm(t, all))
	if err != nil {
		t.Fatal(err)
	}
	m, err := e.Load(artifact)
	if err != nil {
		t.Fatal(err)
	}
	e.Close()
	none := Call{Method: "nothing", Gas: 1, Host: host(func(int, []uint64, []byte, int64) (uint64, int64, bool) { return 0, 0, true })}
	if out, err := m.Run(none); err != nil || out.End != Done {
		t.Errorf("a module of a closed engine: %+v, %v", out, err)
	}
	m.Close()
	if _, err := m.Run(none); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed module: %v, want ErrClosed", err)
	}
	if _, err := e.Compile(artifact); !errors.Is(err, ErrClosed) {
		t.Errorf("Compile: %v, want ErrClosed", err)
	}
	if _, err := e.Load(artifact); !errors.Is(err, ErrClosed) {
		t.Errorf("Load: %v, want ErrClosed", err)
	}
	if _, err := e.LoadFile("none"); !errors.Is(err, ErrClosed) {
		t.Errorf("LoadFile: %v, want ErrClosed", err)
	}
}
