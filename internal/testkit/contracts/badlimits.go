package contracts

import (
	"strings"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
	"github.com/troupe-chain/troupe/primitives"
)

// Limits of protocol 86 (nearcore core/parameters/res/runtime_configs/parameters.snap).
const (
	mostTypes         = 1024
	mostFunctions     = 10_000
	mostTableElements = 10_000
	mostBody          = 196_608
	mostLocals        = 1_000_000
	mostLocalsHere    = 50_000 // maximum number of locals of one function, including its parameters
	mostParamsHere    = 64
	mostParams        = 50_000
	mostStack         = 8192 // maximum size of a function's operand stack in bytes
	mostBlocksHere    = 5000
	mostBlocks        = 50_000
	mostTargets       = 131_072
	mostName          = 100_000
	mostGlobals       = 65_505 // maximum number of globals of a module with one exported function
)

// badLimits returns modules whose counts of functions, types and so on are at the limits, and above
// them.
func badLimits() []Bad {
	types := func(n int) func() []byte {
		return func() []byte {
			m := &wasmasm.Module{}
			for range n - 1 {
				m.AddType(nil, nil)
			}
			m.AddType([]wasmasm.ValType{wasmasm.I32}, nil)
			return m.Encode()
		}
	}
	functions := func(imported, defined int) func() []byte {
		return func() []byte {
			m := &wasmasm.Module{}
			for range imported {
				m.Import("env", "block_index", nil, []wasmasm.ValType{wasmasm.I64})
			}
			for range defined {
				m.Func(nil, nil)
			}
			return m.Encode()
		}
	}
	tables := func(n int, least uint32, most int64) func() []byte {
		return withMain(func(m *wasmasm.Module, _ *wasmasm.Func) {
			for range n {
				m.Table(least, most)
			}
		})
	}
	params := func(sizes ...int) func() []byte {
		return func() []byte {
			m := &wasmasm.Module{}
			for _, n := range sizes {
				m.Func(repeat(wasmasm.I64, n), nil)
			}
			return m.Encode()
		}
	}
	// Functions with the maximum number of parameters (64) until all together have the maximum
	// (50,000).
	many := append(sizes(mostParams/mostParamsHere, mostParamsHere), mostParams%mostParamsHere)
	locals := func(runs ...uint32) func() []byte {
		return func() []byte {
			m := &wasmasm.Module{}
			for _, n := range runs {
				m.Func(nil, nil).Run(n, wasmasm.I64)
			}
			return m.Encode()
		}
	}
	million := func(more ...uint32) []uint32 {
		var runs []uint32
		for range 64 {
			runs = append(runs, 15_625)
		}
		return append(runs, more...)
	}
	blocks := func(each ...int) func() []byte {
		return func() []byte {
			m := &wasmasm.Module{}
			for _, n := range each {
				nest(m.Func(nil, nil), n)
			}
			return m.Encode()
		}
	}
	globals := func(n int) func() []byte {
		return withMain(func(m *wasmasm.Module, _ *wasmasm.Func) {
			for range n {
				m.Global(wasmasm.I32, true, new(wasmasm.Code).I32(0))
			}
		})
	}
	return []Bad{
		runs("the most types", types(mostTypes)),
		refused("a type too many", primitives.PrepareTooManyTypes, types(mostTypes+1)),
		runs("the most functions", functions(0, mostFunctions)),
		refused("a function too many", primitives.PrepareTooManyFunctions, functions(0, mostFunctions+1)),
		refused("a function too many, imported", primitives.PrepareTooManyFunctions, functions(mostFunctions+1, 0)),
		refused("a function too many with the imported ones", primitives.PrepareTooManyFunctions, functions(1, mostFunctions)),
		refused("two tables", primitives.PrepareTooManyTables, tables(2, 1, -1)),
		runs("the largest table", tables(1, mostTableElements, 0xffff_ffff)),
		refused("a table too large", primitives.PrepareTooManyTableElements, tables(1, mostTableElements+1, -1)),
		runs("the most params of a function", params(mostParamsHere)),
		refused("a param too many", primitives.PrepareTooManyParamsPerFunction, params(mostParamsHere+1)),
		runs("the most params", params(many...)),
		refused("a param too many of all", primitives.PrepareTooManyParamsPerContract, params(append(many, 1)...)),
		invalid("a type of 1,001 params", params(1001)),
		runs("a million locals", locals(million()...)),
		refused("a million locals and one", primitives.PrepareTooManyLocals, locals(million(1)...)),
		invalid("a million locals of one function", locals(mostLocals)),
		refused("four billion locals", primitives.PrepareTooManyLocals, locals(0xffff_ffff)),
		invalid("a local too many", locals(mostLocalsHere+1)),
		{Name: "the most locals", Make: locals(mostLocalsHere), Fate: NotCompiled},
		{Name: "one less than the most locals", Make: locals(mostLocalsHere - 1), Fate: NotCompiled},
		runs("the most locals that compile", locals(mostLocalsHere-2)),
		runs("the most blocks of a function", blocks(mostBlocksHere)),
		refused("a block too many", primitives.PrepareTooManyBlocksPerFunction, blocks(mostBlocksHere+1)),
		runs("the most blocks", blocks(sizes(mostBlocks/mostBlocksHere, mostBlocksHere)...)),
		refused("a block too many of all", primitives.PrepareTooManyBlocksPerContract,
			blocks(append(sizes(mostBlocks/mostBlocksHere, mostBlocksHere), 1)...)),
		runs("the deepest stack", operands(mostStack/8)),
		refused("a stack too deep", primitives.PrepareOperandStackTooLarge, operands(mostStack/8+1)),
		runs("the most globals that load", globals(mostGlobals)),
		{Name: "a global too many to load", Make: globals(mostGlobals + 1), Fate: NotLoaded},
	}
}

