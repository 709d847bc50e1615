package compilebombs

import "github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"

// sink uses a value: the compiler does not compute unused values.
func (b *body) sink(t wasmasm.ValType) {
	switch t {
	case wasmasm.I32:
		b.f.Op(wasmasm.I64ExtendU)
	case wasmasm.F32:
		b.f.Op(wasmasm.I32Bits, wasmasm.I64ExtendU)
	case wasmasm.F64:
		b.f.Op(wasmasm.I64Bits)
	}
	b.f.GlobalSet(1)
}

// live pushes the n-th of the values that stay on the operand stack.
func (b *body) live(n int) {
	if b.m.s.Live4 {
		b.f.MemorySize()
	} else {
		b.f.GlobalGet(uint32(n & 3))
	}
}

func (b *body) add() byte {
	if b.m.s.Live4 {
		return wasmasm.I32Add
	}
	return wasmasm.I64Add
}

// args pushes the arguments of a call of the module's functions. result consumes the result.
func (b *body) args(n int) {
	for i := range b.params {
		if n == 0 {
			b.f.I64(0)
		} else {
			b.get(n + i)
		}
	}
}

func (b *body) result() {
	if b.m.s.Result {
		b.f.Op(wasmasm.Drop)
	}
}

// passive returns the index of the passive data segment, which is the last one.
func (m *module) passive() int {
	if m.s.Bulk > 0 {
		return m.s.Datas + 1
	}
	return m.s.Datas
}
