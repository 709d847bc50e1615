package check

// ValType is a type of values, as wasm encodes it. Contracts have these and no others.
type ValType byte

// The types.
const (
	I32     ValType = 0x7f
	I64     ValType = 0x7e
	F32     ValType = 0x7d
	F64     ValType = 0x7c
	FuncRef ValType = 0x70

	None ValType = 0x40 // in place of a block's type or a function's result: there is none

	none           = None
	bottom ValType = 0 // on the stack of unreachable code: any type
)

// String returns the name in the text format.
func (t ValType) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	case FuncRef:
		return "funcref"
	}
	return "?"
}

// size is what finite-wasm counts for a value on the operand stack or for a local, in bytes.
func (t ValType) size() byte {
	if t == I32 || t == F32 {
		return 4
	}
	return 8
}

// FuncType is the type of a function; multi-value is off, so there is one result or none.
type FuncType struct {
	Params []ValType
	Result ValType // None: there is none
}

// plain tells whether a function of this type can be a method or a start function.
func (t FuncType) plain() bool { return len(t.Params) == 0 && t.Result == none }

// valType reads a type of values. Types that wasm has but contracts may not use come back as
// bottom: whether that matters is for the caller, after it has read what follows.
func (r *reader) valType() ValType {
	switch b := r.peek(); b {
	case 0x7f, 0x7e, 0x7d, 0x7c:
		r.pos++
		return ValType(b)
	case 0x7b: // v128
		r.pos++
		return bottom
	case 0x63: // ref null: of func it is funcref
		r.pos++
		return r.heapType()
	case 0x64: // ref, not null
		r.pos++
		r.heapType()
		return bottom
	}
	return r.heapType()
}

// heapType reads what a reference refers to, and returns FuncRef for func and bottom for all
// others.
func (r *reader) heapType() ValType {
	at := r.pos
	if n := r.signed(33); n >= 0 { // a type's index
		if n >= 1<<20 {
			r.fail("type index too large")
		}
		return bottom
	}
	if r.bad != "" {
		return bottom
	}
	r.pos = at
	t := FuncRef
	if r.peek() == 0x65 { // shared
		r.pos++
		t = bottom
	}
	switch b := r.u8(); {
	case b == 0x70:
		return t
	case b >= 0x68 && b <= 0x75:
		return bottom
	}
	r.fail("no such type")
	return bottom
}

// value reads a type of values that contracts may use.
func (r *reader) value() ValType {
	t := r.valType()
	if t == bottom {
		r.fail("type is not enabled")
	}
	return t
}

// refType reads a type of references that contracts may use: funcref.
func (r *reader) refType() {
	switch b := r.peek(); b {
	case 0x7f, 0x7e, 0x7d, 0x7c:
		r.fail("not a reference type")
	default:
		r.value()
	}
}
