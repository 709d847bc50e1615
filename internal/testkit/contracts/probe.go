package contracts

import (
	"fmt"
	"sync"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
)

// The probe's memory: results of host calls, the program with its data, and from ProbeScratch to
// the end of the 64 pages free space.
const (
	probeResults = 1024
	ProbeBase    = 65536
	ProbeScratch = 40 * 65536
)

// Opcodes of instructions that call no host function.
const (
	opCopy         = 248
	opFill         = 249
	opSkipIfZero   = 250
	opGiveResults  = 251
	opTrap         = 252
	opGrow         = 253
	opLoop         = 254
	opEnd          = 255
	bytesPerOpArg  = 9
	bytesPerResult = 8
)

// Probe is the contract that interprets a Program over every host function. Its methods: run and
// then both interpret the input as a program, noop does nothing, deep recurses without end, div0
// divides by zero, oob loads outside the memory, spin loops without end.
//
// It is identical to the contract of the recorded chains, including names.
var Probe = sync.OnceValue(func() []byte { return newProbe(functions).m.Encode() })

// NewestProbe is the probe with the host functions of protocol version 88, and requires that
// version.
var NewestProbe = sync.OnceValue(func() []byte { return newProbe(allFunctions).m.Encode() })

// Version is the probe with one more method, which, that returns the byte n.
func Version(n byte) []byte { return newProbe(functions).version(n) }

// NewestVersion is Version of NewestProbe. Its method run88 interprets programs as run does. Other
// versions do not have it, so they never get a program with functions that they do not know.
func NewestVersion(n byte) []byte {
	p := newProbe(allFunctions)
	p.export("run88").Call(p.run)
	return p.version(n)
}

// version adds the method "which", which returns n, and encodes the module.
func (p *probe) version(n byte) []byte {
	which := p.export("which")
	which.I32(0).I32(int32(n)).Memory(wasmasm.I32Store8, 0, 0)
	which.I64(1).I64(0).Call(p.host["value_return"])
	return p.m.Encode()
}

// newProbe writes the contract "probe", which can call the given host functions.
func newProbe(list []probed) *probe {
	p := &probe{list: list, host: map[string]uint32{}}
	for _, f := range list {
		p.host[f.name] = p.m.Import("env", f.name, repeat(wasmasm.I64, f.params), resultType(f.result))
		p.m.NameImport(p.host[f.name], f.name)
	}
	p.m.Memory(64, -1)
	zero := func() *wasmasm.Code { return new(wasmasm.Code).I32(0) }
	p.pc, p.n = p.m.Global(wasmasm.I32, true, zero()), p.m.Global(wasmasm.I32, true, zero())
	p.m.NameGlobal(p.pc, "pc")
	p.m.NameGlobal(p.n, "n")
	p.writeArg()
	p.writePush()
	p.run = p.writeRun()
	for _, name := range []string{"run", "then"} {
		p.export(name).Call(p.run)
	}
	p.export("noop")
	deep := p.export("deep")
	deep.Call(deep.Index)
	p.m.NameFunc(deep, "deep")
	p.export("div0").I32(1).I32(0).Op(wasmasm.I32DivS, wasmasm.Drop)
	p.export("oob").I32(-8).Memory(wasmasm.I64Load, 3, 0).Op(wasmasm.Drop)
	p.export("spin").Loop("", wasmasm.Void).Br("").End()
	return p
}

// probe is the contract "probe" while its module is written.
type probe struct {
	m         wasmasm.Module
	list      []probed
	host      map[string]uint32
	pc, n     uint32 // indices of globals: pc is the program counter, n the number of results
	arg, push uint32 // indices of functions: arg reads the next argument, push stores a result
	run       uint32 // index of the interpreter function
}

func repeat(t wasmasm.ValType, n int) []wasmasm.ValType {
	out := make([]wasmasm.ValType, n)
	for i := range out {
		out[i] = t
	}
	return out
}

func resultType(r byte) []wasmasm.ValType {
	return [][]wasmasm.ValType{nil, {wasmasm.I64}, {wasmasm.I32}}[r]
}

func (p *probe) export(name string) *wasmasm.Func {
	f := p.m.Func(nil, nil)
	p.m.ExportFunc(name, f)
	return f
}

