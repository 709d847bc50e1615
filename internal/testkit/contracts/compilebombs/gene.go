package compilebombs

import (
	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
)

// The protocol's limits within which a shape can be compiled (config 86).
const (
	maxBody     = 196_608 // maximum size of a function body in bytes
	maxBlocks   = 5_000   // maximum number of blocks in a function
	allBlocks   = 50_000
	maxParams   = 64
	allParams   = 50_000
	maxOperands = 8_192 // maximum size of a function's operand stack in bytes
	allLocals   = 1_000_000
	oneLocals   = 49_900
	maxFuncs    = 9_990
	maxTypes    = 1_000
)

// Shape describes a module: a number of equal functions, and the other sections.
type Shape struct {
	Name string

	Funcs  int  // number of functions, all with the same body
	Bytes  int  // approximate size of a body in bytes; smaller if maxBlocks is reached before
	Params int  // number of parameters of each function
	Result bool // true: each function returns an i64
	Locals int
	Mixed  bool // true: the locals cycle through all types; false: all locals are i64
	Live   int  // number of operands that stay on the stack during the whole body
	Live4  bool // true: the Live operands are i32; false: i64
	Depth  int  // number of nested blocks around the body
	Nest   byte // opcode of these blocks: block, loop or if; 0: block
	Units  []Unit
	Shift  int // initial value of body.turn, by which repeated units differ

	Types   int // number of unused function types
	Globals int
	Exports int // number of exports
	Long    int // length of the exports' names
	Elems   int // number of functions in an element segment at the end of the table
	Datas   int // number of data segments of one byte, at intervals of Span bytes
	Span    int // distance between two data segments in bytes
	Bulk    int // size of an additional data segment in bytes
	Imports int // number of imported functions
}

// Unit is a piece of code that leaves the operand stack unchanged, so that it can be repeated.
type Unit byte

// module is the wasm module of a Shape while it is written.
type module struct {
	*wasmasm.Module
	s       *Shape
	imports []uint32
	kind    uint32 // index of the type of the functions
	first   uint32 // index of the first function
}

// Encode returns the module. Package prep may refuse it, since some shapes exceed limits that are
// not checked here.
func (s *Shape) Encode() []byte {
	m := &module{Module: &wasmasm.Module{}, s: s}
	m.DataCount = true
	var params, results []wasmasm.ValType
	for range min(s.Params, maxParams) {
		params = append(params, wasmasm.I64)
	}
	if s.Result {
		results = []wasmasm.ValType{wasmasm.I64}
	}
	m.kind = m.Type(params, results)
	m.imports = []uint32{m.Import("env", "log_utf8", []wasmasm.ValType{wasmasm.I64, wasmasm.I64}, nil),
		m.Import("env", "block_index", nil, []wasmasm.ValType{wasmasm.I64})}
	for range s.Imports {
		m.Import("env", "epoch_height", nil, []wasmasm.ValType{wasmasm.I64})
	}
	for i := range min(s.Types, maxTypes) {
		m.AddType([]wasmasm.ValType{wasmasm.F32, wasmasm.ValType(byte(wasmasm.F64) + byte(i%4)),
			wasmasm.ValType(byte(wasmasm.F64) + byte(i/4%4))}, nil)
	}
	m.Memory(1, -1)
	m.Table(10_000, 10_000)
	for range max(s.Globals, 4) {
		m.Global(wasmasm.I64, true, new(wasmasm.Code).I64(1))
	}
	var funcs []*wasmasm.Func
	count := max(1, min(s.Funcs, maxFuncs))
	if s.Params > 0 {
		count = min(count, allParams/s.Params)
	}
	locals := min(s.Locals, oneLocals)
	if locals > 0 {
		count = min(count, allLocals/locals)
	}
	for range count {
		f := m.Func(params, results)
		for i := range locals {
			f.Locals(1, m.local(i))
			if !s.Mixed {
				f.Locals(uint32(locals-1), wasmasm.I64)
				break
			}
		}
		funcs = append(funcs, f)
	}
	m.first = funcs[0].Index
	for i, f := range funcs {
		(&body{m: m, f: f, turn: i + s.Shift, params: len(params), locals: locals, blocks: min(maxBlocks, allBlocks/count)}).write()
	}
	run := m.Func(nil, nil)
	m.ExportFunc("run", run)
	m.around(funcs)
	return m.Module.Encode()
}

func (m *module) local(i int) wasmasm.ValType {
	if !m.s.Mixed {
		return wasmasm.I64
	}
	return [...]wasmasm.ValType{wasmasm.I64, wasmasm.I32, wasmasm.F64, wasmasm.F32, wasmasm.I64}[i%5]
}

// around adds all sections of the module except functions.
func (m *module) around(funcs []*wasmasm.Func) {
	s := m.s
	name := make([]byte, s.Long+3)
	for i := range name {
		name[i] = 'x'
	}
	for i := range s.Exports {
		name[0], name[1], name[2] = byte('0'+i&63), byte('0'+i>>6&63), byte('0'+i>>12&63)
		m.Export(string(name), wasmasm.ExternFunc, funcs[i%len(funcs)].Index)
	}
	if n := min(s.Elems, 10_000); n > 0 {
		var list []uint32
		for i := range n {
			list = append(list, funcs[i%len(funcs)].Index)
		}
		m.Elem(new(wasmasm.Code).I32(int32(10_000-n)), list...)
	}
	for i := range s.Datas {
		m.Data(new(wasmasm.Code).I32(int32(i*max(1, s.Span)%(128<<20))), []byte{1})
	}
	if s.Bulk > 0 {
		m.Data(new(wasmasm.Code).I32(0), make([]byte, s.Bulk))
	}
	m.PassiveData([]byte{1})
	m.PassiveElem(m.first)
}
