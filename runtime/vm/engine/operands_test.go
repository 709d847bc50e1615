package engine_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// places are the locations from which an instruction can take its operands (register, stack, constant and
// so on). Winch emits different machine code for each.
var places = []struct {
	name string
	put  func(p *program, t wasmasm.ValType, v []int) // operands number v
}{
	{"constants", func(p *program, t wasmasm.ValType, v []int) {
		for _, v := range v {
			p.border(t, v)
		}
	}},
	{"locals", func(p *program, t wasmasm.ValType, v []int) {
		for i, v := range v {
			p.border(t, v)
			p.f.Set(uint32(slices.Index(values, t)*2 + i))
		}
		for i := range v {
			p.f.Get(uint32(slices.Index(values, t)*2 + i))
		}
	}},
	{"a local and a constant", func(p *program, t wasmasm.ValType, v []int) {
		p.border(t, v[0])
		if p.f.Tee(uint32(slices.Index(values, t) * 2)); len(v) == 2 {
			p.border(t, v[1])
		}
	}},
	{"a constant and a local", func(p *program, t wasmasm.ValType, v []int) {
		l := uint32(slices.Index(values, t) * 2)
		p.border(t, v[len(v)-1])
		if p.f.Set(l); len(v) == 2 {
			p.border(t, v[0])
		}
		p.f.Get(l)
	}},
	{"the stack", func(p *program, t wasmasm.ValType, v []int) {
		for _, v := range v {
			p.border(t, v)
			p.f.GlobalSet(uint32(slices.Index(values, t)))
			p.f.GlobalGet(uint32(slices.Index(values, t)))
		}
		p.f.Block("", wasmasm.Void).End()
	}},
}

// border pushes a boundary value of a type as a constant.
func (p *program) border(t wasmasm.ValType, n int) {
	switch t {
	case wasmasm.I32:
		p.f.I32(int32(someInts[n]))
	case wasmasm.I64:
		p.f.I64(someInts[n])
	case wasmasm.F32:
		p.f.F32(float32(someFloats[n]))
	case wasmasm.F64:
		p.f.F64(someFloats[n])
	}
}

// numBoundaryValues is the number of boundary values of a type.
func numBoundaryValues(t wasmasm.ValType) int {
	if t == wasmasm.I32 || t == wasmasm.I64 {
		return len(someInts)
	}
	return len(someFloats)
}

// TestCodeGeneratorsAgreeOnOperands checks that both code generators give the same result or trap
// for every numeric instruction, with operands of all boundary values in all places.
func TestCodeGeneratorsAgreeOnOperands(t *testing.T) {
	if engine.Generator() == engine.Cranelift {
		t.Skip("there is one generator")
	}
	d := newGeneratorComparer(t)
	type numeric struct {
		code       []byte
		in, result wasmasm.ValType
		two, traps bool
	}
	var all []numeric
	for op := 0x45; op <= 0xc4; op++ {
		in, two, traps := numericOf(byte(op))
		_, result, _, _ := check.Numeric(byte(op))
		all = append(all, numeric{[]byte{byte(op)}, in, wasmasm.ValType(result), two, traps})
	}
	for op := range byte(8) {
		all = append(all, numeric{[]byte{0xfc, op}, []wasmasm.ValType{wasmasm.F32, wasmasm.F64}[op/2%2], []wasmasm.ValType{wasmasm.I32, wasmasm.I64}[op/4], false, false})
	}
	runs, told := 0, 0
	for _, x := range all {
		p := &program{m: &wasmasm.Module{}}
		for i, t := range []wasmasm.ValType{wasmasm.I32, wasmasm.I64, wasmasm.I32, wasmasm.I64} {
			p.out[i] = p.m.Import("env", []string{"i32", "i64", "f32", "f64"}[i], []wasmasm.ValType{t}, nil)
		}
		p.m.Memory(1, -1)
		p.m.Export("memory", wasmasm.ExternMemory, 0)
		for _, t := range values {
			p.f = new(wasmasm.Func)
			p.border(t, 0)
			p.m.Global(t, true, &p.f.Code)
		}
		var names []string
		begin := func() {
			p.f = p.m.Func(nil, nil)
			for _, t := range values {
				p.f.Run(2, t)
			}
			names = append(names, fmt.Sprint(len(names)))
			p.m.ExportFunc(names[len(names)-1], p.f)
		}
		seconds := 1
		if x.two {
			seconds = numBoundaryValues(x.in)
		}
		for place, where := range places {
			if !x.traps {
				begin()
			}
			for a := range numBoundaryValues(x.in) {
				for b := range seconds {
					if x.traps { // a function for each
						if x.two && b >= 3 && b < seconds-1 && a >= 3 && a < seconds-1 {
							continue
						}
						begin()
					} else if x.two && (a+b+place)%2 == 0 {
						continue
					}
					where.put(p, x.in, []int{a, b}[:min(seconds, 2)])
					p.f.Op(x.code...)
					p.report(x.result)
				}
			}
		}
		code := p.m.Encode()
		ours, theirs := d.load(d.winch, code, 0), d.load(d.other, code, 0)
		for _, name := range names {
			var outs [2]engine.Outcome
			var seen [2]valueHost
			for i, m := range []*engine.Module{ours, theirs} {
				var err error
				if outs[i], err = m.Run(engine.Call{Method: name, Host: &seen[i]}); err != nil {
					t.Fatal(err)
				}
			}
			if runs++; outs[0] != outs[1] || !slices.Equal(seen[0].values, seen[1].values) {
				t.Errorf("%x, function %s: %+v, by the oracle %+v", x.code, name, outs[0], outs[1])
				for i := range min(len(seen[0].values), len(seen[1].values)) {
					if a, b := seen[0].values[i], seen[1].values[i]; a != b {
						t.Fatalf("number %d: %x, by the oracle %x", i, a, b)
					}
				}
			}
			told += len(seen[0].values)
		}
		ours.Close()
		theirs.Close()
	}
	if t.Logf("%d runs, %d results", runs, told); told < 80_000 {
		t.Error("these are few")
	}
}