// sizes returns a slice with n times the value v.
func sizes(n, v int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// nest writes n nested blocks.
func nest(f *wasmasm.Func, n int) {
	for range n {
		f.Block("", wasmasm.Void)
	}
	for range n {
		f.End()
	}
}

// operands makes a module that holds n values of 64 bits on the operand stack.
func operands(n int) func() []byte {
	return withMain(func(_ *wasmasm.Module, main *wasmasm.Func) {
		for range n {
			main.I64(0)
		}
		for range n {
			main.Op(wasmasm.Drop)
		}
	})
}

// badSizes returns modules at and above the limits in bytes, and the largest possible modules.
func badSizes() []Bad {
	nops := func(body int) func() []byte {
		return withMain(func(_ *wasmasm.Module, main *wasmasm.Func) {
			// The encoded body begins with the number of groups of locals and closes with the
			// instruction end. Each takes one byte.
			main.Op([]byte(strings.Repeat(string(rune(wasmasm.Nop)), body-2))...)
		})
	}
	nested := func(functions, blocks int) func() []byte {
		return func() []byte {
			m := &wasmasm.Module{}
			for range functions {
				nest(m.Func(nil, nil), blocks)
			}
			return m.Encode()
		}
	}
	targets := func(n int) func() []byte {
		return withMain(func(_ *wasmasm.Module, main *wasmasm.Func) {
			main.Block("b", wasmasm.Void).I32(0).BrTable(strings.Fields(strings.Repeat("b ", n+1))...).End()
		})
	}
	export := func(n int) func() []byte {
		return withMain(func(m *wasmasm.Module, main *wasmasm.Func) { m.ExportFunc(strings.Repeat("x", n), main) })
	}
	// Each load is preceded by code that charges its gas, which is many times longer than the six
	// bytes of the load.
	loads := func(functions, each int) func() []byte {
		return withMain(func(m *wasmasm.Module, _ *wasmasm.Func) {
			for range functions {
				f := m.Func(nil, nil)
				for range each {
					f.I32(0).Memory(wasmasm.I32Load, 2, 0).Op(wasmasm.Drop)
				}
			}
		})
	}
	return []Bad{
		runs("the longest body", nops(mostBody)),
		refused("a body too long", primitives.PrepareFunctionBodyTooLarge, nops(mostBody+1)),
		refused("4 MiB of blocks in a function", primitives.PrepareFunctionBodyTooLarge, nested(1, 1_398_000)),
		refused("4 MiB of blocks", primitives.PrepareTooManyBlocksPerFunction, nested(21, 65_000)),
		runs("the most targets of a table", targets(mostTargets)),
		invalid("a target too many", targets(mostTargets+1)),
		runs("the longest name", export(mostName-1)),
		refused("a name too long with its prefix", primitives.PrepareSerialization, export(mostName)),
		invalid("a name too long", export(mostName+1)),
		refused("too large once it counts gas", primitives.PrepareInstrumentedCodeTooLarge, loads(21, 32_000)),
		runs("4 MiB of data", withMain(func(m *wasmasm.Module, _ *wasmasm.Func) { m.Data(new(wasmasm.Code).I32(0), make([]byte, 4_190_000)) })),
		runs("4 MiB that are custom", func() []byte {
			return wasmasm.AppendSection(withMain(func(*wasmasm.Module, *wasmasm.Func) {})(), 0,
				wasmasm.AppendName(nil, strings.Repeat("x", 99_999)))
		}),
	}
}
