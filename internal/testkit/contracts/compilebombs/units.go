package compilebombs

import (
	"slices"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
)

// body writes the body of one function.
type body struct {
	m              *module
	f              *wasmasm.Func
	turn           int // counter of units; each unit uses it as a constant, so that units differ
	params, locals int
	blocks         int // number of blocks that the function may still open
	depth          int
}

const (
	i32Eqz, i32Clz, i32Popcnt, i32Rotl                      = 0x45, 0x67, 0x69, 0x77
	i64Clz, i64Popcnt, i64DivU, i64RemS, i64Rotl            = 0x79, 0x7b, 0x80, 0x81, 0x89
	f32Neg, f32Add, f32Min, f64Add, f64Mul, f64Min, f64Ceil = 0x8c, 0x92, 0x96, 0xa0, 0xa2, 0xa4, 0x9b
	f64ConvertU64, i64TruncF64U, f32Demote, f64Promote      = 0xba, 0xb1, 0xb6, 0xbb
	f64CopySign, f64Const0                                  = 0xa6, 0x44
	f64Load, f64Store, tableGet, tableSet, refIsNull        = 0x2b, 0x39, 0x25, 0x26, 0xd1
)

// unitNames are the names of the units, by number.
var unitNames = []string{"if", "if-local", "if-else", "if-result", "block", "loop", "loop-set", "br_if-out",
	"br_if-far", "br_table", "br_table-32",
	"br_table-wide", "load", "load-chain", "load-far", "store", "call", "call-args", "call-import", "call_indirect",
	"call-block", "sqrt", "sqrt-chain",
	"f32-chain", "f64-add", "f64-min", "f64-ceil", "f64-convert", "f64-trunc", "f64-sat", "f64-load", "copysign",
	"i64-mul", "i64-div", "i64-rem",
	"i64-rotl", "popcnt", "i64-chain", "local-move", "local-sum", "local-tee", "local-f64", "global", "global-chain", "select", "select-chain",
	"select-f64", "memory.size", "memory.grow", "memory.fill", "memory.copy", "memory.init", "table.get", "table.set",
	"table.grow", "table.fill",
	"ref.func", "const", "const-f64", "nop", "return", "unreachable", "live-swap", "live-add", "dead-br", "params", "many-consts", "compare",
	"if-return", "loop-br", "drops", "wrap", "table.size", "table.copy", "f64-compare", "f32-promote", "local-f64-sum", "data.drop",
	"held-if", "held-value", "held-br_if", "held-br_table", "held-call", "held-call-100", "held-call_indirect",
	"held-table.get", "held-ref", "held-memory.grow",
	"held-memory.copy", "held-trunc", "held-return", "held-f64", "held-arguments", "held-div", "div-chain", "rem-chain",
	"shl-chain", "load-tree",
	"held-many"}

// Units returns the number of kinds of units.
func Units() int { return len(unitNames) }

func (u Unit) String() string { return unitNames[u] }

// unit returns the unit with a name.
func unit(name string) Unit {
	for i, n := range unitNames {
		if n == name {
			return Unit(i)
		}
	}
	panic("compilebombs: there is no unit " + name)
}

func units(names ...string) (list []Unit) {
	for _, n := range names {
		list = append(list, unit(n))
	}
	return list
}

// len returns the number of bytes of the function body so far.
func (b *body) len() int { return b.f.Len() }

// room returns whether n more blocks may be opened.
func (b *body) room(n int) bool {
	if b.blocks < n {
		return false
	}
	b.blocks -= n
	return true
}

// index returns a local near the n-th one, of type t if there is one nearby.
func (b *body) index(n int, t wasmasm.ValType) (uint32, bool) {
	all := b.params + b.locals
	for k := range min(all, 5) {
		i := (n + k) % all
		is := wasmasm.I64
		if i >= b.params {
			is = b.m.local(i - b.params)
		}
		if is == t {
			return uint32(i), true
		}
	}
	return 0, false
}

