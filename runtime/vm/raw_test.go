package vm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/compiler"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
)

// TestModulesWithLargeSectionsAreBounded checks modules that have large sections other than code,
// or long encodings of numbers. Their prepared form must fit into a compiler request, the artifact
// must be within the bound, and a call must take a short time. The test logs the figures.
func TestModulesWithLargeSectionsAreBounded(t *testing.T) {
	v := newVM(t)
	section := func(id byte, n int, item []byte) []byte {
		content := binary.AppendUvarint(nil, uint64(n))
		return wasmasm.AppendSection(nil, id, append(content, bytes.Repeat(item, n)...))
	}
	raw := func(parts ...[]byte) []byte {
		return append([]byte("\x00asm\x01\x00\x00\x00"), bytes.Join(parts, nil)...)
	}
	module := func(write func(m *wasmasm.Module, f *wasmasm.Func)) []byte {
		m := &wasmasm.Module{}
		m.Memory(1, -1)
		m.Table(10, -1)
		f := m.Func(nil, nil)
		write(m, f)
		m.ExportFunc("main", f)
		return m.Encode()
	}
	i64s := func(n int) []wasmasm.ValType { return slices.Repeat([]wasmasm.ValType{wasmasm.I64}, n) }
	padded := []byte{0x81, 0x80, 0x80, 0x80, 0x00} // 1, in five bytes
	for name, code := range map[string][]byte{
		"custom sections": raw(bytes.Repeat([]byte{0, 2, 1, 'x'}, 350_000)),
		"one long custom": raw(wasmasm.AppendSection(nil, 0, append([]byte{1, 'x'}, make([]byte, 4_000_000)...))),
		"long types":      raw(section(1, 990, append(append([]byte{0x60, 64}, bytes.Repeat([]byte{0x7e}, 64)...), 0))),
		"padded numbers": module(func(_ *wasmasm.Module, f *wasmasm.Func) {
			f.Locals(2, wasmasm.I32)
			for f.Len() < 190_000 {
				f.Op(0x20).Op(padded...).Op(0x21, 0x80, 0x80, 0x80, 0x80, 0)
			}
		}),
		"a wide table of targets": module(func(_ *wasmasm.Module, f *wasmasm.Func) {
			f.Block("", wasmasm.Void).I32(0).Op(0x0e).Op(wasmasm.AppendU32(nil, 65_000)...).Op(make([]byte, 65_001)...).End()
		}),
		"wide tables, deep": module(func(_ *wasmasm.Module, f *wasmasm.Func) {
			for range 1_000 {
				f.Block("", wasmasm.Void)
			}
			f.I32(0).Op(0x0e).Op(wasmasm.AppendU32(nil, 90_000)...)
			for i := range 90_001 {
				f.Op(wasmasm.AppendU32(nil, uint32(i%1_000))...)
			}
			for range 1_000 {
				f.End()
			}
		}),
		"small functions of 5 parameters": module(func(m *wasmasm.Module, f *wasmasm.Func) {
			for range 9_900 {
				m.Func(i64s(5), nil)
			}
		}),
		"locals": module(func(m *wasmasm.Module, _ *wasmasm.Func) {
			for range 20 {
				m.Func(nil, nil).Locals(49_000, wasmasm.I64)
			}
		}),
		"groups of locals": module(func(_ *wasmasm.Module, f *wasmasm.Func) {
			for i := range 40_000 {
				f.Locals(1, []wasmasm.ValType{wasmasm.I32, wasmasm.I64, wasmasm.F32}[i%3])
			}
		}),
		"elements": module(func(m *wasmasm.Module, f *wasmasm.Func) {
			list := make([]uint32, 10)
			for range 60_000 {
				m.Elem(new(wasmasm.Code).I32(0), list...)
			}
		}),
		"passive elements": module(func(m *wasmasm.Module, f *wasmasm.Func) {
			m.PassiveElem(make([]uint32, 900_000)...)
			f.I32(0).I32(0).I32(0).Bulk(wasmasm.TableInit, 0, 0)
		}),
		"data": module(func(m *wasmasm.Module, f *wasmasm.Func) {
			for i := range 90_000 {
				m.Data(new(wasmasm.Code).I32(int32(i*7%60_000)), []byte("data"))
			}
		}),
		"exports": module(func(m *wasmasm.Module, f *wasmasm.Func) {
			for i := range 90_000 {
				m.Export(fmt.Sprint("é", i), wasmasm.ExternFunc, f.Index)
			}
		}),
		"globals": module(func(m *wasmasm.Module, _ *wasmasm.Func) {
			for range 40_000 {
				m.Global(wasmasm.I64, true, new(wasmasm.Code).I64(-1))
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			rules := &parameters.MustGet(parameters.June(86)).Wasm
			p, err := prep.Prepare(code, rules)
			prepared := time.Since(begun)
			if err != nil || p.CompileFails || p.LoadFails {
				t.Logf("%d bytes, refused in %v: %v", len(code), prepared, err)
				return
			}
			if len(p.Code) > compiler.MaxRequest*3/4 {
				t.Errorf("%d bytes became %d", len(code), len(p.Code))
			}
			begun = time.Now()
			a, err := v.build(&task{hash: primitives.HashBytes(code), code: code, rules: rules})
			built := time.Since(begun)
			if err != nil {
				t.Errorf("build: %v", err)
				return
			}
			if most := compiler.BoundOf(len(code)).Output; int64(len(a.Code)) > most {
				t.Errorf("artifact of %d bytes, at most %d", len(a.Code), most)
			}
			var call1, call2 time.Duration
			for i, took := range []*time.Duration{nil, &call1, &call2} { // the first compiles
				begun = time.Now()
				if out, err := v.run(call(code, "main", 300*tera), &world{}); err != nil {
					t.Errorf("call %d: %s, %v", i, ended(&out), err)
				}
				if took != nil {
					*took = time.Since(begun)
				}
			}
			const calls = 20
			c, used := call(code, "main", 300*tera), processorTime()
			for range calls {
				if _, err := v.run(c, &world{}); err != nil {
					t.Error(err)
				}
			}
			used = (processorTime() - used) / calls
			t.Logf("a call takes %v of processor time", used)
			t.Logf("%d bytes, written %d in %v, artifact %d in %v, calls %v and %v", len(code), len(p.Code), prepared, len(a.Code), built, call1, call2)
			if call2 > time.Second {
				t.Errorf("a call takes %v", call2)
			}
		})
	}
}

// processorTime returns the processor time that this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
