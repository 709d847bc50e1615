package prep

import (
	"encoding/binary"
	"slices"

	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// The engine's compiler translates some instructions to calls of its library. These take twenty to a
// hundred times as long as their gas pays for. The emitter replaces them by equivalent code:
//
//	ref.func     a lookup in an added table with every function that is referenced; the engine
//	             makes each entry at its first use, once per instance
//	table.init   a loop over the same table; an added memory lists the functions of each segment
//	table.copy   a loop
//	*.drop       runs at most once per segment: a bit in an added global means that the segment
//	             was dropped
//
// An out-of-bounds access still traps, by a read of the entry 2^32-1, which no table has.

// references holds what the emitter adds for the references in a module.
type references struct {
	index    map[uint32]int // index of a function -> its entry in the added table, where entry 0 is null
	funcs    []uint32       // functions in the added table, from entry 1 on
	dropped  map[uint64]int // key of a segment -> number of its bit in the added globals
	helpers  []helper
	numbers  map[helper]int // helper -> its index in helpers
	segments []segment      // element segments; nil: not read yet
	entries  []byte         // contents of the passive segments: indices into the added table, two bytes each
	inits    bool           // the module has a table.init
}

// segment is an element segment: the position of its first entry, and the number of entries. Only
// passive segments have entries when code runs.
type segment struct{ from, n int }

// helper is an added function for table.init (`of` and `from` are equal), table.copy or a
// truncation.
type helper struct {
	copies   bool   // table.copy
	op       byte   // opcode of a truncation; 0: no truncation
	of, from uint32 // indices of the destination and the source table
}

const (
	mostSegments = 100_000   // the engine's maximum number of segments of one kind
	mostEntries  = 1<<16 - 1 // maximum number of entries, because an index has two bytes
	dropElements = 1 << 32   // added to the index of an element segment, as its key in references.dropped
	entryMemory  = 1         // index of the added memory with references.entries; memory 0 is the contract's
	wasmPage     = 64 << 10
)

// roomForReferences returns whether the module with the added items stays within the engine's
// limits.
func (e *emitter) roomForReferences() bool {
	return !e.plain && e.m.Segments < mostSegments && e.m.Datas < mostSegments && len(e.m.Funcs) < mostEntries
}

// entryTable returns the index of the added table of references. The added table follows the
// contract's own tables and TableTrace.
func (e *emitter) entryTable() uint64 {
	n := len(e.m.Tables)
	if e.trace {
		n++
	}
	return uint64(n)
}

// entry returns the entry of a function in the added table. entry adds the entry if the table has
// no entry of the function yet.
func (r *references) entry(function uint32) int {
	if r.index == nil {
		r.index = map[uint32]int{}
	}
	i, ok := r.index[function]
	if !ok {
		r.funcs = append(r.funcs, function)
		i = len(r.funcs)
		r.index[function] = i
	}
	return i
}

// refFunc writes the replacement of ref.func.
func (e *emitter) refFunc(function uint32) {
	e.int32(e.refs.entry(function))
	e.add(opTableGet)
	e.index(e.entryTable())
}

// bit returns an added global and the bit in it. The bit is set when the segment is dropped.
func (e *emitter) bit(name uint64) (global, bit uint64) {
	r := &e.refs
	if r.dropped == nil {
		r.dropped = map[uint64]int{}
	}
	i, ok := r.dropped[name]
	if !ok {
		i = len(r.dropped)
		r.dropped[name] = i
	}
	return uint64(len(e.m.Globals) + 2 + len(placeTypes) + i/64), 1 << (i % 64)
}

// dropGlobals returns the number of globals that the bits need.
func (r *references) dropGlobals() int { return (len(r.dropped) + 63) / 64 }

// isThere writes code that pushes 0 if the segment was dropped, else 1.
func (e *emitter) isThere(name uint64) (global, bit uint64) {
	global, bit = e.bit(name)
	e.add(opGlobalGet)
	e.index(global)
	e.constant(bit)
	e.add(opI64And, opI64Eqz)
	return global, bit
}

// drop writes the replacement of data.drop or elem.drop.
func (e *emitter) drop(op byte, segment uint32) {
	name := uint64(segment)
	if op == opElemDrop {
		name |= dropElements
	}
	global, bit := e.isThere(name)
	e.add(opIf, byte(none), opPrefix, op)
	e.index(uint64(segment))
	e.add(opGlobalGet)
	e.index(global)
	e.constant(bit)
	e.add(opI64Or, opGlobalSet)
	e.index(global)
	e.add(opEnd)
}

// helperFunc returns the function index of a helper. Helpers follow the contract's own functions
// and the added function for env.gas.
func (e *emitter) helperFunc(h helper) uint64 {
	first := len(e.m.Funcs)
	if e.gas.used {
		first++
	}
	i, ok := e.refs.numbers[h]
	if !ok {
		if e.refs.numbers == nil {
			e.refs.numbers = map[helper]int{}
		}
		i = len(e.refs.helpers)
		e.refs.numbers[h] = i
		e.refs.helpers = append(e.refs.helpers, h)
	}
	return uint64(first + i)
}

// tableInit writes the replacement of table.init: the replacement pushes the segment's first entry
// and number of entries after the operands, and calls the helper.
func (e *emitter) tableInit(segment, table uint32) {
	r := &e.refs
	if r.segments == nil {
		e.readSegments()
	}
	r.inits = true
	s := r.segments[segment]
	e.int32(s.from)
	e.int32(s.n)
	e.isThere(dropElements | uint64(segment))
	e.add(opI32Mul, opCall)
	e.index(e.helperFunc(helper{of: table, from: table}))
}

// readSegments reads the element segments.
func (e *emitter) readSegments() {
	r := &e.refs
	r.segments = make([]segment, e.m.Segments)
	c := code{b: e.m.Elements}
	c.u32() // skip the number of segments
	for i := range r.segments {
		s := &r.segments[i]
		flags := c.u32()
		if flags&3 == 2 {
			c.u32() // skip the index of the table
		}
		if flags&1 == 0 {
			c.next(&instr{})
			c.pos++ // end
		}
		if flags&3 != 0 {
			c.value()
		}
		passive := flags&3 == 1
		s.from = len(r.entries) / 2
		for n := c.u32(); n > 0; n-- {
			entry := 0
			if flags&4 == 0 {
				if f := c.u32(); passive {
					entry = r.entry(f)
				}
			} else {
				var in instr
				if c.next(&in); in.op == opRefFunc && passive {
					entry = r.entry(in.a)
				}
				c.pos++ // end
			}
			if passive {
				r.entries = binary.LittleEndian.AppendUint16(r.entries, uint16(entry))
				s.n++
			}
		}
	}
}

// changeReference writes the replacement of an instruction for which isReference returns true. The
// immediates of the instruction begin after its first byte.
func (e *emitter) changeReference(in *instr) {
	c := code{b: e.in.b, pos: in.at + 1}
	if in.op == opRefFunc {
		e.refFunc(in.a)
		return
	}
	switch op := c.u32(); op {
	case opDataDrop, opElemDrop:
		e.drop(byte(op), c.u32())
	case opTableInit:
		segment := c.u32()
		e.tableInit(segment, c.u32())
	case opTableCopy:
		of := c.u32()
		e.add(opCall)
		e.index(e.helperFunc(helper{copies: true, of: of, from: c.u32()}))
	}
}

// isReference returns whether an instruction must be replaced because the engine's compiler would
// call its library for it.
func (e *emitter) isReference(in *instr) bool {
	switch {
	case !e.room:
		return false
	case in.op == opPrefix:
		return in.a == opDataDrop || in.a == opElemDrop || in.a == opTableInit || in.a == opTableCopy
	}
	return in.op == opRefFunc
}

// Locals of a helper: the target entry, the source entry, and the number of entries left. The
// helper of table.init also has the segment's first entry and number of entries. The helper of
// table.copy also has the step.
const (
	helperTo = iota
	helperFrom
	helperLeft
	helperBase
	helperCount
	helperStep = helperBase
)

// helperBody writes a helper's body.
func (e *emitter) helperBody(h helper) {
	if h.op != 0 {
		e.truncBody(h.op)
		return
	}
	at := len(e.code)
	e.add(0, 0, 0, 0, 0)
	if h.copies {
		e.add(1, 1, byte(I32))
	} else {
		e.add(0)
	}
	get := func(local int) { e.add(opLocalGet, byte(local)) }
	set := func(local int) { e.add(opLocalSet, byte(local)) }
	beyond := func(place int, size func()) { // traps if place + left > size
		get(place)
		e.add(opI64Extend)
		get(helperLeft)
		e.add(opI64Extend, opI64Add)
		size()
		e.add(opI64Extend, opI64GtU)
	}
	sizeOf := func(table uint32) func() {
		return func() {
			e.add(opPrefix, opTableSize)
			e.index(uint64(table))
		}
	}
	if beyond(helperTo, sizeOf(h.of)); h.copies {
		beyond(helperFrom, sizeOf(h.from))
	} else {
		beyond(helperFrom, func() { get(helperCount) })
	}
	e.add(opI32Or, opIf, byte(none))
	e.int32(-1)
	e.add(opTableGet)
	e.index(uint64(h.of))
	e.add(opDrop, opEnd)
	step := func(local int, by func()) {
		get(local)
		by()
		e.add(opI32Add)
		set(local)
	}
	constant := func(n int) func() { return func() { e.int32(n) } }
	by := func() { get(helperStep) }
	if h.copies { // copy upwards, unless an upward copy would overwrite source entries before reading them
		e.int32(1)
		e.int32(-1)
		get(helperTo)
		get(helperFrom)
		e.add(opI32LeU, opSelect)
		set(helperStep)
		get(helperTo)
		get(helperFrom)
		e.add(opI32GtU, opIf, byte(none))
		for _, local := range []int{helperTo, helperFrom} {
			step(local, func() { get(helperLeft); e.int32(-1); e.add(opI32Add) })
		}
		e.add(opEnd)
	} else {
		step(helperFrom, func() { get(helperBase) })
		get(helperFrom)
		e.int32(1)
		e.add(opI32Shl)
		set(helperFrom)
	}
	e.add(opBlock, byte(none), opLoop, byte(none))
	get(helperLeft)
	e.add(opI32Eqz, opBrIf, 1)
	get(helperTo)
	get(helperFrom)
	if h.copies {
		e.add(opTableGet)
		e.index(uint64(h.from))
	} else {
		e.add(opI32Load16, 1|0x40, entryMemory, 0, opTableGet)
		e.index(e.entryTable())
	}
	e.add(opTableSet)
	e.index(uint64(h.of))
	if h.copies {
		step(helperTo, by)
		step(helperFrom, by)
	} else {
		step(helperTo, constant(1))
		step(helperFrom, constant(2))
	}
	step(helperLeft, constant(-1))
	e.add(opBr, 0, opEnd, opEnd, opEnd)
	putLength(e.code[at:], len(e.code)-at-5)
}

// helperTypes are the function types of the helpers: table.init, table.copy, truncations.
var helperTypes = []check.FuncType{
	{Params: []check.ValType{I32, I32, I32, I32, I32}, Result: none},
	{Params: []check.ValType{I32, I32, I32}, Result: none},
	{Params: []check.ValType{F32}, Result: I32}, {Params: []check.ValType{F64}, Result: I32},
	{Params: []check.ValType{F32}, Result: I64}, {Params: []check.ValType{F64}, Result: I64},
}

func (h helper) kind() int {
	switch {
	case h.op != 0:
		in, out, _, _ := check.Numeric(h.op)
		return 2 + slices.IndexFunc(helperTypes[2:], func(t check.FuncType) bool { return t.Params[0] == in && t.Result == out })
	case h.copies:
		return 1
	}
	return 0
}

// entrySegment appends the element segment that fills the added table.
func (e *emitter) entrySegment(b []byte) []byte {
	b = binary.AppendUvarint(append(b, 2), e.entryTable())
	b = append(b, opI32Const, 1, opEnd, 0)
	b = binary.AppendUvarint(b, uint64(len(e.refs.funcs)))
	for _, f := range e.refs.funcs {
		b = e.function(b, f)
	}
	return b
}

// entryData appends the data segment of the added memory: the entries of passive element segments.
func (e *emitter) entryData(b []byte) []byte {
	b = append(b, 2, entryMemory, opI32Const, 0, opEnd)
	b = binary.AppendUvarint(b, uint64(len(e.refs.entries)))
	return append(b, e.refs.entries...)
}