func (b *body) get(n int) {
	if i, ok := b.index(n, wasmasm.I64); ok {
		b.f.Get(i)
	} else {
		b.f.I64(int64(n % 50))
	}
}

func (b *body) set(n int) {
	if i, ok := b.index(n, wasmasm.I64); ok {
		b.f.Set(i)
	} else {
		b.f.Op(wasmasm.Drop)
	}
}

// write writes the function: operands, blocks, units, and the ends of the blocks.
func (b *body) write() {
	s, f := b.m.s, b.f
	size := 8
	if s.Live4 {
		size = 4
	}
	live := min(s.Live, (maxOperands-600)/size)
	for i := range live {
		if s.Live4 {
			f.MemorySize() // a value that the compiler cannot rematerialize
		} else {
			f.GlobalGet(uint32(i & 3))
		}
	}
	for b.depth < s.Depth && b.room(1) {
		switch s.Nest {
		case 0x03:
			f.Loop("", wasmasm.Void)
		case 0x04:
			f.I32(1).If("", wasmasm.Void)
		default:
			f.Block("", wasmasm.Void)
		}
		b.depth++
	}
	limit := min(s.Bytes, maxBody-live-2*b.depth-1400-3*min(b.params+b.locals, 2_000))
	if slices.Contains(s.Units, unit("br_table-wide")) {
		limit -= 8_000
	}
	calls := 0
	for i := 0; len(s.Units) > 0; i++ {
		before, at := b.blocks, b.len()
		if u := s.Units[i%len(s.Units)]; u != unit("call_indirect") {
			b.unit(u, b.turn+i)
		} else if calls++; calls < 1_000 {
			// The analysis counts the index of each call_indirect as an operand that stays on the
			// stack, so their number is limited.
			b.unit(u, b.turn+i)
		}
		if b.len() > limit || b.len() == at && before == b.blocks && i > 4*len(s.Units) {
			break
		}
	}
	for range b.depth {
		f.End()
	}
	for range live - 1 {
		f.Op(b.add()) // use the operands, because the compiler drops unused values
	}
	if live > 0 {
		if s.Live4 {
			f.Op(wasmasm.I64ExtendU)
		}
		f.GlobalSet(0)
	}
	b.useLocals()
	if s.Result {
		f.I64(1)
	}
}

// useLocals adds up locals, because the compiler does not compute unused values.
func (b *body) useLocals() {
	sum := false
	for i := range min(b.params+b.locals, 2_000) {
		if b.len() > maxBody-100 {
			break
		}
		if k, ok := b.index(i, wasmasm.I64); ok && k == uint32(i) {
			if b.f.Get(k); sum {
				b.f.Op(wasmasm.I64Add)
			}
			sum = true
		}
	}
	if sum {
		b.f.GlobalSet(2)
	}
}

