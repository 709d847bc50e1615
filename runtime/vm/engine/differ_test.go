package engine_test

import (
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/engine"
	"github.com/troupe-chain/troupe/runtime/vm/prep"
	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// program writes a random valid module. Most of its functions terminate. They serve no purpose but
// to keep many values in registers, locals, blocks and calls.
type program struct {
	r     *rand.Rand
	m     *wasmasm.Module
	f     *wasmasm.Func
	out   [4]uint32 // host functions that take an i32, i64, f32, f64 by its bits
	types []kind    // of functions
	funcs []kind    // of those that can be called, the first at number first
	first uint32
	local []wasmasm.ValType // of the function at work
	open  []target
	left  int // instructions that it may still have, about
	// floats is set if most values of the program are floats. Most of these are NaNs of any sign
	// and payload.
	floats bool
}

// kind is a type of functions.
type kind struct {
	params []wasmasm.ValType
	result wasmasm.ValType // 0: none
}

func (k kind) results() []wasmasm.ValType {
	if k.result == 0 {
		return nil
	}
	return []wasmasm.ValType{k.result}
}

// target is an open block: what a branch to it carries.
type target struct {
	carries wasmasm.ValType // 0: nothing
	loop    bool
}

var values = []wasmasm.ValType{wasmasm.I32, wasmasm.I64, wasmasm.F32, wasmasm.F64}

func (p *program) n(most int) int  { return p.r.IntN(most) }
func (p *program) one(in int) bool { return p.r.IntN(in) == 0 }
func (p *program) u32(v uint32)    { p.f.Op(wasmasm.AppendU32(nil, v)...) }
func (p *program) small(most int)  { p.f.I32(int32(p.n(most))) }
func (p *program) op(op byte, v ...uint32) {
	p.f.Op(op)
	for _, x := range v {
		p.u32(x)
	}
}

func (p *program) typ() wasmasm.ValType {
	if p.floats && !p.one(5) {
		return values[2+p.n(2)]
	}
	return values[p.n(4)]
}

const (
	tables, elems, datas, globals = 1, 3, 3, 8
	tableSize                     = 12
)

// newProgram writes the module of a seed.
func newProgram(seed uint64) []byte {
	return (&program{r: rand.New(rand.NewPCG(seed, 7))}).encode()
}

// newFloats is newProgram of floats that are no numbers.
func newFloats(seed uint64) []byte {
	return (&program{r: rand.New(rand.NewPCG(seed, 9)), floats: true}).encode()
}

// encode writes a module.
func (p *program) encode() []byte {
	p.m = &wasmasm.Module{DataCount: true}
	for i, t := range []wasmasm.ValType{wasmasm.I32, wasmasm.I64, wasmasm.I32, wasmasm.I64} {
		p.out[i] = p.m.Import("env", []string{"i32", "i64", "f32", "f64"}[i], []wasmasm.ValType{t}, nil)
	}
	p.first = 5
	get := p.m.Import("env", "get", []wasmasm.ValType{wasmasm.I64, wasmasm.I32}, []wasmasm.ValType{wasmasm.I64})
	if p.floats {
		p.m.Memory(1024, 2048) // what prepared modules have
	} else {
		p.m.Memory(1, -1)
	}
	for range tables {
		p.m.Table(tableSize, 30)
	}
	for i := range globals {
		init := new(wasmasm.Code)
		switch values[i%4] {
		case wasmasm.I32:
			init.I32(int32(p.r.Uint32()))
		case wasmasm.I64:
			init.I64(int64(p.r.Uint64()))
		case wasmasm.F32:
			init.F32(math.Float32frombits(p.r.Uint32()))
		case wasmasm.F64:
			init.F64(math.Float64frombits(p.r.Uint64()))
		}
		p.m.Global(values[i%4], true, init)
	}
	for range 1 + p.n(6) {
		k := kind{}
		for range p.n(p.n(14) + 1) {
			k.params = append(k.params, p.typ())
		}
		if !p.one(4) {
			k.result = p.typ()
		}
		p.types = append(p.types, k)
	}
	var made []*wasmasm.Func
	for range 2 + p.n(6) {
		k := p.types[p.n(len(p.types))]
		p.funcs = append(p.funcs, k)
		f := p.m.Func(k.params, k.results())
		made = append(made, f)
	}
	list := func() (out []uint32) {
		for range 6 {
			out = append(out, p.first+uint32(p.n(len(p.funcs))))
		}
		return out
	}
	all := list()[:2]
	for i := range p.funcs {
		all = append(all, p.first+uint32(i)) // so that each may be referred to
	}
	p.m.Elem(new(wasmasm.Code).I32(0), all...)
	for range elems - 1 {
		p.m.PassiveElem(list()...)
	}
	p.m.Data(new(wasmasm.Code).I32(16), []byte("some data that is there from the beginning"))
	for range datas - 1 {
		p.m.PassiveData([]byte("and some that is not, or not at once"))
	}
	for i, f := range made {
		p.body(f, p.funcs[i], 20+p.n(300))
	}
	main := p.m.Func(nil, nil)
	p.body(main, kind{}, 150)
	p.m.ExportFunc("main", main)
	_ = get
	return p.m.Encode()
}

// body writes a function.
func (p *program) body(f *wasmasm.Func, k kind, length int) {
	if p.floats {
		length *= 2
	}
	p.f, p.left = f, length
	p.local = slices.Clone(k.params)
	for range p.n(12) {
		n, t := 1+p.n(3), p.typ()
		if p.one(20) {
			n = 40 // more than are named
		}
		if p.one(6) {
			t = wasmasm.FuncRef
		}
		f.Locals(uint32(n), t)
		p.local = append(p.local, slices.Repeat([]wasmasm.ValType{t}, n)...)
	}
	p.open = []target{{carries: k.result}}
	for p.left > 0 {
		p.statement(4)
	}
	for i, t := range p.local {
		if t != wasmasm.FuncRef && (p.floats || p.one(3)) {
			p.f.Get(uint32(i))
			p.report(t)
		}
	}
	if k.result != 0 {
		p.value(k.result, 3)
	}
}

// report gives the value on the stack to the host.
func (p *program) report(t wasmasm.ValType) {
	switch t {
	case wasmasm.F32:
		p.f.Op(0xbc)
	case wasmasm.F64:
		p.f.Op(0xbd)
	}
	p.f.Call(p.out[slices.Index(values, t)])
}

// of is a local of a type; false: there is none.
func (p *program) of(t wasmasm.ValType) (uint32, bool) {
	from := p.n(len(p.local) + 1)
	for i := range p.local {
		if at := (from + i) % len(p.local); p.local[at] == t {
			return uint32(at), true
		}
	}
	return 0, false
}

// address pushes one, nearly always of what is there.
func (p *program) address(d int) (offset uint32) {
	if p.one(150) {
		p.value(wasmasm.I32, d)
		return []uint32{0, 1, 1 << 31, math.MaxUint32}[p.n(4)]
	}
	p.value(wasmasm.I32, d)
	p.f.I32(1020).Op(0x71)
	return uint32(p.n(64))
}

// statement leaves the stack as it was.
func (p *program) statement(d int) {
	p.left--
	if d == 0 {
		p.f.Op(wasmasm.Nop)
		return
	}
	switch p.n(26) {
	case 0, 1, 2, 3:
		t := p.typ()
		if l, ok := p.of(t); ok {
			p.value(t, d)
			p.f.Set(l)
		}
	case 4, 5:
		t := p.typ()
		p.value(t, d)
		p.report(t)
	case 6, 7:
		store := byte(0x36 + p.n(9))
		t, _ := check.Access(store)
		offset := p.address(d - 1)
		p.value(wasmasm.ValType(t), d-1)
		p.f.Memory(store, 0, offset)
	case 8:
		g := p.n(globals)
		p.value(values[g%4], d)
		p.f.GlobalSet(uint32(g))
	case 9, 10:
		p.f.Block("", wasmasm.Void)
		p.inside(target{}, d)
		p.f.End()
	case 11, 12:
		p.value(wasmasm.I32, d-1)
		p.f.If("", wasmasm.Void)
		p.inside(target{}, d)
		if p.one(2) {
			p.f.Else()
			p.inside(target{}, d)
		}
		p.f.End()
	case 13:
		if l, ok := p.of(wasmasm.I32); ok { // it turns a few times
			p.small(6)
			p.f.Set(l)
			p.f.Loop("", wasmasm.Void)
			p.inside(target{loop: true}, d)
			p.f.Get(l).I32(1).Op(wasmasm.I32Sub).Tee(l).I32(0).Op(0x4a).Op(0x0d, 0).End()
		}
	case 14:
		p.branch(d, true)
	case 15:
		if p.one(6) {
			p.branch(d, false)
		}
	case 16:
		p.call(p.n(len(p.funcs)), d)
		return
	case 17:
		t := p.typ()
		p.value(t, d)
		p.f.Op(wasmasm.Drop)
	case 18:
		p.bulk(d)
	case 19:
		p.small(tableSize)
		p.reference(d)
		p.op(0x26, uint32(p.n(tables)))
	case 20:
		if l, ok := p.of(wasmasm.FuncRef); ok {
			p.reference(d)
			p.f.Set(l)
		}
	case 21:
		for range 3 {
			p.f.Block("", wasmasm.Void)
			p.open = append(p.open, target{})
		}
		p.value(wasmasm.I32, d-1)
		p.op(0x0e, 3, 0, 1, 2, uint32(p.n(3)))
		for range 3 {
			p.f.End()
			if p.open = p.open[:len(p.open)-1]; p.one(2) {
				p.statement(d - 1)
			}
		}
	case 22:
		if p.one(40) {
			p.f.Op(wasmasm.Unreachable)
		}
	default:
		t := p.typ()
		if l, ok := p.of(t); ok {
			p.value(t, d)
			p.f.Tee(l)
			p.report(t)
		}
	}
}

// inside writes what is in a block.
func (p *program) inside(t target, d int) {
	p.open = append(p.open, t)
	for range 1 + p.n(3) {
		p.statement(d - 1)
	}
	p.open = p.open[:len(p.open)-1]
}

// branch writes one to any open block, but for loops, which might never end.
func (p *program) branch(d int, condition bool) {
	if len(p.open) == 0 {
		return
	}
	depth := p.n(len(p.open))
	to := p.open[len(p.open)-1-depth]
	if to.loop || p.floats && depth == len(p.open)-1 && !p.one(20) {
		return
	}
	if to.carries != 0 {
		p.value(to.carries, d-1)
	}
	if condition {
		p.value(wasmasm.I32, d-1)
		if p.op(0x0d, uint32(depth)); to.carries != 0 {
			p.f.Op(wasmasm.Drop)
		}
		return
	}
	if depth == len(p.open)-1 && p.one(2) {
		p.f.Op(wasmasm.Return)
	} else {
		p.op(0x0c, uint32(depth))
	}
}

// call calls a function and reports what it returns.
func (p *program) call(n, d int) {
	k := p.funcs[n]
	for _, t := range k.params {
		p.value(t, d-1)
	}
	if p.one(2) {
		p.f.Call(p.first + uint32(n))
	} else {
		p.small(6) // which has another type, perhaps
		if !p.one(3) {
			p.f.Op(wasmasm.Drop)
			p.small(tableSize)
			p.f.Op(wasmasm.Drop)
			p.f.Call(p.first + uint32(n))
		} else {
			p.op(0x11, p.m.Type(k.params, k.results()), uint32(p.n(tables)))
		}
	}
	if k.result != 0 {
		p.report(k.result)
	}
}

// reference pushes one.
func (p *program) reference(d int) {
	switch l, ok := p.of(wasmasm.FuncRef); {
	case ok && p.one(2):
		p.f.Get(l)
	case p.one(4):
		p.f.RefNull(wasmasm.FuncRef)
	case p.one(3):
		p.small(tableSize)
		p.op(0x25, uint32(p.n(tables)))
	case d > 1 && p.one(5):
		p.reference(d - 1)
		p.reference(d - 1)
		p.value(wasmasm.I32, d-1)
		p.f.Op(0x1c, 1, byte(wasmasm.FuncRef))
	default:
		p.f.RefFunc(p.first + uint32(p.n(len(p.funcs))))
	}
}

// bulk writes an instruction for many bytes or elements.
func (p *program) bulk(d int) {
	count := func() {
		if p.one(60) {
			p.value(wasmasm.I32, d-1)
		} else {
			p.small(5)
		}
	}
	switch p.n(9) {
	case 0:
		p.address(d - 1)
		p.address(d - 1)
		p.small(40)
		p.f.Bulk(10, 0, 0)
	case 1:
		p.address(d - 1)
		p.value(wasmasm.I32, d-1)
		p.small(40)
		p.f.Bulk(11, 0)
	case 2:
		p.address(d - 1)
		p.small(3)
		count()
		p.f.Bulk(8, uint32(1+p.n(datas-1)), 0)
	case 3:
		p.small(7)
		p.small(2)
		count()
		p.f.Bulk(12, uint32(1+p.n(elems-1)), uint32(p.n(tables)))
	case 4:
		p.small(7)
		p.small(7)
		count()
		p.f.Bulk(14, uint32(p.n(tables)), uint32(p.n(tables)))
	case 5:
		p.small(7)
		p.reference(d)
		count()
		p.f.Bulk(17, uint32(p.n(tables)))
	case 6:
		p.reference(d)
		p.small(4)
		p.f.Bulk(15, uint32(p.n(tables)))
		p.report(wasmasm.I32)
	case 7:
		if p.one(4) {
			p.f.Bulk(9, uint32(p.n(datas)))
		}
	case 8:
		if p.one(4) {
			p.f.Bulk(13, uint32(p.n(elems)))
		}
	}
}

// byResult are the numeric instructions, by what they give.
var byResult = func() map[wasmasm.ValType][]byte {
	out := map[wasmasm.ValType][]byte{}
	for op := 0x45; op <= 0xc4; op++ {
		_, t, _, _ := check.Numeric(byte(op))
		out[wasmasm.ValType(t)] = append(out[wasmasm.ValType(t)], byte(op))
	}
	return out
}()

// numericOf returns the operand type of a numeric instruction, whether it has two operands, and
// whether it may trap.
func numericOf(op byte) (in wasmasm.ValType, two, traps bool) {
	of, _, two, _ := check.Numeric(op)
	traps = op >= 0x6d && op <= 0x70 || op >= 0x7f && op <= 0x82 || op >= 0xa8 && op <= 0xab || op >= 0xae && op <= 0xb1
	return wasmasm.ValType(of), two, traps
}

var (
	someInts   = []int64{0, 1, -1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 127, 128, 255, 256, -128, 1 << 15, 1 << 16, math.MaxInt32, math.MinInt32, 1 << 32, math.MaxInt64, math.MinInt64}
	someFloats = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 1.5, 2.5, -0.5, math.Inf(1), math.Inf(-1), math.NaN(), 1 << 31, -(1 << 31) - 1, 1 << 32, 1 << 63, -(1 << 63), 1 << 64, math.MaxFloat32,
		math.MaxFloat64, math.SmallestNonzeroFloat32, math.SmallestNonzeroFloat64, 4503599627370497.5, 8388609.5, 3.4028235677973366e+38}
)