// writeArg writes the function that reads an argument: a kind byte and 8 bytes, a literal or the
// index of a result.
func (p *probe) writeArg() {
	f := p.m.Func(nil, []wasmasm.ValType{wasmasm.I64}, wasmasm.I64, wasmasm.I32).Names("v", "k")
	p.m.NameFunc(f, "arg")
	p.arg = f.Index
	const v, k = 0, 1
	f.GlobalGet(p.pc).Memory(wasmasm.I32Load8U, 0, 0).Set(k)
	f.GlobalGet(p.pc).I32(1).Op(wasmasm.I32Add).Memory(wasmasm.I64Load, 3, 0).Set(v)
	f.GlobalGet(p.pc).I32(bytesPerOpArg).Op(wasmasm.I32Add).GlobalSet(p.pc)
	f.Get(k).If("", byte(wasmasm.I64))
	f.I32(probeResults).Get(v).Op(wasmasm.I32WrapI64).I32(bytesPerResult).Op(wasmasm.I32Mul, wasmasm.I32Add).Memory(wasmasm.I64Load, 3, 0)
	f.Else().Get(v).End()
}

// writePush writes the function that stores a result.
func (p *probe) writePush() {
	f := p.m.Func([]wasmasm.ValType{wasmasm.I64}, nil).Names("v")
	p.m.NameFunc(f, "push")
	p.push = f.Index
	f.I32(probeResults).GlobalGet(p.n).I32(bytesPerResult).Op(wasmasm.I32Mul, wasmasm.I32Add).Get(0).Memory(wasmasm.I64Store, 3, 0)
	f.GlobalGet(p.n).I32(1).Op(wasmasm.I32Add).GlobalSet(p.n)
}

// writeRun writes the interpreter: one comparison for each of its own instructions, then a branch
// table for the host functions.
func (p *probe) writeRun() uint32 {
	c := p.m.Func(nil, nil, wasmasm.I32, wasmasm.I64, wasmasm.I64).Names("f", "i", "x")
	p.m.NameFunc(c, "run")
	const f, i, x = 0, 1, 2
	arg := func() { c.Call(p.arg) }
	arg32 := func() { c.Call(p.arg).Op(wasmasm.I32WrapI64) }
	on := func(op int32, do func()) {
		c.Get(f).I32(op).Op(wasmasm.I32Eq).If("", wasmasm.Void)
		do()
		if op != opTrap {
			c.Br("next")
		}
		c.End()
	}
	c.I64(0).Call(p.host["input"])
	c.I64(0).I64(ProbeBase).Call(p.host["read_register"])
	c.I32(ProbeBase).GlobalSet(p.pc)
	c.Block("end", wasmasm.Void).Loop("next", wasmasm.Void)
	c.GlobalGet(p.pc).Memory(wasmasm.I32Load8U, 0, 0).Set(f)
	c.GlobalGet(p.pc).I32(1).Op(wasmasm.I32Add).GlobalSet(p.pc)
	c.Get(f).I32(opEnd).Op(wasmasm.I32Eq).BrIf("end")
	on(opLoop, func() {
		arg()
		c.Set(i).Loop("l", wasmasm.Void).Get(i).I64(1).Op(wasmasm.I64Sub).Set(i)
		c.Get(i).I64(0).Op(wasmasm.I64GtS).BrIf("l").End()
	})
	on(opGrow, func() {
		arg32()
		c.MemoryGrow().Op(wasmasm.I64ExtendI).Call(p.push)
	})
	on(opTrap, func() { c.Op(wasmasm.Unreachable) })
	on(opGiveResults, func() {
		arg()
		c.I64(bytesPerResult).Op(wasmasm.I64Mul).I64(probeResults).Call(p.host["value_return"])
	})
	on(opSkipIfZero, func() {
		arg()
		c.Set(x)
		arg()
		c.Set(i).Get(x).Op(wasmasm.I64Eqz).If("", wasmasm.Void)
		c.GlobalGet(p.pc).Get(i).Op(wasmasm.I32WrapI64, wasmasm.I32Add).GlobalSet(p.pc).End()
	})
	for _, op := range []struct {
		code   int32
		bulk   uint32
		memory []uint32
	}{{opFill, wasmasm.MemoryFill, []uint32{0}}, {opCopy, wasmasm.MemoryCopy, []uint32{0, 0}}} {
		on(op.code, func() {
			for range 3 {
				arg32()
			}
			c.Bulk(op.bulk, op.memory...)
		})
	}
	labels := make([]string, len(p.list))
	for k := range labels {
		labels[k] = fmt.Sprintf("b%d", k)
	}
	for k := len(labels) - 1; k >= 0; k-- {
		c.Block(labels[k], wasmasm.Void)
	}
	c.Get(f).BrTable(labels...)
	for _, host := range p.list {
		c.End() // end of the block to which the branch table jumps for this function
		for range host.params {
			arg()
		}
		c.Call(p.host[host.name])
		switch host.result {
		case 1:
			c.Call(p.push)
		case 2:
			c.Op(wasmasm.I64ExtendU).Call(p.push)
		}
		c.Br("next")
	}
	c.End().End()
	return c.Index
}