// unit writes the n-th unit, of kind u. A unit that opens blocks is omitted once these are used up.
func (b *body) unit(u Unit, n int) {
	f := b.f
	switch unitNames[u] {
	case "if":
		if b.room(1) {
			f.I32(0).If("", wasmasm.Void).End()
		}
	case "if-local":
		if b.room(1) {
			b.get(n)
			f.Op(wasmasm.I64Eqz).If("", wasmasm.Void)
			f.I64(int64(n & 63))
			b.set(n + 1)
			f.End()
		}
	case "if-else":
		if b.room(1) {
			f.I32(0).If("", wasmasm.Void)
			b.get(n)
			b.set(n + 3)
			f.Else()
			b.get(n + 1)
			b.set(n + 3)
			f.End()
		}
	case "if-result":
		if b.room(1) {
			f.I32(0).If("", byte(wasmasm.I64))
			b.get(n)
			f.Else()
			b.get(n + 1)
			f.End()
			b.sink(wasmasm.I64)
		}
	case "block":
		if b.room(1) {
			f.Block("", wasmasm.Void).End()
		}
	case "loop":
		if b.room(1) {
			f.Loop("", wasmasm.Void).I32(0).Op(0x0d, 0).End()
		}
	case "loop-set":
		if b.room(1) {
			f.Loop("", wasmasm.Void)
			b.get(n)
			f.I64(1).Op(wasmasm.I64Add)
			b.set(n)
			f.I32(0).Op(0x0d, 0).End()
		}
	case "loop-br":
		if b.room(2) {
			f.Block("", wasmasm.Void).Loop("", wasmasm.Void).I32(1).Op(0x0d, 1, 0x0c, 0).End().End()
		}
	case "br_if-out":
		if b.depth > 0 {
			f.I32(0).Op(0x0d)
			f.Op(wasmasm.AppendU32(nil, uint32(b.depth-1))...)
		}
	case "br_if-far":
		if b.depth > 0 {
			f.I32(0).Op(0x0d)
			f.Op(wasmasm.AppendU32(nil, uint32(n%b.depth))...)
		}
	case "br_table", "br_table-32", "br_table-wide":
		if !b.room(1) {
			return
		}
		targets := map[string]int{"br_table": 2, "br_table-32": 32, "br_table-wide": 4000}[unitNames[u]]
		f.Block("", wasmasm.Void).I32(0).Op(0x0e)
		f.Op(wasmasm.AppendU32(nil, uint32(targets))...)
		for i := range targets + 1 {
			// The last target is the innermost block, so that the code after it is reachable.
			if b.depth > 0 && i < targets {
				f.Op(wasmasm.AppendU32(nil, uint32((n+i)%(b.depth+1)))...)
			} else {
				f.Op(0)
			}
		}
		f.End()
	case "load":
		f.I32(0).Memory(wasmasm.I32Load, 2, uint32(n&63))
		b.sink(wasmasm.I32)
	case "load-chain":
		f.I32(0)
		for range 8 {
			f.Memory(wasmasm.I32Load, 2, 0)
		}
		b.sink(wasmasm.I32)
	case "load-far":
		f.I32(0).Memory(wasmasm.I32Load, 0, 0xffff_fff0+uint32(n&7))
		b.sink(wasmasm.I32)
	case "f64-load":
		f.I32(0).I32(0).Memory(f64Load, 3, 0).Memory(f64Store, 3, 8)
	case "store":
		f.I32(0)
		b.get(n)
		f.Memory(wasmasm.I64Store, 3, 0)
	case "call":
		b.args(0)
		f.Call(b.m.first)
		b.result()
	case "call-args":
		b.args(n)
		f.Call(b.m.first)
		b.result()
	case "call-import":
		f.I64(0).I64(0).Call(b.m.imports[0])
	case "call-block":
		f.Call(b.m.imports[1])
		b.set(n)
	case "call_indirect":
		b.args(n)
		f.I32(int32(n & 63)).CallIndirect(b.m.kind)
		b.result()
	case "sqrt":
		f.Op(f64Const0, 0, 0, 0, 0, 0, 0, 0, 0, wasmasm.F64Sqrt)
		b.sink(wasmasm.F64)
	case "sqrt-chain":
		f.Op(f64Const0, 0, 0, 0, 0, 0, 0, 0, 0)
		for range 1000 {
			f.Op(wasmasm.F64Sqrt)
		}
		b.sink(wasmasm.F64)
	case "f32-chain":
		f.F32(1)
		for range 500 {
			f.Op(wasmasm.F32Sqrt, 0x8d)
		}
		b.sink(wasmasm.F32)
	case "f64-add":
		f.I32(0)
		f.Op(0xb7) // f64.convert_i32_s
		for range 30 {
			f.I32(1).Op(0xb7, f64Add)
		}
		b.sink(wasmasm.F64)
	case "f64-min":
		f.F64(1)
		for range 30 {
			f.I32(1).Op(0xb7, f64Min)
		}
		b.sink(wasmasm.F64)
	case "f64-ceil":
		f.F64(1)
		for range 100 {
			f.Op(f64Ceil)
		}
		b.sink(wasmasm.F64)
	case "f64-convert":
		f.I64(1)
		for range 100 {
			f.Op(f64ConvertU64).Op(0xfc, 7)
		}
		b.sink(wasmasm.I64)
	case "f64-trunc":
		f.F64(1)
		for range 30 {
			f.Op(i64TruncF64U, f64ConvertU64)
		}
		b.sink(wasmasm.F64)
	case "f64-sat":
		f.F64(1)
		for range 100 {
			f.Op(0xfc, 3, 0xb7)
		}
		b.sink(wasmasm.F64)
	case "copysign":
		f.F64(1)
		for range 30 {
			f.I32(1).Op(0xb7, f64CopySign)
		}
		b.sink(wasmasm.F64)
	case "f64-compare":
		f.I32(0)
		for range 30 {
			f.Op(0xb7).I32(1).Op(0xb7, 0x61)
		}
		b.sink(wasmasm.I32)
	case "f32-promote":
		f.F64(1)
		for range 100 {
			f.Op(f32Demote, f64Promote)
		}
		b.sink(wasmasm.F64)
	case "i64-mul":
		b.get(n)
		b.get(n + 1)
		f.Op(wasmasm.I64Mul)
		b.set(n)
	case "i64-div":
		b.get(n)
		f.I64(3).Op(i64DivU)
		b.set(n)
	case "i64-rem":
		b.get(n)
		b.get(n + 1)
		f.Op(i64RemS)
		b.set(n + 2)
	case "i64-rotl":
		b.get(n)
		b.get(n + 1)
		f.Op(i64Rotl)
		b.set(n + 2)
	case "popcnt":
		f.I64(1)
		for range 100 {
			f.Op(i64Popcnt)
		}
		b.sink(wasmasm.I64)
	case "i64-chain":
		f.I64(1)
		for range 100 {
			f.Op(wasmasm.I64Eqz, wasmasm.I64ExtendI)
		}
		b.sink(wasmasm.I64)
	case "local-move":
		b.get(n)
		b.set(n*7 + 1)
	case "local-sum":
		b.get(n)
		b.get(n * 3)
		f.Op(wasmasm.I64Add)
		b.set(n)
	case "local-tee":
		f.I64(1)
		for k := range 8 {
			if i, ok := b.index(n+k, wasmasm.I64); ok {
				f.Tee(i)
			}
		}
		f.Op(wasmasm.Drop)
	case "local-f64", "local-f64-sum":
		if i, ok := b.index(n, wasmasm.F64); ok {
			f.Get(i)
			if unitNames[u] == "local-f64-sum" {
				f.Get(i).Op(f64Mul)
			} else {
				f.Op(wasmasm.F64Sqrt)
			}
			f.Set(i)
		}
	case "global":
		f.GlobalGet(uint32(n & 3)).GlobalSet(uint32((n + 1) & 3))
	case "global-chain":
		f.GlobalGet(0)
		for k := range 8 {
			f.GlobalGet(uint32(k & 3)).Op(wasmasm.I64Add)
		}
		f.GlobalSet(1)
	case "select":
		b.get(n)
		b.get(n + 1)
		f.I32(1).Op(wasmasm.Select)
		b.set(n + 2)
	case "select-chain":
		f.I64(1)
		for range 30 {
			f.I64(2).I32(0).Op(wasmasm.Select)
		}
		b.sink(wasmasm.I64)
	case "select-f64":
		f.I32(1).Op(0xb7)
		for range 30 {
			f.I32(1).Op(0xb7).I32(0).Op(wasmasm.Select)
		}
		b.sink(wasmasm.F64)
	case "memory.size":
		f.MemorySize()
		b.sink(wasmasm.I32)
	case "memory.grow":
		f.I32(0).MemoryGrow()
		b.sink(wasmasm.I32)
	case "memory.fill":
		f.I32(0).I32(0).I32(0).Bulk(wasmasm.MemoryFill, 0)
	case "memory.copy":
		f.I32(0).I32(0).I32(0).Bulk(wasmasm.MemoryCopy, 0, 0)
	case "memory.init":
		f.I32(0).I32(0).I32(0).Bulk(wasmasm.MemoryInit, uint32(b.m.passive()), 0)
	case "data.drop":
		f.Bulk(wasmasm.DataDrop, uint32(b.m.passive()))
	case "table.get":
		f.I32(int32(n&63)).Op(tableGet, 0, wasmasm.Drop)
	case "table.set":
		f.I32(int32(n&63)).RefNull(wasmasm.FuncRef).Op(tableSet, 0)
	case "table.grow":
		f.RefNull(wasmasm.FuncRef).I32(0).Bulk(wasmasm.TableGrow, 0).Op(wasmasm.Drop)
	case "table.fill":
		f.I32(0).RefNull(wasmasm.FuncRef).I32(0).Bulk(wasmasm.TableFill, 0)
	case "table.size":
		f.Bulk(wasmasm.TableSize, 0)
		b.sink(wasmasm.I32)
	case "table.copy":
		f.I32(0).I32(0).I32(0).Bulk(wasmasm.TableCopy, 0, 0)
	case "ref.func":
		f.RefFunc(b.m.first).Op(wasmasm.Drop)
	case "const":
		f.I32(1).Op(wasmasm.Drop)
	case "const-f64":
		f.F64(float64(n)).Op(wasmasm.Drop)
	case "nop":
		f.Op(wasmasm.Nop)
	case "many-consts":
		for k := range 60 {
			f.I64(int64(n*k) << 20)
		}
		for range 59 {
			f.Op(wasmasm.I64Add)
		}
		b.set(n)
	case "return", "if-return":
		if b.room(1) {
			b.get(n)
			f.Op(wasmasm.I64Eqz).If("", wasmasm.Void)
			if b.m.s.Result {
				b.get(n)
			}
			f.Op(wasmasm.Return).End()
		}
	case "unreachable":
		if b.room(1) {
			f.I32(0).If("", wasmasm.Void).Op(wasmasm.Unreachable).End()
		}
	case "dead-br":
		if b.room(1) {
			f.Block("", wasmasm.Void).Op(0x0c, 0, wasmasm.Unreachable, wasmasm.I64Add, wasmasm.Drop).End()
		}
	case "live-swap":
		if b.m.s.Live > 1 && b.depth == 0 {
			f.Op(wasmasm.Drop)
			b.live(n)
		}
	case "live-add":
		if b.m.s.Live > 2 && b.depth == 0 {
			f.Op(b.add())
			b.live(n)
		}
	case "held-if", "held-value", "held-br_if", "held-br_table", "held-call", "held-call-100", "held-call_indirect",
		"held-table.get", "held-ref",
		"held-memory.grow", "held-memory.copy", "held-trunc", "held-return", "held-f64", "held-arguments", "held-div", "div-chain", "rem-chain",
		"shl-chain", "load-tree", "held-many":
		b.held(unitNames[u], n)
	case "params":
		if b.params > 0 {
			b.get(n % b.params)
			b.set((n*5 + 1) % b.params)
		}
	case "compare":
		b.get(n)
		b.get(n + 1)
		f.Op(wasmasm.I64LtU, wasmasm.I64ExtendU)
		b.set(n + 2)
	case "wrap":
		b.get(n)
		f.Op(wasmasm.I32WrapI64, wasmasm.I64ExtendU)
		b.set(n + 1)
	case "drops":
		for range 30 {
			b.get(n)
		}
		for range 30 {
			f.Op(wasmasm.Drop)
		}
	}
}
