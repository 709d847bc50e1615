package prep

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v44"

	"github.com/troupe-chain/troupe/internal/testkit/testutil"
	"github.com/troupe-chain/troupe/runtime/parameters"
)

func june86() *parameters.Wasm { return &parameters.MustGet(parameters.June(86)).Wasm }

func wat(t testing.TB, text string) []byte {
	t.Helper()
	b, err := wasmtime.Wat2Wasm(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return b
}

// ways are the options of Prepare under which the tests run.
var ways = map[string]func(*emitter){
	"as it is":       func(*emitter) {},
	"traced":         func(e *emitter) { e.trace = true },
	"crowded":        func(e *emitter) { e.most = 0 },
	"traced crowded": func(e *emitter) { e.trace, e.most = true, 0 },
	"truncs":         func(e *emitter) { e.inline = 0 },
	"plain":          func(e *emitter) { e.plain = true },
}

func corpus(t testing.TB) (modules [][]byte) {
	t.Helper()
	for data := testutil.Read(t, "check/testdata/random.bin.gz"); len(data) > 0; {
		n := int(binary.LittleEndian.Uint32(data))
		modules = append(modules, data[4:4+n])
		data = data[4+n:]
	}
	return modules
}

// TestPreparedModulesAreValid checks that the prepared form of every valid module is valid, with
// each of the options.
func TestPreparedModulesAreValid(t *testing.T) {
	e := wasmtime.NewEngine()
	n := 0
	for i, code := range corpus(t) {
		for name, way := range ways {
			em := newEmitter(june86())
			way(em)
			m, err := em.prepare(code, june86())
			if err != nil || m.CompileFails {
				continue
			}
			n++
			if err := wasmtime.ModuleValidate(e, m.Code); err != nil {
				t.Errorf("module %d, %s: %v", i, name, err)
			}
		}
	}
	if n < 1_000 {
		t.Errorf("%d modules were written", n)
	}
}

// FuzzPrepare checks that arbitrary bytes are either refused or become a valid module.
func FuzzPrepare(f *testing.F) {
	for i, code := range corpus(f) {
		if i%40 == 0 {
			f.Add(code)
		}
	}
	engine := wasmtime.NewEngine()
	f.Fuzz(func(t *testing.T, in []byte) {
		for name, way := range ways {
			e := newEmitter(june86())
			way(e)
			m, err := e.prepare(in, june86())
			if err != nil || m.CompileFails {
				return
			}
			if err := wasmtime.ModuleValidate(engine, m.Code); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		m, _ := Prepare(in, june86())
		if again, err := Prepare(in, june86()); err != nil || !bytes.Equal(again.Code, m.Code) {
			t.Fatal("prepared twice, differently")
		}
	})
}

// TestModuleFieldsAreFilled checks the fields of Module.
func TestModuleFieldsAreFilled(t *testing.T) {
	m, err := Prepare(wat(t, `(module (import "env" "input" (func $i)) (import "env" "f" (func (param i32) (result i64)))
		(memory (export "memory") 0) (export "input" (func $i))
		(func $main (export "main")) (func (export "") (param i32) (result i64) (i64.const 0)) (start $main))`), june86())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(m.Imports, m.Methods, m.HasStart), "[{input [] []} {f [i32] [i64]}] map[:false input:true main:true] true"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestFarDataOffsetPreventsImage checks that the offset of data is written as a sum, which prevents
// an image, if the image would be far larger than the segments.
func TestFarDataOffsetPreventsImage(t *testing.T) {
	for _, c := range []struct {
		what, data string
		far        bool
	}{
		{"none", "", false},
		{"one far away", `(data (i32.const 16000000) "x")`, false},
		{"two, near", `(data (i32.const 0) "x") (data (i32.const 65000) "x")`, false},
		{"two bytes 16 MB apart", `(data (i32.const 0) "x") (data (i32.const 16776900) "x")`, true},
		{"the first behind a passive one", `(data "p") (data (i32.const 16776900) "x") (data (i32.const 0) "x")`, true},
		{"16 MB apart as negative numbers", `(data (i32.const -1073741824) "x") (data (i32.const -1056964608) "x")`, true},
		{"far apart but large", `(data (i32.const 0) "` + string(bytes.Repeat([]byte("y"), 100_000)) + `") (data (i32.const 1600000) "x")`, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			code := wat(t, `(module (memory 1) `+c.data+`)`)
			m, err := Prepare(code, june86())
			if err != nil {
				t.Fatalf("prepare: %v", err)
			}
			if sums := bytes.Count(m.Code, []byte{opI32Const, 0, opI32Add, opEnd}); sums != 0 && !c.far || sums != 1 && c.far {
				t.Errorf("%d offsets are sums, want one: %v", sums, c.far)
			}
		})
	}
}
