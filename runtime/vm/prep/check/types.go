package check

// ValType is a value type in its wasm encoding. Contracts have only these types.
type ValType byte

const (
	I32     ValType = 0x7f
	I64     ValType = 0x7e
	F32     ValType = 0x7d
	F64     ValType = 0x7c
	FuncRef ValType = 0x70

	None ValType = 0x40 // no value; as the type of a block or of a result

	none           = None
	bottom ValType = 0 // any type: an operand in unreachable code
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

// size returns the number of bytes that finite-wasm counts for an operand or a local of this type.
func (t ValType) size() byte {
	if t == I32 || t == F32 {
		return 4
	}
	return 8
}

// FuncType is a function type. The multi-value feature is disabled, so there is at most one result.
type FuncType struct {
	Params []ValType
	Result ValType // None: no result
}

// plain returns whether a function of this type can be a method or the start function.
func (t FuncType) plain() bool { return len(t.Params) == 0 && t.Result == none }

// valType reads a value type. It returns bottom for a wasm type that contracts may not use. The
// caller decides whether that type is an error, after the caller has read the rest of the item.
func (r *reader) valType() ValType {
	switch b := r.peek(); b {
	case 0x7f, 0x7e, 0x7d, 0x7c:
		r.pos++
		return ValType(b)
	case 0x7b: // v128, which contracts may not use
		r.pos++
		return bottom
	case 0x63: // ref null: funcref if its heap type is func
		r.pos++
		return r.heapType()
	case 0x64: // a reference that must not be null
		r.pos++
		r.heapType()
		return bottom
	}
	return r.heapType()
}

// heapType reads the heap type of a reference. It returns FuncRef for func and bottom for all other
// types.
func (r *reader) heapType() ValType {
	at := r.pos
	if n := r.signed(33); n >= 0 { // the index of a type, not an abstract heap type
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
	if r.peek() == 0x65 { // the prefix of a shared heap type
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

// value reads a value type that contracts may use.
func (r *reader) value() ValType {
	t := r.valType()
	if t == bottom {
		r.fail("type is not enabled")
	}
	return t
}

// refType reads a reference type that contracts may use: funcref.
func (r *reader) refType() {
	switch b := r.peek(); b {
	case 0x7f, 0x7e, 0x7d, 0x7c:
		r.fail("not a reference type")
	default:
		r.value()
	}
}
