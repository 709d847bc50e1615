package check

// Module is what a valid module has, and what nearcore says of it. Slices alias the code.
type Module struct {
	Code      []byte // as deployed
	Types     []FuncType
	Funcs     []uint32 // types of all functions, imported ones first
	Imports   []Import // functions of module env: there are no others
	Tables    []Table
	Globals   []Global
	Exports   []Export
	Start     uint32
	HasStart  bool
	Elements  []byte // content of the section
	Segments  int    // of elements
	DataCount int    // -1: no such section
	Datas     int    // segments
	Data      []byte // content of the section
	Bodies    int    // read so far, in the end all

	// CompileFails: nearcore's two locals more are too many for its compiler. Such a module fails
	// with a compilation error, without gas.
	CompileFails bool
	// LoadFails: what an instance holds is too much for nearcore's pool: a loading error.
	LoadFails bool
	// Size is that of nearcore's instrumented module, in bytes.
	Size int
}

// Import is a host function that a module asks for, of module env.
type Import struct {
	Name            string
	Params, Results []ValType
}

// Table is a table of functions.
type Table struct {
	Min, Max uint32
	Bounded  bool // by Max
}

// Global is a global of the module.
type Global struct {
	Value   []byte // its initial value: a constant and an end
	Type    ValType
	Mutable bool
}

// Export is what the module gives.
type Export struct {
	At, N uint32 // of its name in the code
	Index uint32
	Kind  byte
}

// NameOf returns the name of an export.
func (m *Module) NameOf(e Export) []byte { return m.Code[e.At : e.At+e.N] }

// Body is what is known of a function that is valid. It is good until whoever was given it returns.
type Body struct {
	Index  uint32 // of the function
	Type   FuncType
	Code   []byte // from the locals to the last end
	First  uint32 // where the first instruction is
	Groups []Group
	Locals int     // with the parameters
	Points []Point // where gas is charged, in order
	// Frame is what a call takes of the metered stack for parameters and locals, Operands what the
	// instructions take at the most, in bytes.
	Frame, Operands uint64

	// Of no verdict, but for whoever translates it: how many instructions name locals, and how many
	// compute floats.
	Accesses, Floats uint64
}

// Group is a run of locals of a type.
type Group struct {
	End  uint32 // index of the first local behind it
	N    uint32
	Type ValType
}

// Point is where gas is charged: before the instruction at Off, for Count instructions, or if Bulk
// by the count on the stack.
type Point struct {
	Off, Count uint32
	Bulk       bool
}

// Local returns the type of a local.
func (b *Body) Local(i uint32) ValType {
	if int(i) < len(b.Type.Params) {
		return b.Type.Params[i]
	}
	low, high := 0, len(b.Groups)-1
	for low < high {
		if mid := (low + high) / 2; b.Groups[mid].End > i {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return b.Groups[low].Type
}