// valueHost is a host that stores the values that a module reports. It stores only that a value is
// NaN, not its bits: without prep these are not deterministic.
type valueHost struct{ values []uint64 }

func (s *valueHost) HostCall(fn int, args []uint64, _ []byte, gas int64) (uint64, int64, bool) {
	v := args[0]
	if f := math.Float32frombits(uint32(v)); fn == 2 && f != f {
		v = math.MaxUint64
	}
	if f := math.Float64frombits(v); fn == 3 && f != f {
		v = math.MaxUint64
	}
	s.values = append(s.values, v)
	return 0, gas, true
}

// TestAccessBeyondMemoryTraps checks that a load or store traps if and only if it exceeds the
// memory, for boundary values of offset and address.
func TestAccessBeyondMemoryTraps(t *testing.T) {
	d := newGeneratorComparer(t)
	const size = 64 << 20 // of what may be 128 MiB
	width := []int64{4, 8, 4, 8, 1, 1, 2, 2, 1, 1, 2, 2, 4, 4, 4, 8, 4, 8, 1, 2, 1, 2, 4}
	offsets := []int64{0, 1, 4095, size - 8, size - 1, size, 2*size - 9, 2*size - 8, 2*size - 1, 2 * size, 2*size + 1, 1<<31 - 1, 1 << 31, 1<<32 - 65536, 1<<32 - 8, 1<<32 - 1}
	addresses := []int64{0, 1, 7, 8, size - 8, size - 7, size - 4, size - 3, size - 2, size - 1, size, 2*size - 1, 2 * size, 1 << 31, 1<<32 - size, 1<<32 - 8, 1<<32 - 1}
	for _, e := range []*engine.Engine{d.winch, d.other} {
		m := &wasmasm.Module{}
		get := m.Import("env", "get", []wasmasm.ValType{wasmasm.I64, wasmasm.I32}, []wasmasm.ValType{wasmasm.I64})
		m.Memory(size>>16, 2*size>>16)
		m.Export("memory", wasmasm.ExternMemory, 0)
		for op := byte(0x28); op <= 0x3e; op++ {
			of, _ := check.Access(op)
			for _, offset := range offsets {
				f := m.Func(nil, nil)
				f.I64(0).I32(0).Call(get).Op(0xa7)
				if op >= 0x36 {
					(&program{f: f}).border(wasmasm.ValType(of), 1)
				}
				if f.Memory(op, 0, uint32(offset)); op < 0x36 {
					f.Op(wasmasm.Drop)
				}
				m.ExportFunc(fmt.Sprint(op, " ", offset), f)
			}
		}
		x := d.load(e, m.Encode(), 0)
		for op := byte(0x28); op <= 0x3e; op++ {
			for _, offset := range offsets {
				for _, address := range addresses {
					out, err := x.Run(engine.Call{Method: fmt.Sprint(op, " ", offset), Host: at(address)})
					if err != nil {
						t.Fatal(err)
					}
					want := engine.Outcome{End: engine.Done, Stage: engine.Running}
					if address+offset+width[op-0x28] > size {
						want.End, want.Trap = engine.Trapped, engine.MemoryOutOfBounds
					}
					if out != want {
						t.Fatalf("%x at %d + %d: %+v, want %+v", op, address, offset, out, want)
					}
				}
			}
		}
		x.Close()
	}
}

// at is a host that gives an address, with bits above that are not to be looked at.
type at int64

func (a at) HostCall(int, []uint64, []byte, int64) (uint64, int64, bool) {
	return uint64(a) | 0xfeed<<48, 0, true
}
