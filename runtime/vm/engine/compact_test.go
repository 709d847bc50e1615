//go:build amd64 && !noshim

package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/troupe-chain/troupe/internal/contracts/bombs"
	asm "github.com/troupe-chain/troupe/internal/contracts/wasm"
	"github.com/troupe-chain/troupe/runtime/config"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// TestCompactFrames: in a compact module no instruction makes its function's frame larger each time that it is there. Which register
// a value comes to goes round with those that were made before, so there are different numbers of others in between.
func TestCompactFrames(t *testing.T) {
	e, err := New(Options{Functions: []Function{{Name: "log_utf8", Params: []ValType{I64, I64}}, {Name: "block_index", Results: []ValType{I64}}},
		Exports: Exports{Gas: prep.GlobalGas, Stack: prep.GlobalStack}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	rules := &config.MustGet(config.June(86)).Wasm
	largest := func(name string, code []byte) {
		t.Helper()
		p, err := prep.PrepareCompact(code, rules, false)
		if err != nil {
			return // a unit that is not for all shapes
		}
		a, err := e.Compile(p.Code)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		frames, err := framesOf(a)
		if err != nil {
			t.Fatal(err)
		}
		for n, frame := range frames {
			if frame > 500 { // that of a function that takes six parameters and calls has 100 to 300
				t.Errorf("%s: function %d has a frame of %d bytes", name, n, frame)
			}
		}
	}

	r := rand.New(rand.NewPCG(1, 1))
	m := &asm.Module{}
	m.Memory(1, -1)
	m.Table(10, -1)
	m.Global(asm.I64, true, new(asm.Code).I64(1))
	push := func(f *asm.Func, of check.ValType) {
		switch of {
		case check.I64:
			f.GlobalGet(0)
		default:
			f.I32(0).Memory(map[check.ValType]byte{check.I32: 0x28, check.F32: 0x2a, check.F64: 0x2b}[of], 0, 0)
		}
	}
	pop := func(f *asm.Func, of check.ValType) {
		switch of {
		case check.I32:
			f.Op(asm.I64ExtendU)
		case check.F32:
			f.Op(asm.I32Bits, asm.I64ExtendU)
		case check.F64:
			f.Op(asm.I64Bits)
		}
		f.GlobalSet(0)
	}
	each := func(write func(f *asm.Func)) {
		f := m.Func(nil, nil)
		for range 200 {
			for range r.IntN(15) {
				f.GlobalGet(0).GlobalSet(0)
			}
			for range r.IntN(4) {
				f.I32(0).I64(1).Memory(asm.I64Store, 3, 0)
			}
			write(f)
		}
	}
	for op := 0x45; op <= 0xc4; op++ {
		in, out, two, _ := check.Numeric(byte(op))
		each(func(f *asm.Func) {
			if push(f, in); two {
				push(f, in)
			}
			f.Op(byte(op))
			pop(f, out)
		})
	}
	for op := uint32(0); op < 8; op++ {
		each(func(f *asm.Func) {
			push(f, []check.ValType{check.F32, check.F64}[op>>1&1])
			f.Bulk(op)
			pop(f, check.TruncSat(op))
		})
	}
	for _, of := range []check.ValType{check.I32, check.I64, check.F32, check.F64} {
		each(func(f *asm.Func) {
			push(f, of)
			push(f, of)
			push(f, check.I32)
			f.Op(asm.Select)
			pop(f, of)
		})
	}
	largest("instructions", m.Encode())

	pad := bombs.Unit(0)
	for pad.String() != "global" {
		pad++
	}
	for u := range bombs.Unit(bombs.Units()) {
		var list []bombs.Unit
		for range 20 {
			list = append(list, u)
			for range r.IntN(15) {
				list = append(list, pad)
			}
		}
		for _, params := range []int{0, 5} {
			s := bombs.Shape{Funcs: 2, Bytes: 4_000, Locals: 9, Mixed: true, Params: params, Result: params%2 == 1, Units: list, Depth: 5}
			largest(fmt.Sprintf("%v, %d parameters", u, params), s.Encode())
		}
	}
}

// TestShare: a module asks for the other allocator only by Share, whatever a contract has in it.
func TestShare(t *testing.T) {
	e, err := New(Options{Exports: Exports{Gas: prep.GlobalGas, Stack: prep.GlobalStack}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m := &asm.Module{}
	m.Memory(1, -1)
	m.Data(new(asm.Code).I32(0), []byte(sharing+sharing))
	code := append(m.Encode(), sharing...)
	code = append(append(append([]byte{}, code[:header]...), sharing...), code[header:]...)
	p, err := prep.Prepare(code, &config.MustGet(config.June(86)).Wasm)
	if err != nil {
		t.Fatal(err)
	}
	shared := Share(p.Code)
	if shares(p.Code) || !shares(shared) {
		t.Fatalf("asked for: %v, by Share: %v", shares(p.Code), shares(shared))
	}
	a, err := e.Compile(shared)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := e.Load(a)
	if err != nil {
		t.Fatal(err)
	}
	loaded.Close()
}
