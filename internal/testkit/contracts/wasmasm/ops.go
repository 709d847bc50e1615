package wasmasm

// ValType is the type of a value.
type ValType byte

// The value types of protocol 86, and ExternRef and V128, which the protocol refuses.
const (
	I32       ValType = 0x7f
	I64       ValType = 0x7e
	F32       ValType = 0x7d
	F64       ValType = 0x7c
	V128      ValType = 0x7b
	FuncRef   ValType = 0x70
	ExternRef ValType = 0x6f
)

// Void is the type of a block without a result.
const Void = 0x40

// Instructions of one byte, without operands. The order is that of the binary format.
const (
	Unreachable = 0x00
	Nop         = 0x01
	Return      = 0x0f
	Drop        = 0x1a
	Select      = 0x1b
	I32Eqz      = 0x45
	I32Eq       = 0x46
	I32LtU      = 0x49
	I64Eqz      = 0x50
	I64LtU      = 0x54
	I64GtS      = 0x55
	I32Add      = 0x6a
	I32Sub      = 0x6b
	I32Mul      = 0x6c
	I32DivS     = 0x6d
	I32DivU     = 0x6e
	I32RemS     = 0x6f
	I32Shl      = 0x74
	I64Add      = 0x7c
	I64Sub      = 0x7d
	I64Mul      = 0x7e
	I64DivS     = 0x7f
	F32Sqrt     = 0x91
	F64Sqrt     = 0x9f
	I32WrapI64  = 0xa7
	I32TruncF64 = 0xaa // i32.trunc_f64_s
	I64ExtendI  = 0xac // i64.extend_i32_s
	I64ExtendU  = 0xad // i64.extend_i32_u
	I32Bits     = 0xbc // i32.reinterpret_f32
	I64Bits     = 0xbd // i64.reinterpret_f64
	I32Extend8  = 0xc0
)

// Loads and stores, each with an alignment (log2) and an offset.
const (
	I32Load   = 0x28
	I64Load   = 0x29
	I32Load8U = 0x2d
	I32Store  = 0x36
	I64Store  = 0x37
	I32Store8 = 0x3a
)

// Instructions with the prefix 0xfc.
const (
	I32TruncSatF64 = 2
	MemoryInit     = 8
	DataDrop       = 9
	MemoryCopy     = 10
	MemoryFill     = 11
	TableInit      = 12
	ElemDrop       = 13
	TableCopy      = 14
	TableGrow      = 15
	TableSize      = 16
	TableFill      = 17
)
