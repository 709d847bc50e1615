package prep

import (
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/runtime/config"
)

// Names that an instrumented module exports. The module's own are behind MethodPrefix, so none can clash.
const (
	GlobalMemory = "memory"
	GlobalGas    = "remaining_gas"   // i64, 0 at first: the engine sets it before it runs anything
	GlobalStack  = "remaining_stack" // i64
	FuncStart    = "start"           // the start function, if the module has one; not run by instantiation
	MethodPrefix = "\x00"
	// TableTrace, of a traced module only: a table with room for one function, which the engine sets. It is called with the
	// index of each function that is entered, and with its complement (^index) when that is left but by a trap.
	TableTrace = "trace"
)

// Version names what Prepare writes: a compiled module is good for one version only.
const Version = "6"

// Import is a host function that a module asks for, of module env.
type Import struct {
	Name            string
	Params, Results []ValType
}

// Module is a prepared module.
type Module struct {
	Code    []byte          // instrumented wasm; nil if CompileFails
	Imports []Import        // in the order of the import section
	Methods map[string]bool // exported functions, without MethodPrefix: whether without parameters and results
	// HasStart: FuncStart must run before the method.
	HasStart bool
	// CompileFails: nearcore's two locals more are too many for its compiler. Such a module fails with a compilation
	// error, without gas.
	CompileFails bool
	// LoadFails: what an instance holds is too much for nearcore's pool: a loading error.
	LoadFails bool
	// Size is that of nearcore's instrumented module, in bytes.
	Size int
}

// Prepare checks and instruments a module. Its error is an *Error.
func Prepare(code []byte, w *config.Wasm) (*Module, error) { return prepare(code, w, false) }

// PrepareTraced is Prepare of a module that tells which functions it runs (TableTrace). It costs the same gas.
func PrepareTraced(code []byte, w *config.Wasm) (*Module, error) { return prepare(code, w, true) }

func prepare(code []byte, w *config.Wasm, trace bool) (*Module, error) {
	m := newModule(code, w.Limits)
	m.emit = newEmitter(w)
	m.emit.trace = trace
	m.each = m.emit.body
	if err := m.run(); err != nil {
		return nil, err
	}
	if m.late != nil {
		return nil, m.late
	}
	size := m.nearSize()
	if uint64(size) > w.Limits.MaxInstrumentedCodeSize {
		return nil, &Error{Kind: primitives.PrepareInstrumentedCodeTooLarge, Reason: "instrumented code too large"}
	}
	out := &Module{Imports: m.imports, Methods: m.methods(), HasStart: m.hasStart, CompileFails: m.emit.compileFails,
		LoadFails: m.loadFails(), Size: size}
	if !out.CompileFails {
		out.Code = m.assemble()
	}
	return out, nil
}

// Validate checks that a module is valid with the features that contracts have, and nothing of nearcore's limits.
func Validate(code []byte) error {
	if err := newModule(code, unlimited()).run(); err != nil {
		return err
	}
	return nil
}

func (m *module) methods() map[string]bool {
	n := 0
	for _, e := range m.exports {
		if e.kind == kindFunc {
			n++
		}
	}
	methods := make(map[string]bool, n)
	for _, e := range m.exports {
		if e.kind == kindFunc {
			methods[string(m.nameOf(e))] = m.types[m.funcs[e.index]].plain()
		}
	}
	return methods
}
