package prep

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bytecodealliance/wasmtime-go/v44"
)

// TestOnlyFullyExportedModuleIsReusable checks that a module exports that its instances can be
// reset only if all state that a call can change is visible from outside.
func TestOnlyFullyExportedModuleIsReusable(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string // the exported globals and the extent of the data; empty: it cannot be reset
	}{
		"nothing":          {`(module (func (export "f")))`, "0-0"},
		"data and globals": {`(module (memory 1) (data (i32.const 16) "abc") (data (i32.const 4) "x") (global (mut i32) (i32.const 1)) (global i32 (i32.const 2)) (global (mut f64) (f64.const 3)))`, "0 1 4-19"},
		"passive data":     {`(module (memory 1) (data "abc") (func (export "f") (memory.init 0 (i32.const 0) (i32.const 0) (i32.const 1))))`, "0-0"},
		"far data":         {`(module (memory 10) (data (i32.const 0) "x") (data (i32.const 300000) "x"))`, ""},
		"nine globals":     {`(module ` + strings.Repeat(`(global (mut i32) (i32.const 1))`, 9) + `)`, ""},
		"a reference":      {`(module (global (mut funcref) (ref.null func)))`, ""},
		"table.get":        {`(module (table 1 funcref) (func (export "f") (drop (table.get 0 (i32.const 0)))))`, "0-0"},
		"table.set":        {`(module (table 1 funcref) (func (export "f") (table.set 0 (i32.const 0) (ref.null func))))`, ""},
		"table.grow":       {`(module (table 1 funcref) (func (export "f") (drop (table.grow 0 (ref.null func) (i32.const 1)))))`, ""},
		"table.fill":       {`(module (table 1 funcref) (func (export "f") (table.fill 0 (i32.const 0) (ref.null func) (i32.const 1))))`, ""},
		"table.copy":       {`(module (table 1 funcref) (func (export "f") (table.copy (i32.const 0) (i32.const 0) (i32.const 1))))`, ""},
		"table.init":       {`(module (table 1 funcref) (func $f (export "f") (table.init 0 (i32.const 0) (i32.const 0) (i32.const 1))) (elem func $f))`, ""},
		"data.drop":        {`(module (memory 1) (data "abc") (func (export "f") (data.drop 0)))`, ""},
		"elem.drop":        {`(module (table 1 funcref) (func $f (export "f") (elem.drop 0)) (elem func $f))`, ""},
		"ref.func":         {`(module (func $f (export "f") (drop (ref.func $f))) (elem declare func $f))`, "0-0"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, traced := range []bool{false, true} {
				e := newEmitter(june86())
				e.trace = traced
				m, err := e.prepare(wat(t, c.text), june86())
				if err != nil {
					t.Errorf("prepare: %v", err)
					continue
				}
				if got := resetExports(t, m.Code); got != c.want && !traced || got != "" && traced {
					t.Errorf("%s (traced %v): %q, want %q", name, traced, got, c.want)
				}
			}
		})
	}
}

// resetExports returns the exports with which a prepared module allows a reset.
func resetExports(t *testing.T, code []byte) string {
	t.Helper()
	engine := wasmtime.NewEngine()
	m, err := wasmtime.NewModule(engine, code)
	if err != nil {
		t.Fatal(err)
	}
	store := wasmtime.NewStore(engine)
	var imports []wasmtime.AsExtern
	in, err := wasmtime.NewInstance(store, m, imports)
	if err != nil {
		t.Fatal(err)
	}
	x := in.GetExport(store, GlobalAgain)
	if x == nil {
		return ""
	}
	var told []string
	for _, d := range "0123456789" {
		if in.GetExport(store, GlobalAgain+string(d)) != nil {
			told = append(told, string(d))
		}
	}
	v := x.Global().Get(store).I64()
	return strings.Join(append(told, fmt.Sprintf("%d-%d", uint32(v), uint64(v)>>32)), " ")
}
