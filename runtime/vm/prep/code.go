package prep

import (
	"encoding/binary"

	"github.com/troupe-chain/troupe/runtime/vm/prep/check"
)

// Value types, as in package check.
const (
	I32     = check.I32
	I64     = check.I64
	F32     = check.F32
	F64     = check.F64
	FuncRef = check.FuncRef
	none    = check.None
)

// Opcodes to which this package refers by name.
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
	opFirstAccess  = 0x28
	opI32Load8     = 0x2d // i32.load8_u
	opI32Load16    = 0x2f // i32.load16_u
	opLastAccess   = 0x3e
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opFirstNumeric = 0x45
	opI32Eqz       = 0x45
	opI32GtU       = 0x4b
	opI32LeU       = 0x4d
	opI64Eqz       = 0x50
	opI64LtU       = 0x54
	opI64GtU       = 0x56
	opF32Eq        = 0x5b
	opF64Eq        = 0x61
	opI32Add       = 0x6a
	opI32Sub       = 0x6b
	opI32Mul       = 0x6c
	opI32DivS      = 0x6d
	opI32DivU      = 0x6e
	opI32RemS      = 0x6f
	opI32RemU      = 0x70
	opI32Or        = 0x72
	opI32Shl       = 0x74
	opI32ShrU      = 0x76
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64Mul       = 0x7e
	opI64DivS      = 0x7f
	opI64DivU      = 0x80
	opI64RemS      = 0x81
	opI64RemU      = 0x82
	opI64And       = 0x83
	opI64Or        = 0x84
	opI64ShrS      = 0x87
	opF32Abs       = 0x8b
	opF32Neg       = 0x8c
	opF32CopySign  = 0x98
	opF64Abs       = 0x99
	opF64Neg       = 0x9a
	opF64CopySign  = 0xa6
	opI32Wrap      = 0xa7 // i32.wrap_i64
	opI64Extend    = 0xad // i64.extend_i32_u
	opI32OfF32     = 0xbc // i32.reinterpret_f32
	opI64OfF64     = 0xbd // i64.reinterpret_f64
	opLastNumeric  = 0xc4
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opPrefix       = 0xfc
	typeFunction   = 0x60

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
)

// The kinds of imports and exports.
const (
	kindFunc = iota
	kindTable
	kindMemory
	kindGlobal
)

// Ids of the sections of a module that the function assemble writes.
const (
	sectionType      = 1
	sectionImport    = 2
	sectionFunction  = 3
	sectionTable     = 4
	sectionMemory    = 5
	sectionGlobal    = 6
	sectionExport    = 7
	sectionElement   = 9
	sectionCode      = 10
	sectionData      = 11
	sectionDataCount = 12
)

// code reads a body or section that package check has validated, so it does not check for errors.
type code struct {
	b   []byte
	pos int
}

func (c *code) u8() byte {
	c.pos++
	return c.b[c.pos-1]
}

func (c *code) u32() uint32 {
	if v := c.b[c.pos]; v < 0x80 {
		c.pos++
		return uint32(v)
	}
	v, n := binary.Uvarint(c.b[c.pos:])
	c.pos += n
	return uint32(v)
}

// signed reads a signed LEB128 of 32 bits.
func (c *code) signed() int32 {
	v := int32(0)
	for shift := 0; ; shift += 7 {
		b := c.u8()
		v |= int32(b&0x7f) << shift
		if b < 0x80 {
			if shift < 25 {
				v = v << (25 - shift) >> (25 - shift)
			}
			return v
		}
	}
}

func (c *code) skipLeb() {
	for c.u8() >= 0x80 {
	}
}

// value reads a value type. A reference type may have a longer second encoding.
func (c *code) value() check.ValType {
	t := c.u8()
	if t == 0x63 {
		t = c.u8()
	}
	return check.ValType(t)
}

// instr is an instruction at the offsets from at to end. a is its first immediate, b its second,
// typ its type.
type instr struct {
	at, end int
	a, b    uint32
	op      byte
	typ     check.ValType
}

// next reads an instruction. For br_table, a is the last target. For an instruction with opPrefix,
// a is the number after the prefix.
func (c *code) next(in *instr) {
	in.at = c.pos
	in.op = c.u8()
	switch op := in.op; {
	case op >= opFirstNumeric && op <= opLastNumeric:
	case op >= opLocalGet && op <= opTableSet, op == opBr, op == opBrIf, op == opCall, op == opRefFunc:
		in.a = c.u32()
	case op >= opFirstAccess && op <= opLastAccess:
		c.skipLeb()
		c.skipLeb()
	default:
		c.other(in)
	}
	in.end = c.pos
}

func (c *code) other(in *instr) {
	switch in.op {
	case opBlock, opLoop, opIf:
		in.typ = c.value()
	case opBrTable:
		for n := c.u32(); n > 0; n-- {
			c.skipLeb()
		}
		in.a = c.u32()
	case opCallIndirect:
		in.a, in.b = c.u32(), c.u32()
	case opSelectTyped:
		c.u32()
		in.typ = c.value()
	case opMemorySize, opMemoryGrow, opRefNull:
		c.pos++
	case opI32Const, opI64Const:
		c.skipLeb()
	case opF32Const:
		c.pos += 4
	case opF64Const:
		c.pos += 8
	case opPrefix:
		in.a = c.u32()
		switch in.a {
		case opMemoryInit, opMemoryCopy, opTableInit, opTableCopy:
			c.skipLeb()
			c.skipLeb()
		case opDataDrop, opMemoryFill, opElemDrop, opTableGrow, opTableSize, opTableFill:
			c.skipLeb()
		}
	}
}

// appendSigned appends the shortest signed LEB128.
func appendSigned(b []byte, v int64) []byte {
	for {
		c := byte(v) & 0x7f
		if v >>= 7; v == 0 && c < 0x40 || v == -1 && c >= 0x40 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}
