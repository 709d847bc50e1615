//go:build !noshim

package engine

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
)

// againEngine returns an engine that resets and reuses instances of modules whose exports allow it.
func againEngine(t testing.TB) *Engine {
	t.Helper()
	e, err := New(Options{Functions: functions, Exports: Exports{Gas: "gas", Stack: "stack", Again: "again"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if !knowsPages() {
		t.Skip("the system does not say which pages were written")
	}
	return e
}

// againModule is a module with two data segments, a global of each type, and methods that change all of
// them.
func againModule(n int) string {
	return fmt.Sprintf(`(module
  (import "env" "add" (func $add (param i64 i32) (result i64)))
  (import "env" "nop" (func $nop))
  (memory (export "memory") 1024 2048)
  (data (i32.const 4090) "over two pages")
  (data (i32.const 100000) "far \00 data")
  (global $gas (export "gas") (mut i64) (i64.const 0))
  (global $stack (export "stack") (mut i64) (i64.const 262144))
  (global $a (export "again0") (mut i32) (i32.const %d))
  (global $b (export "again1") (mut i64) (i64.const -5))
  (global $c (export "again2") (mut f32) (f32.const nan:0x200001))
  (global $d (export "again3") (mut f64) (f64.const 1.5))
  (global (export "again") i64 (i64.const %d))
  (func $see (export "see")
    (drop (call $add (i64.const 0) (global.get $a)))
    (drop (call $add (global.get $b) (i32.reinterpret_f32 (global.get $c))))
    (drop (call $add (i64.reinterpret_f64 (global.get $d)) (i32.wrap_i64 (global.get $stack))))
    (drop (call $add (i64.const 0) (memory.size))))
  (func $mess (export "mess")
    (call $see)
    (global.set $a (i32.const 1)) (global.set $b (i64.const 2)) (global.set $c (f32.const 3)) (global.set $d (f64.const 4))
    (global.set $stack (i64.const 77))
    (i64.store (i32.const 0) (i64.const -1)) (i64.store (i32.const 4092) (i64.const -1)) (i64.store (i32.const 100001) (i64.const -1))
    (i64.store (i32.const 1048570) (i64.const -1)) (i64.store (i32.const 1048574) (i64.const -1)) (i64.store (i32.const 2097144) (i64.const -1)))
  (func (export "mess and trap") (call $mess) (unreachable))
  (func (export "mess and stop") (call $mess) (call $nop))
  (func (export "grow") (call $mess) (drop (memory.grow (i32.const 1))))
  (func (export "much") (local $i i32) (call $mess)
    (loop $l (i32.store (local.get $i) (i32.const -1)) (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4096))) (i32.const 400000)))))
  (func (export "scattered") (local $i i32) (call $mess)
    (loop $l (i32.store (local.get $i) (i32.const -1)) (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 8192))) (i32.const 400000))))))`,
		n, 4090|(100000+10)<<32)
}

// TestResetInstanceEqualsNewOne checks that after any call a reset instance equals a new one in
// every byte of memory and every global, and that calls burn the same gas.
func TestResetInstanceEqualsNewOne(t *testing.T) {
	e := againEngine(t)
	m := load(t, e, againModule(11))
	first := make([]byte, 64<<20)
	copy(first[4090:], "over two pages")
	copy(first[100000:], "far \x00 data")
	want := []uint64{0, 11, ^uint64(4), 0x7fa00001, 0x3ff8_0000_0000_0000, 262144, 0, 1024}
	run := func(method string, fresh bool) {
		t.Helper()
		var seen []uint64
		h := host(func(fn int, args []uint64, memory []byte, gas int64) (uint64, int64, bool) {
			if fn == 1 {
				return 0, gas, false
			}
			if seen = append(seen, args...); len(seen) == len(want) && !bytes.Equal(memory, first) {
				t.Errorf("%s finds another memory", method)
			}
			return 0, gas - 1, true
		})
		out, err := m.Run(Call{Method: method, Gas: 1000, Host: h, Again: !fresh})
		if err != nil || out.Gas != 996 || !slices.Equal(seen, want) {
			t.Fatalf("%s: %+v, %v, saw %d, want %d", method, out, err, seen, want)
		}
	}
	kept := func(n int, after string) {
		t.Helper()
		if got := len(e.kept.list); got != n {
			t.Fatalf("%d instances are kept after %s, want %d", got, after, n)
		}
	}
	for _, c := range []struct {
		method string
		kept   int
	}{
		{"see", 1}, {"mess", 1}, {"see", 1}, {"mess", 1}, {"mess", 1}, {"mess and trap", 0}, {"mess", 1}, {"mess and stop", 0}, {"see", 1},
		{"grow", 0}, {"mess", 1}, {"much", 0}, {"mess", 1}, {"scattered", 0}, {"see", 1}, {"mess", 1}, {"see", 1},
	} {
		run(c.method, false)
		kept(c.kept, c.method)
		run("see", true)
		kept(c.kept, "a call that wants none")
	}
}

// TestReusedSlotsHideOtherModulesData checks that a module never sees data of another module whose
// instances used the same slots.
func TestReusedSlotsHideOtherModulesData(t *testing.T) {
	e := againEngine(t)
	var modules []*Module
	for i := range mostKept + 4 {
		modules = append(modules, load(t, e, againModule(i)))
	}
	for round := range 6 {
		for i, m := range modules {
			var seen []uint64
			h := host(func(_ int, args []uint64, memory []byte, gas int64) (uint64, int64, bool) {
				if seen = append(seen, args...); !bytes.Equal(memory[:4090], make([]byte, 4090)) || !bytes.Equal(memory[100010:1<<20], make([]byte, 1<<20-100010)) {
					t.Errorf("round %d: module %d sees data of another module", round, i)
				}
				return 0, gas, true
			})
			if _, err := m.Run(Call{Method: "mess", Gas: 1, Host: h, Again: i%3 != round%3}); err != nil || seen[1] != uint64(i) {
				t.Fatalf("round %d: module %d: %v, saw %d", round, i, err, seen)
			}
			if n := len(e.kept.list); n > mostKept {
				t.Fatalf("%d instances are kept, at most %d may be", n, mostKept)
			}
		}
	}
	for _, m := range modules[1:] {
		m.Close()
	}
	for _, k := range e.kept.list {
		if k.m != modules[0] {
			t.Error("an instance of a module that was closed is kept")
		}
	}
}

// TestModuleWithoutExportIsNotReset checks that a module without that export is not reset, nor one
// whose data ends beyond its memory.
func TestModuleWithoutExportIsNotReset(t *testing.T) {
	e := againEngine(t)
	for name, text := range map[string]string{
		"silent": all,
		"beyond": `(module (memory (export "memory") 1) (global (export "gas") (mut i64) (i64.const 0)) (global (export "again") i64 (i64.const 0x7fffffff00000000)) (func (export "nothing")))`,
		"i32":    `(module (memory (export "memory") 1) (global (export "gas") (mut i64) (i64.const 0)) (global (export "again") i32 (i32.const 0)) (func (export "nothing")))`,
	} {
		m := load(t, e, text)
		h := host(func(int, []uint64, []byte, int64) (uint64, int64, bool) { return 0, 0, true })
		if out, err := m.Run(Call{Method: "nothing", Gas: 1, Host: h, Again: true}); err != nil || out.End != Done || len(e.kept.list) > 0 {
			t.Errorf("%s: %+v, %v, %d kept", name, out, err, len(e.kept.list))
		}
	}
}

// BenchmarkRunReused is BenchmarkRun with reused instances.
func BenchmarkRunReused(b *testing.B) {
	e := againEngine(b)
	m := load(b, e, againModule(1))
	h := host(func(int, []uint64, []byte, int64) (uint64, int64, bool) { return 0, 0, true })
	for _, method := range []string{"see", "mess"} {
		for _, again := range []bool{false, true} {
			b.Run(fmt.Sprintf("method=%s/again=%v", method, again), func(b *testing.B) {
				for b.Loop() {
					if _, err := m.Run(Call{Method: method, Gas: 1, Host: h, Again: again}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
