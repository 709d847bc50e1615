package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkHostCall measures a host call from wasm that charges gas and reads memory.
func BenchmarkHostCall(b *testing.B) {
	e := newEngine(b)
	const n = 10_000
	m := load(b, e, fmt.Sprintf(`(module
  (import "env" "add" (func $add (param i64 i32) (result i64)))
  (memory (export "memory") 1024 2048)
  (global (export "gas") (mut i64) (i64.const 7))
  (func (export "main") (local $i i32)
    (loop $l
      (drop (call $add (i64.const 1) (i32.const 2)))
      (br_if $l (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const %d))))))`, n))
	h := host(func(_ int, _ []uint64, _ []byte, gas int64) (uint64, int64, bool) { return 1, gas - 1, true })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Run(Call{Method: "main", Gas: 1 << 40, Host: h}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/call")
}

// BenchmarkRun measures an empty run: it creates an instance, sets gas, calls a function and removes the
// instance.
func BenchmarkRun(b *testing.B) {
	e := newEngine(b)
	m := load(b, e, all)
	h := host(func(int, []uint64, []byte, int64) (uint64, int64, bool) { return 0, 0, true })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Run(Call{Method: "nothing", Gas: 1, Host: h}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLoadFile measures loading an artifact from disk and closing it.
func BenchmarkLoadFile(b *testing.B) {
	e := newEngine(b)
	artifact, err := e.Compile(wasm(b, all))
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "a")
	if err := os.WriteFile(path, artifact, 0o600); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		m, err := e.LoadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		m.Close()
	}
}