func (p *program) constant(t wasmasm.ValType) {
	whole, float := someInts[p.n(len(someInts))], someFloats[p.n(len(someFloats))]
	bits := p.r.Uint64()
	if p.one(3) {
		bits |= 0x7ff0_0000_7f80_0000 // no number, of any kind
	}
	random := p.one(3)
	if p.floats && !p.one(3) {
		random, bits = true, bits|0x7ff0_0000_7f80_0000
	}
	switch t {
	case wasmasm.I32:
		if random {
			whole = int64(bits)
		}
		p.f.I32(int32(whole))
	case wasmasm.I64:
		if random {
			whole = int64(bits)
		}
		p.f.I64(whole)
	case wasmasm.F32:
		if random {
			p.f.Op(0x43, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
		} else {
			p.f.F32(float32(float))
		}
	case wasmasm.F64:
		if random {
			p.f.Op(0x44, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24), byte(bits>>32), byte(bits>>40), byte(bits>>48), byte(bits>>56))
		} else {
			p.f.F64(float)
		}
	}
}

// value pushes one of a type.
func (p *program) value(t wasmasm.ValType, d int) {
	p.left--
	if d <= 0 || p.left < -400 {
		if l, ok := p.of(t); ok && !p.one(3) {
			p.f.Get(l)
		} else {
			p.constant(t)
		}
		return
	}
	if p.floats && (t == wasmasm.F32 || t == wasmasm.F64) && !p.one(3) {
		p.float(t, d)
		return
	}
	switch p.n(24) {
	case 0, 1:
		p.constant(t)
	case 2, 3, 4:
		p.value(t, 0)
	case 5:
		p.f.GlobalGet(uint32(slices.Index(values, t) + 4*p.n(2)))
	case 6, 7:
		var loads []byte
		for op := byte(0x28); op < 0x36; op++ {
			if of, _ := check.Access(op); wasmasm.ValType(of) == t {
				loads = append(loads, op)
			}
		}
		offset := p.address(d - 1)
		p.f.Memory(loads[p.n(len(loads))], 0, offset)
	case 8:
		if l, ok := p.of(t); ok {
			p.value(t, d-1)
			p.f.Tee(l)
		} else {
			p.constant(t)
		}
	case 9:
		p.value(t, d-1)
		p.value(t, d-1)
		if p.value(wasmasm.I32, d-1); p.one(2) {
			p.f.Op(wasmasm.Select)
		} else {
			p.f.Op(0x1c, 1, byte(t))
		}
	case 10, 11:
		p.f.Block("", byte(t))
		p.open = append(p.open, target{carries: t})
		for range p.n(3) {
			p.statement(d - 1)
		}
		p.value(t, d-1)
		if p.one(3) {
			p.value(wasmasm.I32, d-1)
			p.op(0x0d, 0)
		} else if p.one(4) && len(p.open) > 1 && p.open[len(p.open)-2].carries == t && !p.open[len(p.open)-2].loop {
			p.value(wasmasm.I32, d-1)
			p.op(0x0e, 2, 0, 1, uint32(p.n(2)))
		}
		p.open = p.open[:len(p.open)-1]
		p.f.End()
	case 12:
		p.value(wasmasm.I32, d-1)
		p.f.If("", byte(t))
		p.open = append(p.open, target{carries: t})
		p.value(t, d-1)
		p.f.Else()
		if p.one(2) {
			p.statement(d - 1)
		}
		p.value(t, d-1)
		p.open = p.open[:len(p.open)-1]
		p.f.End()
	case 13:
		p.f.Loop("", byte(t))
		p.open = append(p.open, target{loop: true})
		p.value(t, d-1)
		p.open = p.open[:len(p.open)-1]
		p.f.End()
	case 14, 15:
		n := p.n(len(p.funcs))
		if k := p.funcs[n]; k.result == t {
			for _, param := range k.params {
				p.value(param, d-2)
			}
			p.f.Call(p.first + uint32(n))
		} else {
			p.value(t, d-1)
		}
	case 16:
		switch t {
		case wasmasm.I32:
			switch p.n(5) {
			case 0:
				p.f.MemorySize()
			case 1:
				p.small(2)
				p.f.MemoryGrow()
			case 2:
				p.f.Bulk(16, uint32(p.n(tables)))
			case 3:
				p.reference(d)
				p.f.Op(0xd1)
			case 4:
				p.value([]wasmasm.ValType{wasmasm.F32, wasmasm.F64}[p.n(2)], d-1)
				p.f.Op(wasmasm.Drop)
				p.value(wasmasm.F64, d-1)
				p.f.Bulk(uint32(2 + p.n(2)))
			}
		case wasmasm.I64:
			if p.one(2) {
				p.value(wasmasm.F32, d-1)
				p.f.Bulk(uint32(4 + p.n(2)))
			} else {
				p.value(wasmasm.I64, d-1)
				p.value(wasmasm.I32, d-1)
				p.f.Call(4)
			}
		default:
			p.value(t, d-1)
		}
	default:
		op := byResult[t][p.n(len(byResult[t]))]
		in, two, traps := numericOf(op)
		if traps && !p.one(8) {
			p.value(t, d-1)
			return
		}
		if p.value(in, d-1); two {
			p.value(in, d-1)
		}
		p.f.Op(op)
	}
}

