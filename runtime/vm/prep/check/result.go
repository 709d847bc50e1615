package check

// Module is the content of a valid module, with nearcore's verdicts. Slices alias the code.
type Module struct {
	Code      []byte // as deployed
	Types     []FuncType
	Funcs     []uint32 // type indexes of all functions, imported ones first
	Imports   []Import // functions of module env; there are no other imports
	Tables    []Table
	Globals   []Global
	Exports   []Export
	Start     uint32
	HasStart  bool
	Elements  []byte // content of the section
	Segments  int    // number of element segments
	DataCount int    // -1: no such section
	Datas     int    // number of data segments
	Data      []byte // content of the section
	Bodies    int    // read so far; in the end all
	Locals    uint64 // of all functions, without parameters

	// CompileFails: the two locals that nearcore adds exceed its compiler's limit. Such a module
	// fails with a compilation error and burns no gas.
	CompileFails bool
	// LoadFails: an instance is too large for nearcore's pool, which is a loading error.
	LoadFails bool
	// Size is the size of nearcore's instrumented module, in bytes.
	Size int
}

// Import is an imported host function of module env.
type Import struct {
	Name            string
	Params, Results []ValType
}

// Table is a table of functions.
type Table struct {
	Min, Max uint32
	Bounded  bool // Max is set
}

// Global is a global of the module.
type Global struct {
	Value   []byte // initial value: a constant and an end
	Type    ValType
	Mutable bool
}

// Export is an export of the module.
type Export struct {
	At, N uint32 // position and length of its name in the code
	Index uint32
	Kind  byte
}

// NameOf returns the name of an export.
func (m *Module) NameOf(e Export) []byte { return m.Code[e.At : e.At+e.N] }

// Body is the analysis of a valid function. It is valid until the callback returns.
type Body struct {
	Index  uint32 // of the function
	Type   FuncType
	Code   []byte // from the locals to the last end
	First  uint32 // offset of the first instruction
	Groups []Group
	Locals int     // including the parameters
	Points []Point // where gas is charged, in order
	// Frame is the metered stack that a call takes for parameters and locals, Operands the most
	// that its instructions take, in bytes.
	Frame, Operands uint64

	// Accesses is the number of instructions that name locals, Floats of those that compute floats.
	// Package prep uses them; verdicts do not depend on them.
	Accesses, Floats uint64
}

// Group is a run of locals of one type.
type Group struct {
	End  uint32 // index of the first local after the group
	N    uint32
	Type ValType
}

// Point is a position at which gas is charged: before the instruction at Off, for Count instructions, or,
// if Bulk is set, by the count on the stack.
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
