package check

// Module is the content of a valid module, with nearcore's verdicts. Its slices alias the code.
type Module struct {
	Code      []byte // the contract's code as deployed
	Types     []FuncType
	Funcs     []uint32 // for each function, the index of its type in Types; imported functions first
	Imports   []Import // functions of module env; there are no other imports
	Tables    []Table
	Globals   []Global
	Exports   []Export
	Start     uint32
	HasStart  bool
	Elements  []byte // content of the element section
	Segments  int    // number of element segments
	DataCount int    // number that the data count section states; -1: no such section
	Datas     int    // number of data segments
	Data      []byte // content of the data section
	Bodies    int    // number of bodies read so far
	Locals    uint64 // total number of locals of all functions, without parameters

	// CompileFails: the two locals that nearcore adds to a function exceed its compiler's limit. A
	// call of such a module fails with a compilation error and burns no gas.
	CompileFails bool
	// LoadFails: an instance is too large for nearcore's instance pool. A call fails with a loading
	// error.
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
	Min, Max uint32 // initial and maximum number of elements
	Bounded  bool   // true: the table has the maximum size Max
}

// Global is a global of the module.
type Global struct {
	Value   []byte // initial value: a constant instruction and an end
	Type    ValType
	Mutable bool
}

// Export is an export of the module.
type Export struct {
	At, N uint32 // position and length of the name in Module.Code
	Index uint32
	Kind  byte
}

// NameOf returns the name of an export.
func (m *Module) NameOf(e Export) []byte { return m.Code[e.At : e.At+e.N] }

// Body is the analysis of a valid function. A Body is valid until the function each returns (see
// Run).
type Body struct {
	Index  uint32 // index of the function
	Type   FuncType
	Code   []byte // body from the declarations of locals to the last opcode end
	First  uint32 // offset in Code of the first instruction
	Groups []Group
	Locals int     // number of locals, including the parameters
	Points []Point // positions where gas is charged, in order
	// Frame is the metered stack, in bytes, that a call takes for parameters and locals. Operands
	// is the maximum number of bytes that the operands of the call take at a time.
	Frame, Operands uint64

	// Accesses is the number of instructions that name locals, Floats the number of instructions
	// that compute floats. Package prep uses Accesses and Floats; verdicts do not depend on these
	// numbers.
	Accesses, Floats uint64
}

// Group is a sequence of locals of one type.
type Group struct {
	End  uint32 // index of the first local after the group
	N    uint32
	Type ValType
}

// Point is a position at which gas is charged, before the instruction at Off. The charge is for
// Count instructions or, if Bulk is set, depends on the count on the operand stack.
type Point struct {
	Off, Count uint32
	Bulk       bool
}

// Local returns the type of local i.
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
