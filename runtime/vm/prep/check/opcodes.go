package check

// Opcodes to which this package refers by name. All other numeric instructions are only in the
// table numerics.
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opFirstAccess  = 0x28 // i32.load
	opLastAccess   = 0x3e // i64.store32
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opFirstNumeric = 0x45 // i32.eqz
	opLastNumeric  = 0xc4 // i64.extend32_s
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opPrefix       = 0xfc

	// Numbers that follow opPrefix and select its instructions.
	opTruncSatLast = 0x07
	opMemoryInit   = 0x08
	opDataDrop     = 0x09
	opMemoryCopy   = 0x0a
	opMemoryFill   = 0x0b
	opTableInit    = 0x0c
	opElemDrop     = 0x0d
	opTableCopy    = 0x0e
	opTableGrow    = 0x0f
	opTableSize    = 0x10
	opTableFill    = 0x11

	typeFunction = 0x60
)

// effect is the effect of a numeric instruction on finite-wasm's operand stack. This effect can
// differ from the effect that the instruction's type implies: an instruction that keeps the type of
// its operand has no effect. The difference is visible when the analysis has lost track of the
// stack.
type effect byte

const (
	effectNone     effect = iota // unary operation
	effectPop                    // binary operation
	effectReplace                // test or conversion: pops an operand, pushes the result
	effectReplace2               // comparison: pops two operands, pushes the result
)

// numeric is an instruction that takes one or two operands of type in and returns a value of type
// out.
type numeric struct {
	in, out ValType
	two     bool
	trap    bool
	float   bool // the result is a computed float, so a NaN must be made canonical
	effect  effect
}

// numerics are the numeric instructions by opcode, from opFirstNumeric on.
var numerics = func() (t [256]numeric) {
	rows := func(first, last int, n numeric) {
		for op := first; op <= last; op++ {
			t[op] = n
		}
	}
	unary := func(first, last int, v ValType) { rows(first, last, numeric{in: v, out: v}) }
	binary := func(first, last int, v ValType) {
		rows(first, last, numeric{in: v, out: v, two: true, effect: effectPop})
	}
	compare := func(first, last int, v ValType) {
		rows(first, last, numeric{in: v, out: I32, two: true, effect: effectReplace2})
	}
	convert := func(first, last int, from, to ValType) {
		rows(first, last, numeric{in: from, out: to, effect: effectReplace})
	}
	traps := func(first, last int) {
		for op := first; op <= last; op++ {
			t[op].trap = true
		}
	}
	convert(0x45, 0x45, I32, I32) // i32.eqz
	compare(0x46, 0x4f, I32)
	convert(0x50, 0x50, I64, I32) // i64.eqz
	compare(0x51, 0x5a, I64)
	compare(0x5b, 0x60, F32)
	compare(0x61, 0x66, F64)
	unary(0x67, 0x69, I32)
	binary(0x6a, 0x78, I32)
	unary(0x79, 0x7b, I64)
	binary(0x7c, 0x8a, I64)
	unary(0x8b, 0x91, F32)
	binary(0x92, 0x98, F32)
	unary(0x99, 0x9f, F64)
	binary(0xa0, 0xa6, F64)
	convert(0xa7, 0xa7, I64, I32)
	convert(0xa8, 0xa9, F32, I32)
	convert(0xaa, 0xab, F64, I32)
	convert(0xac, 0xad, I32, I64)
	convert(0xae, 0xaf, F32, I64)
	convert(0xb0, 0xb1, F64, I64)
	convert(0xb2, 0xb3, I32, F32)
	convert(0xb4, 0xb5, I64, F32)
	convert(0xb6, 0xb6, F64, F32)
	convert(0xb7, 0xb8, I32, F64)
	convert(0xb9, 0xba, I64, F64)
	convert(0xbb, 0xbb, F32, F64)
	convert(0xbc, 0xbc, F32, I32)
	convert(0xbd, 0xbd, F64, I64)
	convert(0xbe, 0xbe, I32, F32)
	convert(0xbf, 0xbf, I64, F64)
	convert(0xc0, 0xc1, I32, I32)
	convert(0xc2, 0xc4, I64, I64)
	// All float operations except neg, abs and copysign.
	for _, r := range [][2]int{{0x8d, 0x97}, {0x9b, 0xa5}, {0xb6, 0xb6}, {0xbb, 0xbb}} {
		for op := r[0]; op <= r[1]; op++ {
			t[op].float = true
		}
	}
	traps(0x6d, 0x70) // division and remainder of i32
	traps(0x7f, 0x82) // division and remainder of i64
	traps(0xa8, 0xab) // truncations of f32 and f64 to i32
	traps(0xae, 0xb1)
	return t
}()

// truncSats are the saturating truncations, by the number after opPrefix: operand and result type.
var truncSats = [...][2]ValType{{F32, I32}, {F32, I32}, {F64, I32}, {F64, I32}, {F32, I64}, {F32, I64}, {F64, I64}, {F64, I64}}

// access is a load or store.
type access struct {
	typ   ValType
	align uint32 // maximum alignment, as the exponent of a power of two
	store bool
}

// accesses are the loads and stores by opcode, from opFirstAccess on.
var accesses = [...]access{
	{I32, 2, false}, {I64, 3, false}, {F32, 2, false}, {F64, 3, false},
	{I32, 0, false}, {I32, 0, false}, {I32, 1, false}, {I32, 1, false},
	{I64, 0, false}, {I64, 0, false}, {I64, 1, false}, {I64, 1, false}, {I64, 2, false}, {I64, 2, false},
	{I32, 2, true}, {I64, 3, true}, {F32, 2, true}, {F64, 3, true},
	{I32, 0, true}, {I32, 1, true}, {I64, 0, true}, {I64, 1, true}, {I64, 2, true},
}

// Numeric returns the operand type of a numeric instruction, its result type, whether it has two
// operands, and whether its result is a computed float. In a computed float, a NaN must be made
// canonical.
func Numeric(op byte) (in, out ValType, two, float bool) {
	n := &numerics[op]
	return n.in, n.out, n.two, n.float
}

// Access returns the type of a load or store, and whether it is a store.
func Access(op byte) (t ValType, store bool) {
	a := &accesses[op-opFirstAccess]
	return a.typ, a.store
}

// TruncSat returns the result type of a saturating truncation, by the number after its prefix.
func TruncSat(op uint32) ValType { return truncSats[op][1] }
