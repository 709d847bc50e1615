package vm

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/contracts"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// values is a function that calls itself first and behind that has n values that live over a joint. A compiler of one pass keeps
// a slot of the frame for each; what the metered stack takes is the same for any n.
func values(n int) string {
	return `(func $g (result i64) (i64.const 1)) (func $f (export "main") (local i64) (call $f)` +
		strings.Repeat("(local.set 0 (i64.add (call $g) (if (result i64) (i32.const 1) (then (call $g)) (else (i64.const 2)))))", n) + `)`
}

// TestNativeStackOfValues: code whose frames hold more than the metered stack knows of is compiled once more, for small frames, if
// the native stack would end first, and only then.
func TestNativeStackOfValues(t *testing.T) {
	v := newVM(t)
	compact := func(n int) bool {
		t.Helper()
		was := v.Stats().Compact
		out, err := v.run(call(wat(t, `(module (memory 1) `+values(n)+`)`), "main", 300*tera), &world{})
		if err != nil || out.Err == nil || string(out.Err.AppendJSON(nil)) != noAccess {
			t.Fatalf("%d values: %s, %v", n, ended(&out), err)
		}
		return v.Stats().Compact > was
	}
	fits, not := 50, 2000
	if compact(fits) || engine.Measured != compact(not) {
		t.Fatalf("%d values compiled for small frames, or %d not", fits, not)
	}
	for engine.Measured && fits+1 < not { // as large as they can be, frames still fit
		if n := (fits + not) / 2; compact(n) {
			not = n
		} else {
			fits = n
		}
	}
}

// TestStackIsGivenBack: what a deep run has used of a thread's stack does not stay with it.
func TestStackIsGivenBack(t *testing.T) {
	if runtime.GOOS != "linux" || !engine.Measured {
		t.Skip("for linux on amd64")
	}
	v := newVM(t)
	code := wat(t, `(module (memory 1) `+values(200)+`)`) // 13 MiB
	measure := make(chan struct{})
	defer close(measure)
	run := func() { // on a thread that nobody else has until all is measured
		done := make(chan error)
		go func() {
			runtime.LockOSThread()
			_, err := v.run(call(code, "main", 300*tera), &world{})
			done <- err
			<-measure
		}()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	resident := func() (kb int) {
		b, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(b), "VmRSS:")
		if _, err := fmt.Sscanf(after, "%d kB", &kb); err != nil {
			t.Fatal(err)
		}
		return kb
	}
	run()
	before := resident()
	const threads = 12
	for range threads {
		run()
	}
	if more := (resident() - before) >> 10; more > threads*6 {
		t.Errorf("%d threads keep %d MiB more", threads, more)
	}
}

