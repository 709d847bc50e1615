//go:build amd64 && !noshim

package engine

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strconv"
	"strings"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/compilebombs"
	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// frames returns the sizes in bytes of the stack frames of an artifact's functions. It reads them from the
// prologues in the machine code.
func frames(t *testing.T, artifact []byte) map[int]uint64 {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(artifact))
	if err != nil {
		t.Fatal(err)
	}
	text, err := f.Section(".text").Data()
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	out := map[int]uint64{}
	for i := range symbols {
		name, ok := strings.CutPrefix(symbols[i].Name, "wasm[0]::function[")
		name, _, _ = strings.Cut(name, "]")
		n, err := strconv.Atoi(name)
		if !ok || err != nil {
			continue // a trampoline
		}
		code, ok := bytes.CutPrefix(text[symbols[i].Value:], winchBegins)
		if !ok {
			t.Fatalf("function %d does not begin as Winch's do: % x", n, text[symbols[i].Value:][:24])
		}
		out[n] = 16 + uint64(binary.LittleEndian.Uint32(code)) // the return address and the frame's pointer
	}
	return out
}

// TestNativeFramesStayWithinMeteredStack checks that a frame of Winch's machine code is at most
// twice as large as the metered stack that the call uses. So a recursion reaches the metered limit
// before the native stack overflows. MaxStack depends on this.
func TestNativeFramesStayWithinMeteredStack(t *testing.T) {
	e, err := New(Options{Exports: Exports{Gas: prep.GlobalGas, Stack: prep.GlobalStack}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	w := &parameters.MustGet(parameters.June(86)).Wasm
	worst, largest, seen := 0.0, uint64(0), 0
	measure := func(name string, code []byte) {
		t.Helper()
		var metered []uint64
		m, err := check.Run(code, w, func(_ *check.Module, b *check.Body) { metered = append(metered, b.Frame+b.Operands) })
		if err != nil || m.CompileFails || m.LoadFails {
			return
		}
		p, err := prep.Prepare(code, w)
		if err != nil {
			t.Fatal(err)
		}
		a, err := e.Compile(p.Code)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		of := frames(t, a)
		for i, m := range metered {
			frame, ok := of[len(p.Imports)+i]
			if delete(of, len(p.Imports)+i); !ok {
				t.Fatalf("%s: function %d is not in its artifact", name, i)
			}
			seen++
			worst, largest = max(worst, float64(frame)/float64(m)), max(largest, frame)
			if frame > 2*m {
				t.Errorf("%s: function %d has a frame of %d bytes, metered are %d", name, i, frame, m)
			}
		}
		for i, frame := range of { // of prep's own functions, which call none that is metered
			if frame > 256 {
				t.Errorf("%s: function %d has a frame of %d bytes", name, i, frame)
			}
		}
	}
	for i, s := range append(compilebombs.Known(), compilebombs.Listed()...) {
		if code := s.Encode(); i%12 == 0 && len(code) < 300_000 {
			measure(s.Name, code)
		}
	}
	types := []wasmasm.ValType{wasmasm.I32, wasmasm.I64, wasmasm.F32, wasmasm.F64}
	for _, params := range []int{0, 1, 7, 20, 64} {
		for of, typ := range types {
			m := &wasmasm.Module{}
			m.Memory(1, -1)
			list := make([]wasmasm.ValType, params)
			for i := range list {
				if list[i] = typ; of == 0 && i%3 == 0 {
					list[i] = types[i%4]
				}
			}
			f := m.Func(list, nil)
			f.Locals(3, typ)
			for range 20 { // arguments of a call, over arguments of a call
				for i := range list {
					f.Get(uint32(i))
				}
			}
			for range 20 {
				f.Call(f.Index)
			}
			m.ExportFunc("main", f)
			measure("arguments", m.Encode())
		}
	}
	many := &wasmasm.Module{}
	many.Memory(1, -1)
	f := many.Func(nil, nil)
	f.Locals(49_990, wasmasm.I32).I32(0)
	for i := range uint32(49_990) { // each is named
		f.Tee(i)
	}
	f.Op(wasmasm.Drop)
	measure("locals", many.Encode())
	t.Logf("%d functions: at most %.2f times what is metered, the largest has %d bytes", seen, worst, largest)
	if seen < 1_000 || largest < 200_000 {
		t.Errorf("%d functions, the largest frame has %d bytes", seen, largest)
	}
	if deep := 2*uint64(w.Limits.MaxStackHeight) + 2*largest; deep > MaxStack/2 {
		t.Errorf("a recursion may take %d bytes", deep)
	}
}