// float computes one: by what changes only its sign as often as by what makes it canonical.
func (p *program) float(t wasmasm.ValType, d int) {
	op := byResult[t][p.n(len(byResult[t]))]
	if p.one(2) {
		op = []byte{0x8b, 0x8c, 0x98}[p.n(3)] // f32.abs, neg, copysign
		if t == wasmasm.F64 {
			op += 0x99 - 0x8b
		}
	}
	in, two, _ := numericOf(op)
	if p.value(in, d-1); two {
		p.value(in, d-1)
	}
	p.f.Op(op)
}

// valueHasher is a host that hashes all values that a program passes to it, together with the
// remaining gas and the content of the memory.
type valueHasher struct {
	sum   maphash.Hash
	calls int
}

func (s *valueHasher) HostCall(fn int, args []uint64, memory []byte, gas int64) (uint64, int64, bool) {
	s.calls++
	fmt.Fprint(&s.sum, fn, args, gas, len(memory))
	_, _ = s.sum.Write(memory[:2048])
	return args[0]*31 + 7, gas - 1000, s.calls < 5000
}

// generatorComparer runs programs by both code generators.
type generatorComparer struct {
	t            *testing.T
	winch, other *engine.Engine
	seed         maphash.Seed
	rules        *parameters.Wasm
	ends         map[string]int
}

