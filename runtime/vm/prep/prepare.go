package prep

import (
	"github.com/troupe-chain/troupe/runtime/parameters"
	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// Names that an instrumented module exports. The module's own are behind MethodPrefix, so none can
// clash.
const (
	GlobalMemory = "memory"
	GlobalGas    = "remaining_gas"   // i64, 0 at first: the engine sets it before it runs anything
	GlobalStack  = "remaining_stack" // i64
	FuncStart    = "start"           // the start function, if the module has one; not run by instantiation
	MethodPrefix = "\x00"
	// TableTrace, of a traced module only: a table with room for one function, which the engine
	// sets. It is called with the index of each function that is entered, and with its complement
	// (^index) when that is left but by a trap.
	TableTrace = "trace"
	// GlobalAgain, of modules alone whose instances can be set back to what they were at first: an
	// i64, the first byte of memory that data covers and, shifted by 32, the end of it. Behind it
	// with a digit each are the module's own globals that can change.
	GlobalAgain = "again"
)

// Version names what Prepare writes: a compiled module is good for one version only.
const Version = "16"

// ValType and Import are those of package check.
type (
	ValType = check.ValType
	Import  = check.Import
)

// Module is a prepared module.
type Module struct {
	Code    []byte          // instrumented wasm; nil if CompileFails
	Imports []Import        // in the order of the import section
	Methods map[string]bool // exported functions, without MethodPrefix: whether without parameters and results
	// HasStart: FuncStart must run before the method.
	HasStart bool
	// CompileFails: nearcore's two locals more are too many for its compiler. Such a module fails
	// with a compilation error, without gas.
	CompileFails bool
	// LoadFails: what an instance holds is too much for nearcore's pool: a loading error.
	LoadFails bool
	// Size is that of nearcore's instrumented module, in bytes.
	Size int
}

// Prepare checks and instruments a module. Its error is a *check.Error.
func Prepare(code []byte, w *parameters.Wasm) (*Module, error) { return newEmitter(w).prepare(code, w) }

// PrepareTraced is Prepare of a module that tells which functions it runs (TableTrace). It costs
// the same gas.
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
		LoadFails: m.LoadFails, Size: m.Size}
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
