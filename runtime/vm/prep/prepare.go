package prep

import (
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// Names of the exports of an instrumented module. The contract's own exports get MethodPrefix, so
// the names cannot clash.
const (
	GlobalMemory = "memory"
	GlobalGas    = "remaining_gas"   // i64, initially 0; the engine sets it before each run
	GlobalStack  = "remaining_stack" // i64; the engine reads it after a trap
	// the contract's start function, if it has one; instantiation does not run that function
	FuncStart    = "start"
	MethodPrefix = "\x00"
	// TableTrace is an export of traced modules: a table with one function, which the engine sets.
	// The module calls that function with the index of each function that it enters, and with the
	// complement (^index) when the function returns. A function that traps does not report its end.
	TableTrace = "trace"
	// GlobalAgain is an export of modules whose instances can be reset. GlobalAgain is an i64: the
	// low 32 bits are the first memory byte that data covers, the high 32 bits the end of the data.
	// GlobalAgain followed by a digit names each of the contract's own mutable globals.
	GlobalAgain = "again"
)

// Version identifies the form of Prepare's output. Compiled code of other versions cannot be used.
const Version = "16"

// ValType and Import are the types of package check.
type (
	ValType = check.ValType
	Import  = check.Import
)

// Module is a prepared module.
type Module struct {
	Code    []byte          // instrumented wasm; nil if CompileFails
	Imports []Import        // imported host functions, in the order of the import section
	Methods map[string]bool // names of exported functions, without MethodPrefix; true: no parameters and no results
	// HasStart is whether FuncStart must run before the method.
	HasStart bool
	// CompileFails: the two locals that nearcore adds to a function exceed its compiler's limit. A
	// call of such a module fails with a compilation error and burns no gas.
	CompileFails bool
	// LoadFails: an instance is too large for nearcore's instance pool. A call fails with a loading
	// error.
	LoadFails bool
	// Size is the size of nearcore's instrumented module, in bytes.
	Size int
	// Locals is the total number of locals of all functions, without parameters.
	Locals uint64
}

// LocalsLimit returns the maximum number of locals of a module with size bytes of code. LocalsLimit
// is the only rule of Prepare that depends on MinContractSizePerLocal.
func LocalsLimit(size int, limits *parameters.Limits) uint64 { return check.LocalsLimit(size, limits) }

// Prepare checks and instruments a module. The error of Prepare is a *check.Error.
func Prepare(code []byte, w *parameters.Wasm) (*Module, error) { return newEmitter(w).prepare(code, w) }

// PrepareTraced does the same as Prepare for a module that reports the functions that it enters and
// leaves (TableTrace). The module burns the gas that the module of Prepare burns.
func PrepareTraced(code []byte, w *parameters.Wasm) (*Module, error) {
	e := newEmitter(w)
	e.trace = true
	return e.prepare(code, w)
}

func (e *emitter) prepare(code []byte, w *parameters.Wasm) (*Module, error) {
	m, err := check.Run(code, w, e.body)
	if err != nil {
		return nil, err
	}
	out := &Module{Imports: m.Imports, Methods: methods(m), HasStart: m.HasStart, CompileFails: m.CompileFails,
		LoadFails: m.LoadFails, Size: m.Size, Locals: m.Locals}
	if !out.CompileFails {
		out.Code = e.assemble(m)
	}
	return out, nil
}

func methods(m *check.Module) map[string]bool {
	n := 0
	for _, e := range m.Exports {
		if e.Kind == kindFunc {
			n++
		}
	}
	methods := make(map[string]bool, n)
	for _, e := range m.Exports {
		if e.Kind == kindFunc {
			t := m.Types[m.Funcs[e.Index]]
			methods[string(m.NameOf(e))] = len(t.Params) == 0 && t.Result == none
		}
	}
	return methods
}