func newGeneratorComparer(t *testing.T) *generatorComparer {
	i32, i64 := []engine.ValType{engine.I32}, []engine.ValType{engine.I64}
	o := engine.Options{Functions: []engine.Function{{Name: "i32", Params: i32}, {Name: "i64", Params: i64}, {Name: "f32", Params: i32}, {Name: "f64", Params: i64},
		{Name: "get", Params: []engine.ValType{engine.I64, engine.I32}, Results: i64}}, Exports: engine.Exports{Gas: prep.GlobalGas, Stack: prep.GlobalStack}}
	d := &generatorComparer{t: t, seed: maphash.MakeSeed(), rules: &parameters.MustGet(parameters.June(86)).Wasm, ends: map[string]int{}}
	for _, e := range []**engine.Engine{&d.winch, &d.other} {
		var err error
		if *e, err = engine.New(o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup((*e).Close)
		o.Cranelift = true
	}
	return d
}

// run wants that the program of a seed ends alike by both, with much gas and with less.
func (d *generatorComparer) run(seed uint64, write func(seed uint64) []byte) {
	code := write(seed)
	p, err := prep.Prepare(code, d.rules)
	if err != nil {
		d.t.Fatalf("seed %d: %v", seed, err)
	}
	const full = 3_000_000_000
	gases := []int64{full}
	for round := 0; round < len(gases); round++ {
		var outs [2]engine.Outcome
		var sums [2]uint64
		calls := 0
		for i, e := range []*engine.Engine{d.winch, d.other} {
			m := d.load(e, p.Code, seed)
			h := &valueHasher{}
			h.sum.SetSeed(d.seed)
			if outs[i], err = m.Run(engine.Call{Method: prep.MethodPrefix + "main", Gas: gases[round], Host: h}); err != nil {
				d.t.Fatalf("seed %d: %v", seed, err)
			}
			m.Close()
			sums[i], calls = h.sum.Sum64(), h.calls
		}
		if outs[0] != outs[1] || sums[0] != sums[1] {
			d.t.Fatalf("seed %d, gas %d: %+v, by the other generator %+v; same reported values: %v", seed, gases[round], outs[0], outs[1], sums[0] == sums[1])
		}
		if round == 0 {
			r := rand.New(rand.NewPCG(seed, 8))
			if spent := full - outs[0].Gas; spent > 1 && spent < full {
				gases = append(gases, r.Int64N(spent), r.Int64N(spent))
			}
		}
		o := outs[0]
		switch {
		case o.Gas < 0:
			d.ends["out of gas"]++
		case o.Stack < 0:
			d.ends["out of stack"]++
		case o.End == engine.Trapped:
			d.ends[fmt.Sprint("trap ", o.Trap)]++
		default:
			d.ends[fmt.Sprint("end ", o.End)]++
		}
		if calls > 10 {
			d.ends["told much"]++
		}
	}
}

func (d *generatorComparer) load(e *engine.Engine, code []byte, seed uint64) *engine.Module {
	a, err := e.Compile(code)
	if err != nil {
		d.t.Fatalf("seed %d: %v", seed, err)
	}
	m, err := e.Load(a)
	if err != nil {
		d.t.Fatalf("seed %d: %v", seed, err)
	}
	return m
}

// TestCodeGeneratorsAgreeOnRandomPrograms: random programs end in the same way with both code
// generators: same value, gas, memory and trap. TROUPE_DIFFER=10m runs for that long, with another
// seed each time.
func TestCodeGeneratorsAgreeOnRandomPrograms(t *testing.T) {
	if engine.Generator() == engine.Cranelift {
		t.Skip("there is one generator")
	}
	d := newGeneratorComparer(t)
	if s := os.Getenv("TROUPE_DIFFER"); s != "" {
		if n, err := strconv.ParseUint(s, 10, 64); err == nil { // one seed
			d.run(n, newProgram)
			d.run(n, newBranchGenerator)
			d.run(n, newFloats)
			return
		}
		long, err := time.ParseDuration(s)
		if err != nil {
			t.Fatal(err)
		}
		seed, n := rand.Uint64(), 0
		for end := time.Now().Add(long); time.Now().Before(end); n++ {
			d.run(seed+uint64(n), []func(uint64) []byte{newProgram, newBranchGenerator, newFloats}[n%3])
		}
		t.Logf("%d programs from seed %d: %v", n, seed, d.ends)
		return
	}
	for seed := range uint64(80) {
		if d.run(seed, newProgram); seed%2 == 0 {
			d.run(seed, newBranchGenerator)
		}
	}
	t.Log(d.ends)
	for what, least := range map[string]int{"end 0": 20, "out of gas": 50, "told much": 30, fmt.Sprint("trap ", engine.MemoryOutOfBounds): 1, fmt.Sprint("trap ", engine.BadSignature): 1} {
		if d.ends[what] < least {
			t.Errorf("%s: %d of the runs, want %d", what, d.ends[what], least)
		}
	}
}
