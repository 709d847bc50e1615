package engine_test

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/troupe-chain/troupe/internal/testkit/contracts/wasmasm"
)

// branchGenerator writes a random module that consists mostly of branches, to blocks of any depth
// and result types, with and without extra operands on the stack, in reachable and unreachable
// code. A loop may be endless; then the gas ends the run.
type branchGenerator struct {
	program
	stack []wasmasm.ValType // of the operands that are known
	open  []level
}

// level is a block that is being written.
type level struct {
	result, label wasmasm.ValType // 0: none
	height        int
	dead          bool // what follows in it cannot be reached
	op            byte
	more          int // statements that it is still to have
}

// newBranchGenerator returns the module for a seed.
func newBranchGenerator(seed uint64) []byte {
	t := &branchGenerator{program: program{r: rand.New(rand.NewPCG(seed, 11)), m: &wasmasm.Module{}}}
	for i, v := range []wasmasm.ValType{wasmasm.I32, wasmasm.I64, wasmasm.I32, wasmasm.I64} {
		t.out[i] = t.m.Import("env", []string{"i32", "i64", "f32", "f64"}[i], []wasmasm.ValType{v}, nil)
	}
	t.m.Memory(1, -1)
	t.first = 4
	var made []*wasmasm.Func
	for range 3 {
		k := kind{}
		for range t.n(9) {
			k.params = append(k.params, t.typ())
		}
		if !t.one(3) {
			k.result = t.typ()
		}
		t.funcs = append(t.funcs, k)
		made = append(made, t.m.Func(k.params, k.results()))
	}
	main := t.m.Func(nil, nil)
	for i, f := range append(made, main) {
		k := kind{}
		if f != main {
			k = t.funcs[i]
		}
		t.write(f, k, 30+t.n(200))
	}
	t.m.ExportFunc("main", main)
	return t.m.Encode()
}

func (t *branchGenerator) top() *level { return &t.open[len(t.open)-1] }

func (t *branchGenerator) push(v wasmasm.ValType) { t.stack = append(t.stack, v) }

// write writes a function.
func (t *branchGenerator) write(f *wasmasm.Func, k kind, length int) {
	t.f, t.local = f, slices.Clone(k.params)
	for range 1 + t.n(6) {
		v := t.typ()
		n := uint32(1 + t.n(3))
		f.Run(n, v)
		for range n {
			t.local = append(t.local, v)
		}
	}
	t.stack, t.open = nil, []level{{result: k.result, label: k.result, more: length}}
	for {
		if l := t.top(); l.more > 0 && len(t.open) < 40 {
			l.more--
			t.step()
			continue
		}
		if len(t.open) == 1 {
			for i, v := range t.local {
				if t.one(2) {
					t.f.Get(uint32(i))
					t.report(v)
				}
			}
			t.level(k.result)
			return
		}
		t.end()
	}
}

// take makes the operands on top of the stack have the given types, and pops them in the model.
func (t *branchGenerator) take(want ...wasmasm.ValType) {
	l := t.top()
	have := t.stack[l.height:]
	if n := len(have); n >= len(want) && slices.Equal(have[n-len(want):], want) {
		t.stack = t.stack[:len(t.stack)-len(want)]
		return
	}
	if l.dead && len(have) == 0 && t.one(2) {
		return // whatever is wanted is there
	}
	for _, v := range want {
		t.leaf(v)
	}
}

// leaf pushes a value of type v and does not add it to t.stack.
func (t *branchGenerator) leaf(v wasmasm.ValType) {
	if at, ok := t.of(v); ok && !t.one(3) {
		t.f.Get(at)
	} else {
		t.constant(v)
	}
}

// level removes all operands of the current block except its results.
func (t *branchGenerator) level(result wasmasm.ValType) {
	l := t.top()
	have := t.stack[l.height:]
	if result != 0 && len(have) == 1 && have[0] == result {
		return
	}
	if len(have) == 0 && l.dead && t.one(2) {
		return
	}
	if result != 0 && len(have) > 1 && have[len(have)-1] == result && t.one(2) { // by a branch, over what is left
		t.f.Op(0x0c, 0)
		t.stack = t.stack[:l.height]
		return
	}
	for range have {
		t.f.Op(wasmasm.Drop)
	}
	t.stack = t.stack[:l.height]
	if result != 0 {
		t.leaf(result)
	}
}

