package vm

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts"
	"github.com/troupe-chain/troupe/runtime/action"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

// statusContract stores a message for each account, like the first example of every SDK. A call of
// set_status makes twelve host calls.
const statusContract = `(module
	(import "env" "input" (func $input (param i64)))
	(import "env" "register_len" (func $len (param i64) (result i64)))
	(import "env" "read_register" (func $read (param i64 i64)))
	(import "env" "signer_account_id" (func $signer (param i64)))
	(import "env" "storage_write" (func $write (param i64 i64 i64 i64 i64) (result i64)))
	(import "env" "storage_read" (func $get (param i64 i64 i64) (result i64)))
	(import "env" "value_return" (func $return (param i64 i64)))
	(import "env" "log_utf8" (func $log (param i64 i64)))
	(memory 1)
	(func $key (result i64) (call $signer (i64.const 1)) (call $read (i64.const 1) (i64.const 1024)) (call $len (i64.const 1)))
	(func (export "set_status") (local $n i64) (local $k i64)
		(call $input (i64.const 0))
		(local.set $n (call $len (i64.const 0)))
		(call $read (i64.const 0) (i64.const 2048))
		(local.set $k (call $key))
		(call $log (i64.const 2048) (local.get $n))
		(drop (call $write (local.get $k) (i64.const 1024) (local.get $n) (i64.const 2048) (i64.const 2)))
		(drop (call $len (i64.const 2)))
		(call $return (local.get $n) (i64.const 2048)))
	(func (export "get_status")
		(drop (call $get (call $key) (i64.const 1024) (i64.const 3)))
		(call $read (i64.const 3) (i64.const 2048))
		(call $return (call $len (i64.const 3)) (i64.const 2048))))`

// BenchmarkCall measures a whole call: gas, instance, host functions, outcome.
func BenchmarkCall(b *testing.B) {
	v := newVM(b)
	code := wat(b, statusContract)
	c := call(code, "set_status", 300*tera)
	c.Block.Config = parameters.MustGet(parameters.June(86))
	c.StorageUsage = 10_000
	c.Args = []byte("hello, this is a status of some length")
	w := &world{}
	b.ReportAllocs()
	for b.Loop() {
		out, err := v.run(c, w)
		if err != nil || out.Err != nil {
			b.Fatal(ended(&out), err)
		}
	}
}

// BenchmarkFirstCall measures a call of code whose artifact is only on disk, for several lengths of wasm.
// It reports the length of the artifact too.
func BenchmarkFirstCall(b *testing.B) {
	for _, size := range []int{3_000, 250_000, 1_000_000} {
		b.Run(fmt.Sprintf("wasm=%d", size), func(b *testing.B) {
			dir := b.TempDir()
			var calls []*action.Call
			for i := range max(4, min(64, 1_000_000/size)) {
				calls = append(calls, call(contracts.Large(size, uint64(i)), "run", 300*tera))
				calls[i].Block = calls[0].Block
			}
			v, err := New(Options{Dir: dir, Memory: 1}) // room for one
			if err != nil {
				b.Fatal(err)
			}
			defer v.Close()
			run := func(i int) {
				if out, err := v.run(calls[i%len(calls)], &world{}); err != nil || out.Err != nil {
					b.Fatal(ended(&out), err)
				}
			}
			for i := range calls {
				run(i)
			}
			i := 0
			for b.Loop() {
				run(i)
				i++
			}
			s := v.Stats()
			if s.Builds != uint64(len(calls)) {
				b.Fatalf("%+v", s)
			}
			b.ReportMetric(float64(s.DiskBytes)/float64(len(calls))/1e6, "MB-artifact")
		})
	}
}

// TestCallsLeakNoMemory checks that calls leak no memory, also those that trap, panic or run out of
// gas.
func TestCallsLeakNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("tens of thousands of calls")
	}
	n := 20_000
	if s := os.Getenv("TROUPE_CALLS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	v := newVM(t)
	codes := [][]byte{wat(t, statusContract), wat(t, `(module (memory 1) (func (export "set_status") (i32.store (i32.const 1000000) (i32.const 1)) unreachable))`),
		wat(t, forever), wat(t, `(module (func $f (export "set_status") (call $f)))`), wat(t, badFunction("env"))}
	calls := func(n int) {
		w := &world{}
		for i := range n {
			at := 0
			if i%10 == 0 {
				at = i / 10 % len(codes)
			}
			c := call(codes[at], "set_status", 1*tera)
			if _, err := v.run(c, w); err != nil {
				t.Fatal(err)
			}
		}
		runtime.GC()
	}
	calls(n / 2)
	before := resident(t)
	calls(n / 2)
	if after := resident(t); after > before+16<<20 {
		t.Errorf("resident %d MB, after as many calls again %d MB", before>>20, after>>20)
	} else {
		t.Logf("resident %d MB, after as many calls again %d MB", before>>20, after>>20)
	}
}

// resident returns the resident memory of the process in bytes. It skips the test on a system that does
// not report it.
func resident(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc")
	}
	pages, err := strconv.Atoi(strings.Fields(string(b))[1])
	if err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}