// TestNativeStack: whatever a recursion holds, the metered stack ends before the thread's. The VM of the test takes a native
// overflow for an alarm, which fails the test.
func TestNativeStack(t *testing.T) {
	v := newVM(t)
	times := func(n int, s string) string { return strings.Repeat(s+" ", n) }
	for name, module := range map[string]string{
		"nothing":     `(func $f (export "main") (call $f))`,
		"2000 f32":    `(func $f (export "main") (local f32) ` + times(2000, "(f32.sqrt (local.get 0))") + `(call $f)` + times(2000, "drop") + `)`,
		"1000 f64":    `(func $f (export "main") (local f64) ` + times(1000, "(f64.sqrt (local.get 0))") + `(call $f)` + times(1000, "drop") + `)`,
		"2000 i32":    `(func $f (export "main") (local i32) ` + times(2000, "(i32.popcnt (local.get 0))") + `(call $f)` + times(2000, "drop") + `)`,
		"one f32":     `(func $f (export "main") (local f32) (f32.sqrt (local.get 0)) (call $f) drop)`,
		"locals f32":  `(func $f (export "main") (local ` + times(8000, "f32") + `) ` + setAll(8000, "(f32.sqrt (f32.const 2))") + `(call $f)` + getAll(8000) + `)`,
		"locals f32b": `(func $f (export "main") (local ` + times(400, "f32") + `) ` + setAll(400, "(f32.sqrt (f32.const 2))") + `(call $f)` + getAll(400) + `)`,
		"params f32": `(func $f (param ` + times(64, "f32") + `) ` + paramsAll(64, "f32.add (f32.const 1)") + `(call $f)` + getAll(64) + `)
			(func (export "main") ` + times(64, "(f32.const 1)") + `(call $f))`,
		"params i32": `(func $f (param ` + times(64, "i32") + `) ` + paramsAll(64, "i32.add (i32.const 1)") + `(call $f)` + getAll(64) + `)
			(func (export "main") ` + times(64, "(i32.const 1)") + `(call $f))`,
		"through a table": `(type $t (func)) (table 1 funcref) (elem (i32.const 0) $f) (func $f (export "main") (call_indirect (type $t) (i32.const 0)))`,
		"short lives": `(func $g (result f32) (f32.const 1)) (func $f (export "main") (local f32) ` + times(100, "(f32.sqrt (local.get 0))") +
			times(3000, "(f32.sqrt (call $g)) (call $g) f32.add drop") + `(call $f)` + times(100, "drop") + `)`,
		"divisions":      `(func $f (export "main") (local i32) (call $f) (local.get 0)` + times(2000, "(i32.div_s (local.get 0))") + `drop)`,
		"conditions":     `(func $f (export "main") (local i32 i32) (call $f)` + times(2000, "(i32.load (local.get 0)) (br_if 0 (local.get 1)) (local.set 0)") + `)`,
		"operands":       `(func $f (export "main") (local i32) (call $f)` + times(20, times(100, "(i32.load (local.get 0))")+"(call $f)"+times(99, "i32.div_s")+"(local.set 0)") + `)`,
		"through tables": `(type $t (func (result i32))) (table 1 funcref) (func $f (export "main") (local i32) (call $f)` + times(1000, "(local.set 0 (call_indirect (type $t) (local.get 0)))") + `)`,
		"joints": `(func $f (export "main") (local ` + times(20, "i32") + `) (call $f)` +
			times(100, "(if (local.get 0) (then "+setAll(20, "(i32.add (local.get 1) (i32.const 1))")+"))") + getAll(20) + `)`,
		"constants in a loop": `(func $f (export "main") (local i32) (loop ` + times(5000, "(i32.store (i32.add (local.get 0) (i32.const 77)) (local.get 0))") +
			`(call $f) (br_if 0 (i32.const 1))))`,
	} {
		t.Run(name, func(t *testing.T) {
			out, err := v.run(call(wat(t, `(module (memory 1) `+module+`)`), "main", 300*tera), &world{})
			if err != nil {
				t.Fatal(err)
			}
			if out.Err == nil || string(out.Err.AppendJSON(nil)) != noAccess {
				t.Errorf("%s", ended(&out))
			}
		})
	}
	if s := v.Stats(); s.Shared > 0 || engine.Measured && s.Compact == 0 {
		t.Errorf("%d compiled for small frames, %d of them by the slower allocator too", s.Compact, s.Shared)
	}
}

func setAll(n int, value string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "(local.set %d %s) ", i, value)
	}
	return b.String()
}

func getAll(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "(drop (local.get %d)) ", i)
	}
	return b.String()
}

func paramsAll(n int, add string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "(%s (local.get %d)) ", add, i)
	}
	return b.String()
}

// TestCompactAtOnce: code of which prep knows that its frames will be too large is compiled once, and contracts as compilers write them
// are never written so.
func TestCompactAtOnce(t *testing.T) {
	v := newVM(t)
	rules := &call(nil, "", 0).Block.Config.Wasm
	for unit, count := range map[string]int{"(drop (table.get (i32.const 1)))": 300, "(drop (ref.func $f))": 300, "(drop (memory.grow (i32.const 0)))": 1000,
		"(local.set 0 (i32.div_s (local.get 0) (i32.const 3)))": 1000} {
		for few, n := range map[bool]int{true: count / 4, false: count} {
			code := wat(t, `(module (memory 1) (table 2 funcref) (elem declare func $f) (func $f (export "main") (local i32) (call $f) `+strings.Repeat(unit, n)+`))`)
			p, err := prep.Prepare(code, rules)
			if err != nil || p.Compact == few {
				t.Fatalf("%d of %s: compact %v, %v", n, unit, p.Compact, err)
			}
			out, err := v.run(call(code, "main", 300*tera), &world{})
			if err != nil || out.Err == nil || string(out.Err.AppendJSON(nil)) != noAccess {
				t.Errorf("%d of %s: %s, %v", n, unit, ended(&out), err)
			}
		}
	}
	if s := v.Stats(); s.Compact+s.Shared != 0 {
		t.Errorf("compiled again: %d for small frames, %d of them by the slower allocator too", s.Compact, s.Shared)
	}
	codes := map[string][]byte{"large": contracts.Large(250_000, 1), "larger": contracts.Large(1_000_000, 2)}
	for _, s := range contracts.Sources {
		codes[s.Name] = contracts.C(s.Name)
	}
	for name, code := range codes {
		if p, err := prep.Prepare(code, rules); err != nil || p.Compact {
			t.Errorf("%s: compact, %v", name, err)
		}
	}
}