func (t *branchGenerator) end() {
	l := *t.top()
	t.level(l.result)
	t.stack = t.stack[:l.height]
	if l.op == 0x04 && (l.result != 0 || t.one(2)) {
		t.f.Else()
		*t.top() = level{result: l.result, label: l.label, height: l.height, op: 0x05, more: t.n(6)}
		return
	}
	t.f.End()
	t.open = t.open[:len(t.open)-1]
	if l.result != 0 {
		t.push(l.result)
	}
}

// markUnreachable marks the rest of the block as unreachable.
func (t *branchGenerator) markUnreachable() {
	l := t.top()
	l.dead = true
	t.stack = t.stack[:l.height]
	l.more = min(l.more, 4)
}

func (t *branchGenerator) begin(op byte) {
	var result wasmasm.ValType
	b := wasmasm.ValType(wasmasm.Void)
	if !t.one(3) {
		result = t.typ()
		b = result
	}
	if op == 0x04 {
		t.take(wasmasm.I32)
	}
	label := result
	switch op {
	case 0x02:
		t.f.Block("", byte(b))
	case 0x03:
		t.f.Loop("", byte(b))
		label = 0
	case 0x04:
		t.f.If("", byte(b))
	}
	t.open = append(t.open, level{result: result, label: label, height: len(t.stack), op: op, more: t.n(10)})
}

// depths returns the depths of the open blocks whose branches take a value of that type.
func (t *branchGenerator) depths(label wasmasm.ValType) (out []uint32) {
	for i := range t.open {
		if l := t.open[len(t.open)-1-i]; l.label == label {
			out = append(out, uint32(i))
		}
	}
	return out
}

// step writes a statement.
func (t *branchGenerator) step() {
	v := t.typ()
	switch t.n(22) {
	case 0, 1, 2, 3:
		t.leaf(v)
		t.push(v)
	case 4:
		t.begin(0x02)
	case 5:
		t.begin(0x03)
	case 6:
		t.begin(0x04)
	case 7, 8, 9: // br_if
		d := t.n(len(t.open))
		label := t.open[len(t.open)-1-d].label
		if label == 0 {
			t.take(wasmasm.I32)
			t.op(0x0d, uint32(d))
			return
		}
		t.take(label, wasmasm.I32)
		t.op(0x0d, uint32(d))
		t.push(label)
	case 10: // br_table
		d := t.n(len(t.open))
		label := t.open[len(t.open)-1-d].label
		if label == 0 {
			t.take(wasmasm.I32)
		} else {
			t.take(label, wasmasm.I32)
		}
		all := t.depths(label)
		n := t.n(6)
		t.op(0x0e, uint32(n))
		for range n + 1 {
			t.u32(all[t.n(len(all))])
		}
		t.markUnreachable()
	case 11:
		d := t.n(len(t.open))
		if label := t.open[len(t.open)-1-d].label; label != 0 {
			t.take(label)
		}
		t.op(0x0c, uint32(d))
		t.markUnreachable()
	case 12:
		if t.one(6) {
			if result := t.open[0].result; result != 0 {
				t.take(result)
			}
			t.f.Op(wasmasm.Return)
			t.markUnreachable()
		}
	case 13:
		if at, ok := t.of(v); ok {
			t.take(v)
			if t.one(2) {
				t.f.Set(at)
			} else {
				t.f.Tee(at)
				t.push(v)
			}
		}
	case 14:
		t.take(v)
		t.report(v)
	case 15:
		t.take(v, v, wasmasm.I32)
		t.f.Op(wasmasm.Select)
		t.push(v)
	case 16:
		n := t.n(len(t.funcs))
		k := t.funcs[n]
		t.take(k.params...)
		if t.f.Call(t.first + uint32(n)); k.result != 0 {
			t.push(k.result)
		}
	case 17:
		t.take(wasmasm.I32)
		t.f.I32(math.MaxUint16-7).Op(0x71).Memory(0x29, 0, 0)
		t.push(wasmasm.I64)
	default:
		ops := byResult[v]
		op := ops[t.n(len(ops))]
		in, two, traps := numericOf(op)
		if traps && !t.one(10) {
			return
		}
		if two {
			t.take(in, in)
		} else {
			t.take(in)
		}
		t.f.Op(op)
		t.push(v)
	}
}
